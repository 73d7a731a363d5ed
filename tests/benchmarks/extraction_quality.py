"""Does the text of a page come out, and nothing else? Token F1 against the article's own element.

F1 over bags of words (of characters where words are not separated by blanks), as in SQuAD's
scoring, averaged over pages; resiliparse and trafilatura on the same pages.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import Any

import regex

from pipelines.config import ExtractionSection
from pipelines.core.hashing import stable_uint64
from pipelines.extract.documents import TextExtractor
from pipelines.sources.base import RawPage
from tests.benchmarks.help_pages import HelpPage, help_pages

PAGES = 600
UNSPACED = frozenset({"ja", "zh-cn", "zh-tw", "km", "dz"})
WORD = regex.compile(r"\w+")


def run(data: Path) -> dict[str, Any]:
    """Precision, recall, F1 and seconds of both extractors."""
    pages = sorted(help_pages(), key=lambda page: stable_uint64("quality", page.url))[:PAGES]
    figures: dict[str, Any] = {"pages": len(pages), "languages": len({p.language for p in pages})}
    for name in ("resiliparse", "trafilatura"):
        counters: Counter[str] = Counter()
        scores, began = [], time.monotonic()
        with TextExtractor(
            ExtractionSection(extractor=name, min_characters=1), counters
        ) as extractor:
            for page in pages:
                raw = RawPage(
                    url=page.url,
                    offset=0,
                    content=page.content,
                    content_kind="html",
                    charset="utf-8",
                )
                scores.append(score(extractor.text_of(raw) or "", page))
        figures[name] = {
            "precision": mean(s[0] for s in scores),
            "recall": mean(s[1] for s in scores),
            "f1": mean(s[2] for s in scores),
            "seconds": time.monotonic() - began,
            "pages_without_text": sum(s[2] == 0 for s in scores),
            "dropped": dict(counters),
        }
    figures["speed_ratio"] = figures["trafilatura"]["seconds"] / figures["resiliparse"]["seconds"]
    return figures


def score(text: str, page: HelpPage) -> tuple[float, float, float]:
    """Precision, recall and F1 of a text against the page's body, over bags of tokens."""
    found, wanted = (tokens(part, page.language) for part in (text, page.body or ""))
    common = (found & wanted).total()
    if not common:
        return (0.0, 0.0, 0.0)
    precision, recall = common / found.total(), common / wanted.total()
    return (precision, recall, 2 * precision * recall / (precision + recall))


def tokens(text: str, language: str) -> Counter[str]:
    """Words of a text, or its letters where words are not separated."""
    words = WORD.findall(text)
    return Counter("".join(words)) if language in UNSPACED else Counter(words)
