"""Shares of languages in the terminal: a table with p against q drawn into it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flows.balance_plan import A_RUNS, Plan
from flows.output import visible
from pipelines.rebalance import LanguageShare

SHORTEST_BAR, LONGEST_BAR = 12, 40
GUTTER = 3
"""Blanks that one more column brings."""
MANY_REPEATS = A_RUNS.max_repeats
"""Who is above a run's cap is named, where none is given."""
NAMED = 12
"""Languages that a remark names; how many more there are is said."""


def single(plan: Plan, width: int) -> Table:
    """One exponent, with a bar a language: o is p, ● is q, on a logarithmic axis.

    Args:
        width: characters of the terminal; the bars take what the numbers leave.
    """
    title, columns = f"q ~ p^{plan.alpha:g}", ("language", "n", "p", "q", "repeats", "draws")
    rows = [
        (share.language, f"{share.count:,}", _percent(share.p), _percent(share.q),
         _repeats(share), f"{plan.draws(share):,}")
        for share in plan.shares
    ]  # fmt: skip
    whole = (
        f"all {len(plan.shares)}",
        f"{sum(share.count for share in plan.shares):,}",
        _percent(math.fsum(share.p for share in plan.shares)),
        _percent(math.fsum(share.q for share in plan.shares)),
        "",
        f"{sum(plan.draws(share) for share in plan.shares):,}",
    )
    left = width - natural_width(_table(title, columns, [*rows, whole]))
    places = min(max(left - GUTTER, SHORTEST_BAR), LONGEST_BAR)
    lowest = math.floor(math.log10(min(min(s.p, s.q) for s in plan.shares)))
    bars = [_bar(share, lowest, places) for share in plan.shares]
    table = _table(title, columns, [])
    table.caption = f"bars: o is p, ● is q, logarithmic from {_percent(10.0**lowest)} to 100 %"
    table.caption_justify = "left"
    table.add_column("o p, ● q", no_wrap=True)
    for row, bar in zip(rows, bars, strict=True):
        table.add_row(*(Text(visible(cell)) for cell in row), Text(bar))
    table.add_section()
    table.add_row(*map(Text, whole))
    return table


def comparison(plans: Sequence[Plan]) -> Table:
    """Several exponents side by side: q and repeats under each."""
    columns = [name for plan in plans for name in (f"q {plan.alpha:g}", "repeats")]
    by_alpha = [{share.language: share for share in plan.shares} for plan in plans]
    rows = []
    for share in plans[0].shares:
        own = [shares[share.language] for shares in by_alpha]
        cells = [cell for found in own for cell in (_percent(found.q), _repeats(found))]
        rows.append((share.language, f"{share.count:,}", _percent(share.p), *cells))
    return _table("q ~ p^alpha", ("language", "n", "p", *columns), rows)


def remarks(plan: Plan, cap: float, draws: int | None) -> list[str]:
    """What a person should notice: capped, weighted and much repeated languages, unused texts."""
    lines = []
    if capped := [share for share in plan.shares if share.capped]:
        lines.append(f"* held at {cap:g} repeats ({len(capped)}): {_names(capped)}")
    if weighted := [share for share in plan.shares if share.weighted]:
        lines.append(f"set by hand ({len(weighted)}): {_names(weighted)}")
    often = [share for share in plan.shares if share.repeats > MANY_REPEATS and not share.capped]
    if often:
        named = ", ".join(f"{s.language} ({s.repeats:,.2f} times)" for s in often[:NAMED])
        more = f" and {len(often) - NAMED} more" if len(often) > NAMED else ""
        lines.append(
            f"each text more than {MANY_REPEATS:g} times, a run's default cap "
            f"({len(often)}): {named}{more}"
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


def texts_used(plan: Plan) -> Table:
    """Texts of each language that the draws use once, more often, and never."""
    uses = [plan.usage[share.language] for share in plan.shares]
    rows = [
        (
            use.language,
            *map("{:,}".format, (use.texts, use.draws, use.once, use.repeated, use.never)),
        )
        for use in uses
    ]
    columns = ("language", "texts", "draws", "once", "repeated", "never")
    return _table(f"Texts used, alpha = {plan.alpha:g}", columns, rows)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


def _names(shares: Sequence[LanguageShare]) -> str:
    more = f" and {len(shares) - NAMED} more" if len(shares) > NAMED else ""
    return ", ".join(share.language for share in shares[:NAMED]) + more


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
