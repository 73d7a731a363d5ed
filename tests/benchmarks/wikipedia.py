"""Wikitext to running text: speed and text of ours against mwparserfromhell, on the same pages.

The peer is mwparserfromhell's parse and strip_code, with what its users take out first: files,
categories, links to other languages, references, tables, galleries, headings and magic words.
"""

from __future__ import annotations

import importlib
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.core.records import Shard
from pipelines.sources.wikipedia import Wikipedia
from pipelines.sources.wikitext import to_article
from pipelines.sources.wikitext.mediawiki_names import HIDDEN
from tests.benchmarks.machine import Skipped
from tests.pipelines.sources.wikitext_gold import GOLD

FILES = (
    "smallwiki-latest-pages-articles.xml.bz2",
    "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2",
    "itwiki-small-dump.xml.gz",
)
DROPPED = {"ref", "table", "gallery", "math", "timeline", "score", "source", "syntaxhighlight"}
RESIDUE = {
    "braces": re.compile(r"\{\{|\}\}"),
    "brackets": re.compile(r"\[\[|\]\]"),
    "file options": re.compile(r"\bthumb\b|\d+px\b|\b(?:left|right)\|"),
    "bars": re.compile(r"^\s*\||\|\|", re.MULTILINE),
    "references": re.compile(r"</?ref\b"),
    "apostrophes": re.compile(r"''"),
    "entities": re.compile(r"&(?:nbsp|amp|lt|gt|ndash|mdash);"),
    "headings": re.compile(r"^==|==$", re.MULTILINE),
    "empty brackets": re.compile(r"\(\s*[,;]?\s*\)|\(\s*[,;]"),
}
Pages = list[tuple[str, frozenset[str]]]
Cleaner = Callable[[str, frozenset[str]], str]


def run(data: Path) -> dict[str, Any]:
    """Megabytes of wikitext and pages a second of one core, residue, and token F1 of both.

    Raises:
        Skipped: mwparserfromhell or the dumps are not here.
    """
    peer = _peer()
    pages = _pages(data)
    size = sum(len(text.encode()) for text, _ in pages)
    ours, our_seconds = _timed(_ours, pages)
    theirs, their_seconds = _timed(peer, pages)
    _, bare_seconds = _timed(_bare_peer(), pages)
    return {
        "pages": len(pages),
        "megabytes of wikitext": round(size / 1e6, 2),
        "ours, MB/s": round(size / 1e6 / our_seconds, 2),
        "ours, pages/s": round(len(pages) / our_seconds, 1),
        "mwparserfromhell, MB/s": round(size / 1e6 / their_seconds, 2),
        "mwparserfromhell, pages/s": round(len(pages) / their_seconds, 1),
        "speed ratio": round(their_seconds / our_seconds, 2),
        "speed ratio to parse and strip_code alone": round(bare_seconds / our_seconds, 2),
        "ours, residue": _residue(ours),
        "mwparserfromhell, residue": _residue(theirs),
        "agreement of both, token F1": round(_mean(ours, theirs), 4),
        "ours against gold, token F1": _against_gold(_ours),
        "mwparserfromhell against gold, token F1": _against_gold(peer),
    }


def _pages(data: Path) -> Pages:
    pages: Pages = []
    for name in FILES:
        path = data / "wiki" / name
        if not path.exists():
            raise Skipped(f"{path} is not here")
        shard = Shard(name, "", "wikipedia", "wikipedia")
        pages += [
            (page.content.decode(), page.namespaces)
            for page in Wikipedia().read_pages(path, shard, Counter(), [], 10**8)
        ]
    return pages


def _ours(text: str, namespaces: frozenset[str]) -> str:
    return "\n".join(to_article(text, namespaces).paragraphs)


def _peer() -> Cleaner:
    try:
        parser = importlib.import_module("mwparserfromhell")
    except ImportError:
        raise Skipped("mwparserfromhell is not installed") from None

    def clean(text: str, namespaces: frozenset[str]) -> str:
        code = parser.parse(text, skip_style_tags=False)
        hidden = HIDDEN | namespaces

        def unwanted(node: Any) -> bool:
            if isinstance(node, parser.nodes.Heading):
                return True
            if isinstance(node, parser.nodes.Wikilink):
                prefix, colon, _ = str(node.title).strip().partition(":")
                return bool(colon) and (
                    prefix.lower() in hidden or re.fullmatch(r"[a-z-]{2,12}", prefix) is not None
                )
            return isinstance(node, parser.nodes.Tag) and str(node.tag).lower() in DROPPED

        for node in code.ifilter(matches=unwanted, recursive=True):
            try:
                code.remove(node)
            except ValueError:
                continue  # it was inside one that is gone
        return re.sub(r"__[A-Z]+__", "", str(code.strip_code()))

    return clean


def _bare_peer() -> Cleaner:
    """The least that the peer can do: nothing is taken out before."""
    parser = importlib.import_module("mwparserfromhell")
    return lambda text, namespaces: str(parser.parse(text).strip_code())


def _timed(cleaner: Cleaner, pages: Pages) -> tuple[list[str], float]:
    """(texts, seconds of this process): other processes of the machine do not count."""
    start = time.process_time()
    texts = [cleaner(text, namespaces) for text, namespaces in pages]
    return texts, time.process_time() - start


def _residue(texts: list[str]) -> dict[str, int]:
    counts = {name: sum(len(p.findall(text)) for text in texts) for name, p in RESIDUE.items()}
    return {"all": sum(counts.values()), **{name: n for name, n in counts.items() if n}}


def tokens(text: str) -> Counter[str]:
    """Words, and each sign of scripts without spaces and each mark, as often as they stand."""
    return Counter(re.findall(r"[\u3040-\u9fff]|\w+|[^\w\s]", text))


def f1(text: str, right: str) -> float:
    """Harmonic mean of the share of `text` that is right and the share of `right` that is there."""
    found, wanted = tokens(text), tokens(right)
    total = found.total() + wanted.total()
    return 2 * (found & wanted).total() / total if total else 1.0


def _mean(left: list[str], right: list[str]) -> float:
    return sum(f1(a, b) for a, b in zip(left, right, strict=True)) / max(1, len(left))


def _against_gold(cleaner: Cleaner) -> dict[str, float]:
    scores = {
        language: round(f1(cleaner(text, frozenset()), right), 4) for language, text, right in GOLD
    }
    return {"mean": round(sum(scores.values()) / len(scores), 4), **scores}
