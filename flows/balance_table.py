"""Shares of languages in the terminal: a table with p against q drawn into it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flows.balance_plan import A_RUNS, Plan
from flows.output import visible
from pipelines.rebalance import LanguageShare

SHORTEST_BAR, LONGEST_BAR = 12, 40
GUTTER = 2
"""Blanks that one more column brings."""
MANY_REPEATS = A_RUNS.max_repeats
"""Who is above a run's cap is named, where none is given."""
LEAST_MOVED = 1e-9
"""A smaller difference of shares is one of rounding."""
ROUNDED = "M, G, T, P, E: 10^6, 10^9, 10^12, 10^15, 10^18"
NAMED = 12
"""Languages that a remark names; how many more there are is said."""


def single(plan: Plan, width: int) -> Table:
    """One exponent, with a bar a language: o is p, ● is q, on a logarithmic axis.

    Args:
        width: characters of the terminal; the bars take what the numbers leave. Where that is too
            little, the bars go first, then large numbers are rounded, then the draws go.
    """
    for shape in (_Shape(), _Shape(bar=False), _Shape(False, True), _Shape(False, True, False)):
        table = _single(plan, width, shape)
        if natural_width(table) <= width:
            break
    return table


@dataclass(frozen=True)
class _Shape:
    bar: bool = True
    rounded: bool = False
    draws: bool = True


def _single(plan: Plan, width: int, shape: _Shape) -> Table:
    title, number = f"q ~ p^{plan.alpha:g}", _rounded if shape.rounded else _exact
    columns = ["language", "n", "p", "q", "repeats", "draws"]
    rows = [
        [share.language, number(share.count), _percent(share.p), _percent(share.q),
         _repeats(share), number(plan.draws(share))]
        for share in plan.shares
    ]  # fmt: skip
    whole = [
        f"all {len(plan.shares)}",
        number(sum(share.count for share in plan.shares)),
        _percent(math.fsum(share.p for share in plan.shares)),
        _percent(math.fsum(share.q for share in plan.shares)),
        "",
        number(sum(plan.draws(share) for share in plan.shares)),
    ]
    if not shape.draws:
        for cells in (columns, *rows, whole):
            cells.pop()
    table = _table(title, columns, [] if shape.bar else rows)
    if shape.rounded:
        table.caption, table.caption_justify = ROUNDED, "left"
    if shape.bar:
        left = width - natural_width(_table(title, columns, [*rows, whole]))
        places = min(max(left - GUTTER, SHORTEST_BAR), LONGEST_BAR)
        lowest = math.floor(math.log10(min(min(s.p, s.q) for s in plan.shares)))
        table.caption = f"bars: o is p, ● is q, logarithmic from {_percent(10.0**lowest)} to 100 %"
        table.caption_justify = "left"
        table.add_column("o p, ● q", no_wrap=True)
        for share, row in zip(plan.shares, rows, strict=True):
            table.add_row(*map(_cell, row), Text(_bar(share, lowest, places)))
    table.add_section()
    table.add_row(*map(Text, whole))
    return table


def comparison(plans: Sequence[Plan], width: int) -> list[Table]:
    """Several exponents side by side: q and repeats under each.

    Returns:
        One table, or several below each other, each of as many exponents as `width` takes.
    """
    tables: list[Table] = []
    begin = 0
    while begin < len(plans):
        end = len(plans)
        while end > begin + 1 and natural_width(_compared(plans[begin:end], _exact)) > width:
            end -= 1
        tables.append(_fitted(partial(_compared, plans[begin:end]), width))
        begin = end
    return tables


def _compared(plans: Sequence[Plan], number: Callable[[int], str]) -> Table:
    columns = [name for plan in plans for name in (f"q {plan.alpha:g}", "repeats")]
    by_alpha = [{share.language: share for share in plan.shares} for plan in plans]
    rows = []
    for share in plans[0].shares:
        own = [shares[share.language] for shares in by_alpha]
        cells = [cell for found in own for cell in (_percent(found.q), _repeats(found))]
        rows.append((share.language, number(share.count), _percent(share.p), *cells))
    return _table("q ~ p^alpha", ("language", "n", "p", *columns), rows)


def remarks(plan: Plan, cap: float, draws: int | None) -> list[str]:
    """What a person should notice: capped, weighted and much repeated languages, unused texts."""
    lines = []
    if capped := [share for share in plan.shares if share.capped]:
        lines.append(f"* held at {cap:g} repeats ({len(capped)}): {_names(capped)}")
    if plan.moved > LEAST_MOVED:
        lines.append(
            f"moved by the cap to the other languages: {_percent(plan.moved)} of all draws"
        )
    weighted = [share for share in plan.shares if share.weighted]
    off = [s for s in weighted if abs(s.q - plan.weights[s.language]) > LEAST_MOVED]
    if met := [share for share in weighted if share not in off]:
        lines.append(f"set by hand ({len(met)}): {_names(met)}")
    for unmet, why in (
        ([share for share in off if share.capped], f"the cap of {cap:g} repeats is lower"),
        ([s for s in off if not s.capped], "it takes what languages at the cap cannot"),
    ):
        if unmet:
            named = ", ".join(
                f"{s.language} has {_percent(s.q)}, not {_percent(plan.weights[s.language])}"
                for s in unmet[:NAMED]
            )
            lines.append(f"weight not met ({len(unmet)}), {why}: {named}{_more(unmet)}")
    often = [share for share in plan.shares if share.repeats > MANY_REPEATS and not share.capped]
    if often:
        named = ", ".join(f"{s.language} ({s.repeats:,.2f} times)" for s in often[:NAMED])
        lines.append(
            f"each text more than {MANY_REPEATS:g} times, a run's default cap "
            f"({len(often)}): {named}{_more(often)}"
        )
    if draws is not None:
        uses = plan.usage.values()
        lines.append(
            f"of {sum(use.texts for use in uses):,} texts: once {sum(u.once for u in uses):,}, "
            f"repeated {sum(u.repeated for u in uses):,}, never {sum(u.never for u in uses):,}"
        )
        if never := [share for share in plan.shares if not plan.usage[share.language].draws]:
            lines.append(f"never drawn, too small a share ({len(never)}): {_names(never)}")
    return lines


def texts_used(plan: Plan, width: int) -> Table:
    """Texts of each language that the draws use once, more often, and never."""
    return _fitted(partial(_used, plan), width)


def _used(plan: Plan, number: Callable[[int], str]) -> Table:
    uses = [plan.usage[share.language] for share in plan.shares]
    rows = [
        (use.language, *map(number, (use.texts, use.draws, use.once, use.repeated, use.never)))
        for use in uses
    ]
    columns = ("language", "texts", "draws", "once", "repeated", "never")
    return _table(f"Texts used, alpha = {plan.alpha:g}", columns, rows)


def _fitted(build: Callable[[Callable[[int], str]], Table], width: int) -> Table:
    """A table with its numbers in full, or rounded where the terminal is too narrow for that."""
    table = build(_exact)
    if natural_width(table) <= width:
        return table
    table = build(_rounded)
    table.caption, table.caption_justify = ROUNDED, "left"
    return table


def _exact(count: int) -> str:
    return f"{count:,}"


def _rounded(count: int) -> str:
    """A number in six characters at most, four figures: 1234567 -> `1.235M`."""
    for power, prefix in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M")):
        if count >= 10**power:
            return f"{count / 10**power:.4g}{prefix}"
    return f"{count:,}"


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        collapse_padding=True,
    )
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(text: str) -> Text:
    return Text(visible(text))


def _names(shares: Sequence[LanguageShare]) -> str:
    return ", ".join(share.language for share in shares[:NAMED]) + _more(shares)


def _more(shares: Sequence[LanguageShare]) -> str:
    return f" and {len(shares) - NAMED} more" if len(shares) > NAMED else ""


def _repeats(share: LanguageShare) -> str:
    return f"{share.repeats:,.2f}{'*' if share.capped else ''}"


def _percent(share: float) -> str:
    """A share with three figures at least: 0.0125089 -> `1.251 %`, 0.78924 -> `78.924 %`."""
    value = 100 * share
    return f"{value:.3f} %" if value >= 0.01 or not value else f"{value:.2g} %"


def _bar(share: LanguageShare, lowest: int, places: int) -> str:
    """p and q on an axis from 10^lowest to 1; where both fall on one place, q is shown."""
    at_p, at_q = (
        round((1 - math.log10(value) / lowest) * (places - 1)) if lowest else places - 1
        for value in (share.p, share.q)
    )
    first, last = sorted((at_p, at_q))
    cells = [" "] * first + ["─"] * (last - first + 1)
    cells[at_p] = "o"
    cells[at_q] = "●"
    return "".join(cells)


def natural_width(table: Table) -> int:
    """Characters that a table needs to show everything."""
    wide = Console(width=10_000)
    return Measurement.get(wide, wide.options, table).maximum
