"""The 250,000-piece vocabulary against XLM-R's, on text that it was not trained on.

Writes the tables to pipelines/train_vocabulary/REPORT.md as well.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from pipelines.core.vocabulary import Vocabulary
from pipelines.train_vocabulary.report import vocabulary_report
from tests.benchmarks import vocabulary
from tests.benchmarks.foreign_text import Line, declarations, news, tag_of, verses
from tests.benchmarks.help_lines import help_lines
from tests.benchmarks.vocabulary_page import page_of
from tests.benchmarks.xlmr_vocabulary import xlmr_model

PAGE = Path(__file__).resolve().parents[2] / "pipelines" / "train_vocabulary" / "REPORT.md"


def run(data: Path) -> dict[str, Any]:
    """Measure both vocabularies on four sets of text; trains ours where that has not been done.

    Raises:
        Skipped: the help pages, or XLM-R's table of pieces, cannot be had here.
    """
    theirs = Vocabulary(xlmr_model(data))
    if not vocabulary.MODEL.is_file():
        vocabulary.run(data)
    ours = Vocabulary(vocabulary.MODEL.read_bytes())
    lines: tuple[list[Line], list[Line]] = ([], [])
    for held_out, name, line in help_lines():
        tag = tag_of(name)
        assert tag is not None, name
        lines[held_out].append((tag, line))
    seen = {line for _, line in lines[False]}
    characters: dict[str, Counter[int]] = {}
    for tag, line in dict.fromkeys(lines[False]):
        characters.setdefault(tag, Counter()).update(map(ord, line))
    new = [row for row in lines[True] if row[1] not in seen]
    report = vocabulary_report(ours, new, characters, theirs)
    figures = {
        "training": {
            "languages": len(characters),
            "distinct_lines": len(seen),
            "bytes": sum(len(line.encode("utf-8")) for line in seen),
        },
        "text": {"help": measured(report)},
        **{name: report[name] for name in ("pieces", "pieces_by", "examples", "coverage")},
        "xlmr_pieces_by": vocabulary_report(theirs, new)["pieces_by"],
    }
    for name, texts in (("udhr", declarations), ("bible", verses), ("sib200", news)):
        known = (row for row in texts(data) if row[0] in characters)
        figures["text"][name] = measured(vocabulary_report(ours, known, compare_with=theirs))
    PAGE.write_text(page_of(figures), encoding="utf-8")
    return figures


def measured(report: dict[str, Any]) -> dict[str, Any]:
    """The part of a report about a set of text."""
    return {"totals": report["totals"], "languages": report["languages"]}
