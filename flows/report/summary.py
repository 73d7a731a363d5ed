"""The table a run ends with in the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.report.read import STAGES, RunView, by_language, read_run
from flows.report.tables import Balance, VocabularyReport
from flows.report.totals import group_losses, percent, size, stage_time
from flows.report.training_tables import in_words, summary_of
from pipelines.core.manifest import StageRecord
from pipelines.core.store import Store

MAX_LANGUAGES = 40
"""Languages in the terminal; how many more there are is said below the table."""


def run_table(store: Store, run: str, max_languages: int = MAX_LANGUAGES) -> RenderableType:
    """What went into a run and what came out, for a terminal of 80 columns or more.

    Raises:
        ConfigError: the store has no such run.
    """
    view = read_run(store, run, stages=(*STAGES, "report"))
    parts: list[RenderableType] = [Text(f"Run {run}", style="bold")]
    parts += _languages(view.balance, max_languages)
    parts += _vocabulary(view)
    parts += _losses(view)
    parts += _scores(view)
    parts.append(_stages(view))
    if view.outdated:
        parts.append(Text(" out of date: made from results this run has since replaced"))
    return Group(*parts)


def _table(title: str, *columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for place, column in enumerate(columns):
        table.add_column(
            column, justify="right" if place else "left", no_wrap=True, overflow="ellipsis"
        )
    return table


def _languages(balance: Balance | None, max_languages: int) -> list[RenderableType]:
    if balance is None:
        return [Text("Languages: not finished")]
    table = _table(
        f"Languages (q ~ p^alpha, alpha = {balance.alphas}; p of {balance.unit})",
        "language", "bytes", "documents", "sentences", "p", "q", "repeats",
    )  # fmt: skip
    for row in balance.rows[:max_languages]:
        table.add_row(
            Text(row.language),
            size(row.bytes),
            f"{row.documents:,}",
            f"{row.sentences:,}",
            percent(row.p),
            percent(row.q),
            f"{row.repeats:.2f}{'*' if row.capped else ' '}",
        )
    rows = balance.rows
    table.add_section()
    table.add_row(
        f"all {len(rows)}",
        size(sum(row.bytes for row in rows)),
        f"{sum(row.documents for row in rows):,}",
        f"{sum(row.sentences for row in rows):,}",
        percent(sum(row.p for row in rows)),
        percent(sum(row.q for row in rows)),
        "",
    )
    parts: list[RenderableType] = [table]
    if rest := len(rows) - max_languages if len(rows) > max_languages else 0:
        parts.append(Text(f" {rest} smaller languages are not shown; they are in the report"))
    if any(row.capped for row in rows):
        held = f" * held at balance.max_repeats = {balance.max_repeats:g}{balance.held}"
        parts.append(Text(f"{held}; the mean is shown" if balance.held else held))
    if weighted := [row.language for row in rows if row.weighted]:
        parts.append(Text(f" set by balance.weights: {', '.join(weighted)}"))
    if balance.excluded:
        shown = balance.excluded[:max_languages]
        named = ", ".join(f"{row.language} ({row.sentences:,})" for row in shown)
        text = f" left out, too little text ({len(balance.excluded)}; sentences): {named}"
        more = len(balance.excluded) - len(shown)
        parts.append(Text(f"{text} and {more} more, in the report" if more else text))
    return [*parts, Text()]


def _vocabulary(view: RunView) -> list[RenderableType]:
    report, pack = view.vocabulary, view.record("pack")
    pieces = f"{report.pieces:,} pieces, {report.rows:,} rows" if report else "not finished"
    packed = list(_packed(pack)) if pack is not None else [" Packed      not finished"]
    lines = [f" Vocabulary  {pieces}", *_fertility(report), *packed]
    return [*map(Text, lines), Text()]


def _packed(pack: StageRecord) -> Iterator[str]:
    """Tokens of the documents in a line, and what the rows hold in another."""
    tokens, sequences, held_out, in_rows, slots = (
        sum(by_language(pack, measure).values())
        for measure in ("tokens", "sequences", "held_out_tokens", "row_tokens", "slots")
    )
    yield f" Packed      {tokens:,} text tokens in {sequences:,} sequences; {held_out:,} held out"
    if slots:
        fill = percent(in_rows / slots)
        yield f"             {in_rows:,} tokens in rows, special ones too; fill {fill}"


def _fertility(report: VocabularyReport | None) -> Iterator[str]:
    """What the vocabulary makes of held-out text, in a line, and against the other in another."""
    totals = report.totals if report else None
    if totals is None or not totals.tokens:
        return
    per_word = "-" if totals.tokens_per_word is None else f"{totals.tokens_per_word:.2f}"
    yield (
        f" Fertility   {per_word} tokens per word, {totals.tokens_per_character or 0:.3f} per "
        f"character, {percent(totals.unknown / totals.tokens)} unknown"
    )
    if totals.ratio is not None:
        yield (
            f"             {totals.ratio:.3f} times the tokens of compare_with; "
            f"fewer in {totals.languages_with_fewer_tokens} of {totals.languages}"
        )


def _losses(view: RunView) -> list[RenderableType]:
    if view.metrics is None:
        return [Text(" Masked-token loss  not finished"), Text()]
    table = _table(
        f"Loss on held-out masked tokens after {view.metrics.steps:,} steps (nats)",
        "group", "tokens", "before", "after", "unigram", "ln(rows)",
    )  # fmt: skip
    rows = group_losses(view.metrics)
    for place, row in enumerate(rows):
        if place == len(rows) - 1:
            table.add_section()
        table.add_row(
            row.group,
            f"{row.tokens:,}",
            _nats(row.before),
            _nats(row.after),
            _nats(row.unigram),
            _nats(math.log(view.metrics.rows)),
        )
    speed = summary_of(view.speed.speed) if view.speed else None
    return [table, Text(f" {in_words(speed)}"), Text()] if speed else [table]


def _scores(view: RunView) -> list[RenderableType]:
    if not view.scores:
        wanted = "finetune" in view.unfinished
        return [Text(" Fine-tuning  not finished"), Text()] if wanted else []
    table = _table(
        "Fine-tuning (test set)", "task", "examples", "accuracy", "macro-F1", "majority label"
    )
    for scores in view.scores:
        test = scores.test
        table.add_row(
            Text(scores.task),
            f"{scores.counts.get('test', 0):,}",
            percent(test.accuracy),
            percent(test.macro_f1),
            percent(test.majority_accuracy),
        )
    return [table]


def _stages(view: RunView) -> Table:
    table = _table("Stages", "stage", "units", "reused", "wall time")
    for stage in view.stages:
        record = stage.record
        table.add_row(
            stage.name,
            f"{record.units:,}" if record else "",
            f"{record.reused:,}" if record else "",
            stage_time(stage),
        )
    return table


def _nats(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
