"""The pictures of the data path. Labels are language tags, so any font has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, NullFormatter

from flows.report.dropped import Dropped
from flows.report.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    bars,
    language_axis,
    new_figure,
    panel,
    style,
    to_png,
    to_svg,
)
from flows.report.tables import Balance, BalanceRow
from flows.report.totals import Funnel

MAX_REASONS = 15
"""Bars of the picture of dropped records; further reasons share one bar."""


def save_shares_png(balance: Balance, path: Path, max_languages: int) -> None:
    """Write the picture of the shares of a balance table as PNG."""
    with style("shares"):
        to_png(_shares(balance, max_languages), path)


def shares_svg(balance: Balance, max_languages: int) -> str:
    """Shares of the languages before and after rebalancing, and the repeats that follow."""
    with style("shares"):
        return to_svg(
            _shares(balance, max_languages),
            "shares",
            "Share of each language before and after rebalancing, and repeats of its text",
        )


def funnel_svg(funnel: Sequence[Funnel], dropped: Sequence[Dropped]) -> str:
    """Documents and bytes left after each stage, and what was dropped by reason."""
    reasons = _largest_reasons(dropped)
    with style("funnel"):
        figure = new_figure(1.0 + 0.28 * max(len(funnel), len(reasons), 3))
        grid = figure.subplots(1, 3, width_ratios=[1, 1, 1.1])
        stages = [row.stage for row in funnel]
        bars(grid[0], stages, [row.documents for row in funnel], BLUE, "documents left")
        bars(grid[1], stages, [row.bytes for row in funnel], GREEN, "bytes of text left")
        grid[1].set_yticklabels([])
        bars(
            grid[2],
            [label for label, _ in reasons],
            [count for _, count in reasons],
            ORANGE,
            "records dropped (log axis)",
        )
        if reasons:
            grid[2].set_xscale("log")
            grid[2].set_xlim(left=0.7, right=6 * max(count for _, count in reasons))
            grid[2].xaxis.set_major_formatter(EngFormatter(sep=""))
            grid[2].xaxis.set_minor_formatter(NullFormatter())
        return to_svg(figure, "funnel", "Documents and bytes left after each stage")


def _shares(balance: Balance, max_languages: int) -> Figure:
    rows = sorted(balance.rows, key=lambda row: (-row.p, row.language))[:max_languages]
    places = range(len(rows))
    figure = new_figure(4.8)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    panel(upper).set_yscale("log")
    p, q = [row.p for row in rows], [row.q for row in rows]
    upper.vlines(places, p, q, color=GREY, linewidth=1.2, alpha=0.6)
    upper.plot(places, p, "o", color=GREY, markersize=5, label="p, natural share")
    upper.plot(
        places,
        q,
        "s",
        color=BLUE,
        markersize=5,
        label=f"q, share in the mix (alpha = {balance.alphas})",
    )
    upper.set_ylabel(f"share of {balance.unit}")
    upper.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g} %"))
    upper.yaxis.set_minor_formatter(NullFormatter())
    upper.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1, ncols=2)
    rest = len(balance.rows) - len(rows)
    shown = f"the {len(rows)} largest of {len(balance.rows)}" if rest else f"all {len(rows)}"
    upper.set_title(f"Shares of the languages, {shown}")
    _repeats(panel(lower), rows, balance)
    language_axis(lower, [row.language for row in rows], f"language, most {balance.unit} first")
    return figure


def _repeats(axes: Any, rows: Sequence[BalanceRow], balance: Balance) -> None:
    most = balance.max_repeats
    colours = [ORANGE if row.capped else BLUE for row in rows]
    hatches = ["///" if row.capped else "" for row in rows]
    axes.bar(
        range(len(rows)),
        [row.repeats for row in rows],
        color=colours,
        width=0.7,
        hatch=hatches,
        edgecolor="white",
        linewidth=0,
    )
    axes.axhline(1.0, color=GREY, linewidth=0.8)
    mean = ",\nmean over phases" if balance.held else ""
    axes.set_ylabel(f"repeats of a text\nin one pass{mean}")
    if any(row.capped for row in rows):
        axes.axhline(most, color=ORANGE, linestyle="--", linewidth=1)
        label = f"cap: {most:g} (hatched: held at it{balance.held})"
        axes.text(0, most, label, va="bottom", ha="left", fontsize=8)
        axes.set_ylim(top=1.3 * max(most, *(row.repeats for row in rows)))


def _largest_reasons(dropped: Sequence[Dropped]) -> list[tuple[str, int]]:
    bars = sorted(dropped, key=lambda row: (-row.count, row.stage, row.reason))
    bars = [row for row in bars if row.counts_records]
    shown = [
        (f"{row.stage}: {row.reason.replace('_', ' ')}", row.count) for row in bars[:MAX_REASONS]
    ]
    rest = bars[MAX_REASONS:]
    if rest:
        shown.append((f"{len(rest)} further reasons", sum(row.count for row in rest)))
    return shown
