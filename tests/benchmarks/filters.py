"""The filter chains on documents of 4 kB: documents a second and core, beside datatrove's.

The peer is datatrove's GopherRepetitionFilter, GopherQualityFilter and C4QualityFilter on the same
English documents, each filter on every document, as `full` here does for those that none drops.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from pipelines.config import FilterConfig
from pipelines.core.records import Document
from pipelines.filters import FILTERS, Chain
from tests.benchmarks.machine import Skipped, bench_python, on_one_core

PRESET = Path(__file__).resolve().parents[2] / "flows" / "runs" / "demo.toml"
PEER = Path(__file__).with_name("datatrove_filters.py")
LANGUAGES = {"en": "en", "de": "de", "ru": "ru", "ja": "ja", "zh-Hans": "zh_CN"}
"""Language tags and names of files of Debian's package descriptions."""
DOCUMENT_BYTES = 4000
MOST_DOCUMENTS = 400
LEAST_CHARACTERS = 80
ROUNDS = 2
NEEDED = {"url_blocklist": {"domains": ["bad.example"], "words": ["casino"]}}
GOPHER_AND_C4 = (
    *("length", "word_length", "symbols", "bullets", "letters", "stop_words", "repetition"),
    *("line_quality", "lines"),
)
"""The sections that do what the peer's three filters do."""

Sections: TypeAdapter[list[FilterConfig]] = TypeAdapter(list[FilterConfig])


def run(data: Path) -> dict[str, Any]:
    """Measure the demo's chain and all filters by language, each filter in English, and the peer.

    Raises:
        Skipped: the texts or the peer are not there.
    """
    python, folder = bench_python(), data / "text" / "ddtp"
    if not folder.is_dir():
        raise Skipped(f"{folder} is not there")
    demo = tomllib.loads(PRESET.read_text(encoding="utf-8"))["filters"]
    full = [{"kind": kind, **NEEDED.get(kind, {})} for kind in FILTERS]
    like_peer = [{"kind": kind} for kind in GOPHER_AND_C4]
    texts = {tag: list(documents_of(folder, name)) for tag, name in LANGUAGES.items()}
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "documents.json"
        file.write_text(json.dumps(texts["en"]), encoding="utf-8")
        command = on_one_core([python, str(PEER), str(file), str(ROUNDS)])
        peer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    figures: dict[str, Any] = {"documents_per_second": {}}
    for tag, own in texts.items():
        figures["documents_per_second"][tag] = {
            "documents": len(own),
            "demo": speed(own, tag, demo),
            "full": speed(own, tag, full),
        }
    figures["microseconds_of_each_filter"] = {
        section["kind"]: 1e6 / speed(texts["en"], "en", [section]) for section in full
    }
    ours = speed(texts["en"], "en", like_peer)
    figures["datatrove"] = {
        "documents_per_second": {**peer["documents_per_second"], "all": peer["all"]},
        "ours_on_the_same_rules": ours,
        "ratio": ours / peer["all"],
        "same_verdict_on_repetition": agreement(texts["en"], peer["repetition"]),
    }
    return figures


def documents_of(folder: Path, name: str) -> Iterator[str]:
    """Documents of about 4 kB from package descriptions, each line used once."""
    seen: set[str] = set()
    parts: list[str] = []
    size = number = 0
    with lzma.open(folder / f"Translation-{name}.xz", "rt", encoding="utf-8") as file:
        for block in file.read().split("\n\n"):
            lines = [line[1:] for line in block.split("\n") if line.startswith(" ")]
            new = [line for line in dict.fromkeys(lines) if line not in seen and line != "."]
            seen.update(new)
            text = "\n".join(new)
            if len(text) < LEAST_CHARACTERS:
                continue
            parts.append(text)
            size += len(text.encode("utf-8"))
            if size >= DOCUMENT_BYTES:
                yield "\n\n".join(parts)
                parts, size, number = [], 0, number + 1
            if number == MOST_DOCUMENTS:
                return


def pages(texts: Sequence[str], language: str) -> list[Document]:
    """New documents, because filters may change them and remember texts."""
    return [
        Document(
            id=str(number),
            text=text,
            source="bench",
            url=f"https://packages.example/{number}/description.html",
            shard="x",
            offset=number,
            language=language,
            language_score=1.0,
        )
        for number, text in enumerate(texts)
    ]


def speed(texts: Sequence[str], language: str, sections: Sequence[dict[str, Any]]) -> float:
    """Documents per second of processor time, the best of some rounds."""
    chain = Chain(Sections.validate_python(sections))
    for page in pages(texts[:20], language):  # tables and lists are made once in a process
        chain.reason_to_drop(page, Counter())
    best = 0.0
    for _ in range(ROUNDS):
        members = pages(texts, language)
        began = time.process_time()
        for page in members:
            chain.reason_to_drop(page, Counter())
        best = max(best, len(members) / (time.process_time() - began))
    return best


def agreement(texts: Sequence[str], peer_keeps: Sequence[bool]) -> float:
    """The share of documents on which both keep, or both drop, for repetition."""
    chain = Chain(Sections.validate_python([{"kind": "repetition"}]))
    ours = [chain.reason_to_drop(page, Counter()) is None for page in pages(texts, "en")]
    same = sum(one == other for one, other in zip(ours, peer_keeps, strict=True))
    return same / len(ours)
