"""The part of the page on packed sequences: tokens of the text, and tokens in the rows."""

from __future__ import annotations

from flows.report import markup
from flows.report.markup import Table
from flows.report.read import by_language
from flows.report.totals import percent
from pipelines.core.manifest import StageRecord

COLUMNS = {
    "tokens": "text tokens",
    "sequences": "sequences",
    "row_tokens": "tokens in rows",
    "slots": "fill",
    "held_out_tokens": "held-out text tokens",
    "held_out_sequences": "held-out sequences",
    "held_out_row_tokens": "held-out tokens in rows",
}
"""Titles by counter of the pack stage; fill is a share of the slots."""


def packed_section(record: StageRecord) -> str:
    """Counts of all languages, and of each."""
    found = {name: by_language(record, name) for name in COLUMNS}
    tags = {tag for counts in found.values() for tag in counts}
    rows = [
        _row(tag, {name: counts.get(tag, 0) for name, counts in found.items()})
        for tag in sorted(tags, key=lambda tag: (-found["tokens"].get(tag, 0), tag))
    ]
    whole = _row("all languages", {name: sum(counts.values()) for name, counts in found.items()})
    columns = ("language", *COLUMNS.values())
    return markup.section(
        "Packed sequences",
        markup.paragraph(
            "Text tokens are the ordinary tokens of the documents. Tokens in rows are what the "
            "packed files hold: special tokens too, and in mode pairs the text that a pair borrows "
            "from another document. Fill is tokens in rows by slots, a slot being a place in a "
            "sequence of full length."
        ),
        markup.table(Table(columns, [whole])),
        markup.details("by language", markup.table(Table(columns, rows))),
    )


def _row(name: str, counts: dict[str, int]) -> list[object]:
    slots = counts["slots"]
    fill = percent(counts["row_tokens"] / slots) if slots else None
    return [name, *(fill if key == "slots" else count for key, count in counts.items())]
