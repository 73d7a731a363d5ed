"""The figures of `babelmill documents`, and how they are shown."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from pipelines.core.manifest import Counters, StageRecord
from pipelines.core.progress import duration

SHOWN_NOTES = 20
SHOWN_LANGUAGES = 30
SHOWN_IN_A_ROW = 4
STAGES = ("extract", "filter", "deduplicate", "perplexity")
GONE = re.compile(
    r"(?P<how>dropped|rejected|lost)(?:_(?P<unit>\w+))?\.(?P<reason>[^/]+)(?:/(?P<language>.+))?"
)
"""A stage's counters of what it leaves out: documents and pages, or the unit that the name says."""


@dataclass(frozen=True)
class Drop:
    """What one stage dropped for one reason."""

    stage: str
    reason: str
    """With the unit in brackets where these are not whole pages or documents."""
    number: int
    languages: Counters
    """Empty where the stage does not know them: pages that gave no document."""


@dataclass
class Stats:
    """What came out."""

    counters: Counters = field(default_factory=Counter)
    """Those of extraction: `pages`, `records`, `bytes_lost`, `dropped.REASON`, ..."""
    drops: list[Drop] = field(default_factory=list)
    """By stage, then the most frequent first."""
    notes: list[str] = field(default_factory=list)
    languages: Counters = field(default_factory=Counter)
    characters: Counters = field(default_factory=Counter)
    stopped: list[str] = field(default_factory=list)
    """Inputs whose rest was not read, because of the limit."""
    damage: dict[str, Counters] = field(default_factory=dict)
    """What was lost of each input that is damaged or cut off."""
    seconds: float = 0.0

    def dropped(self, reason: str) -> int:
        """How many were dropped for a reason, by all stages."""
        return sum(drop.number for drop in self.drops if drop.reason == reason)


def drops_of(records: Mapping[str, StageRecord]) -> list[Drop]:
    """What the stages dropped, from their counters."""
    found = []
    for stage in STAGES:
        numbers: Counters = Counter()
        languages: dict[str, Counters] = defaultdict(Counter)
        for name, number in (records[stage].counters if stage in records else {}).items():
            gone = GONE.fullmatch(name)
            if gone is None or not number:
                continue
            reason = f"lost: {gone['reason']}" if gone["how"] == "lost" else gone["reason"]
            what = f"{reason} ({gone['unit']})" if gone["unit"] else reason
            if gone["language"]:
                languages[what][gone["language"]] += number
            else:
                numbers[what] += number
        for what, count in languages.items():
            numbers.setdefault(what, count.total())
        found += [Drop(stage, what, number, languages[what]) for what, number in most(numbers)]
    return found


def most(count: Counters, limit: int | None = None) -> list[tuple[str, int]]:
    """The most frequent first, equals by name."""
    return sorted(count.items(), key=lambda item: (-item[1], item[0]))[:limit]


def show_stats(stats: Stats, output: str, console: Console) -> None:
    """Print what was read, written, dropped and why; what is incomplete comes last."""
    console.print(languages_table(stats))
    console.print(drops_table(stats))
    _lines(console, [f"note: {note}" for note in stats.notes[:SHOWN_NOTES]])
    if len(stats.notes) > SHOWN_NOTES:
        _lines(console, [f"note: and {len(stats.notes) - SHOWN_NOTES} more"])
    lines = [f"stopped at the limit in {name}; there may be more" for name in stats.stopped]
    total = stats.languages.total()
    lines.append(f"{output}: {total:,} documents in {duration(stats.seconds)}")
    if stats.damage:
        lines.append(incomplete(stats.damage))
    _lines(console, lines)


def incomplete(damage: Mapping[str, Counters]) -> str:
    """The sentence on inputs that are damaged or cut off."""
    found = (
        f"{name} is damaged or cut off "
        f"({', '.join(f'{reason} {number:,}' for reason, number in most(lost))})"
        for name, lost in sorted(damage.items())
    )
    return f"incomplete: {'; '.join(found)}; what was readable is written"


def languages_table(stats: Stats) -> Table:
    """Documents out, by language."""
    table = Table("", title="Documents")
    table.add_column("documents", justify="right")
    table.add_column("characters", justify="right")
    shown = most(stats.languages, SHOWN_LANGUAGES)
    for language, number in shown:
        table.add_row(language, f"{number:,}", f"{stats.characters[language]:,}")
    if rest := {*stats.languages} - {language for language, _ in shown}:
        numbers = [sum(count[tag] for tag in rest) for count in (stats.languages, stats.characters)]
        table.add_row(f"{len(rest)} more", *(f"{number:,}" for number in numbers))
    table.add_section()
    table.add_row("written", f"{stats.languages.total():,}", f"{stats.characters.total():,}")
    return table


def drops_table(stats: Stats) -> Table:
    """What was not written: stage and reason, number, the most frequent languages."""
    table = Table("not written, because", title=f"{stats.counters['pages']:,} pages read")
    table.add_column("number", justify="right")
    table.add_column("languages")
    for place, drop in enumerate(stats.drops):
        if place and drop.stage != stats.drops[place - 1].stage:
            table.add_section()
        reason = f"{drop.stage}: {drop.reason}"
        table.add_row(reason, f"{drop.number:,}", _languages(drop.languages))
    if not stats.drops:
        table.add_row("nothing was dropped", "0", "")
    if stats.counters["bytes_lost"]:
        table.add_section()
        table.add_row("bytes lost to damage", f"{stats.counters['bytes_lost']:,}", "")
    return table


def _languages(count: Counters) -> str:
    shown = [f"{language} {number:,}" for language, number in most(count, SHOWN_IN_A_ROW)]
    more = len(count) - len(shown)
    return ", ".join(shown) + (f", {more} more" if more else "")


def _lines(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
