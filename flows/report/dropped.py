"""Everything that the stages of a run say they did not pass on, each with its unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flows.report.read import RunView

HELD_OUT = "held_out_"
"""Before a counter of text that is held out."""

RECORDS_LEADS = ("dropped.", "rejected.")
"""Counters that begin so count what went no further, by reason."""

PARTS = ("dropped_paragraphs.", "dropped_lines.", "dropped_sentences.", "dropped_characters.")
"""Counters that begin so count parts of documents that went on without them."""

LOST = ("lost", "excluded", "empty", "skipped", "damaged", "truncated", "cut")
"""Counters with such a word in their name count something else that went missing (bytes, say)."""

UNITS = {"finetune": "examples", "vocabulary": "words", "balance": "languages"}
"""What a stage counts when a counter's name has no unit; other stages count documents."""

PARTS_OF_TEXT = (
    *("bytes", "characters", "tokens", "words", "lines", "sentences", "paragraphs"),
    *("documents", "sequences"),
)
"""Units that a counter names as its first or last word."""

DAMAGED = {"file": "files", "dump": "files", "range": "files", "stream": "streams"}
"""Units of damage, by the last word of a counter's name."""

RECORDS = ("documents", "examples")
"""Units that the picture shows: what a stage takes and passes on one by one."""


@dataclass(frozen=True)
class Dropped:
    """Something that a stage did not pass on."""

    stage: str
    reason: str
    count: int
    unit: str
    """What is counted: documents, words, bytes ..."""
    counts_records: bool = False
    """Whether these are whole records of the stage (`RECORDS`), which went no further."""


def dropped(view: RunView) -> list[Dropped]:
    """Everything the stages say they did not pass on: by stage, then unit, the most first.

    A counter that is only kept by language is added up; what never happened is left out.
    """
    rows = []
    for stage in view.stages:
        if stage.record is not None:
            own = [row for row in _of_stage(stage.name, stage.record.counters) if row.count]
            rows += sorted(own, key=lambda row: (row.unit, -row.count, row.reason))
    return rows


def _of_stage(stage: str, counters: Mapping[str, int]) -> Iterator[Dropped]:
    for full, count in _totals(counters).items():
        name = full.removeprefix(HELD_OUT)
        where = " (held out)" if name != full else ""
        lead = next((lead for lead in RECORDS_LEADS if name.startswith(lead)), None)
        if lead is not None:
            reason = name.removeprefix(lead)
            unit = "documents" if lead == "rejected." else unit_of(stage, reason)
            yield Dropped(stage, f"{reason}{where}", count, unit, unit in RECORDS)
        elif name.startswith(PARTS):
            unit, _, reason = name.removeprefix("dropped_").partition(".")
            yield Dropped(stage, f"{reason}{where}", count, unit)
        elif name.startswith("lost.") or any(word in name.split("_") for word in LOST):
            unit = unit_of(stage, name.removeprefix("lost."))
            yield Dropped(stage, f"{name}{where}", count, unit)


def _totals(counters: Mapping[str, int]) -> Counter[str]:
    """Counters without those by language, but for what is dropped and only counted so."""
    found = Counter({name: count for name, count in counters.items() if "/" not in name})
    leads = (*RECORDS_LEADS, *PARTS)
    for full, count in counters.items():
        name, slash, _ = full.partition("/")
        if slash and name not in counters and name.removeprefix(HELD_OUT).startswith(leads):
            found[name] += count
    return found


def unit_of(stage: str, reason: str) -> str:
    """The unit of a counter: `lone_tokens` -> tokens, `truncated_file` -> files."""
    words = reason.partition(":")[0].split("_")
    for word in (words[-1], words[0]):
        if word in PARTS_OF_TEXT:
            return word
    return DAMAGED.get(words[-1], UNITS.get(stage, "documents"))
