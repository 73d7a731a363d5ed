"""The picture of the benchmark `learning`: a panel for each language, and what alpha costs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.ticker import PercentFormatter

from flows.report.figures import BLUE, GREY, ORANGE, new_figure, panel, style, to_png

COLUMNS = 5
COLOURS = {"alpha_1": BLUE, "alpha_0.3": ORANGE}
NAMES = {"alpha_1": "α = 1 (natural shares)", "alpha_0.3": "α = 0.3 (rebalanced)"}


def save_picture(figures: Mapping[str, Any], path: Path) -> None:
    """Write the picture as PNG."""
    languages = list(figures["languages"])
    rows = -(-(len(languages) + 1) // COLUMNS)
    with style("learning"):
        figure = new_figure(1.75 * rows + 2.6)
        upper, lower = figure.subfigures(2, 1, height_ratios=[1.75 * rows, 2.6])
        grid = upper.subplots(rows, COLUMNS, squeeze=False)
        cells = [axes for row in grid for axes in row]
        for axes, tag in zip(cells, languages, strict=False):
            _curves(axes, tag, figures)
        for axes in cells[len(languages) :]:
            axes.set_axis_off()
        handles, labels = cells[0].get_legend_handles_labels()
        cells[len(languages)].legend(handles, labels, loc="center left", fontsize=8)
        upper.suptitle(
            "Held-out loss over training in nats per masked token, mean and range of "
            f"{figures['seeds']} seeds; beside each language, its characters of text",
            fontsize=10,
        )
        _costs(lower.subplots(), figures)
        to_png(figure, path)


def _curves(axes: Any, tag: str, figures: Mapping[str, Any]) -> None:
    facts, curves = figures["languages"][tag], figures["curves"]
    panel(axes)
    for name, colour in COLOURS.items():
        points = curves[name][tag]
        axes.fill_between(
            curves["progress"],
            [point["least"] for point in points],
            [point["most"] for point in points],
            color=colour,
            alpha=0.25,
            linewidth=0,
        )
        means = [point["mean"] for point in points]
        axes.plot(curves["progress"], means, color=colour, linewidth=1.4, label=NAMES[name])
    baseline = facts["unigram"]["mean"]
    axes.axhline(baseline, color=GREY, linestyle="--", linewidth=1, label="unigram baseline")
    # The first point, of an untrained model, would press all others together.
    shown = [point for name in COLOURS for point in curves[name][tag][1:]]
    low, high = min(p["least"] for p in shown), max([baseline, *(p["most"] for p in shown)])
    margin = 0.06 * (high - low)
    axes.set_ylim(low - margin, high + margin)
    axes.set_xlim(0, 1)
    axes.set_title(f"{tag}, {_size(facts['characters'])}", fontsize=9)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xticks([0, 0.5, 1.0])
    axes.tick_params(labelsize=7)


def _costs(axes: Any, figures: Mapping[str, Any]) -> None:
    languages = figures["languages"]
    panel(axes)
    for place, facts in enumerate(languages.values()):
        cost = facts["cost"]
        colour = ORANGE if cost["mean"] < 0 else BLUE
        axes.bar(place, cost["mean"], color=colour, width=0.65)
        axes.plot([place, place], [cost["least"], cost["most"]], color=GREY, linewidth=2)
        above = cost["mean"] >= 0
        axes.annotate(
            f"{cost['mean']:+.2f}",
            (place, cost["most"] if above else cost["least"]),
            xytext=(0, 3 if above else -3),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize=8,
        )
    labels = [f"{tag}\n{_size(facts['characters'])}" for tag, facts in languages.items()]
    axes.set_xticks(range(len(labels)), labels, fontsize=8)
    axes.grid(False, axis="x")
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.margins(x=0.02, y=0.18)
    axes.set_ylabel("nats")
    axes.set_title(
        "Loss with α = 0.3 minus loss with α = 1 after training (below 0: α = 0.3 is better)"
    )


def _size(characters: int) -> str:
    """Characters of a language in words."""
    if characters >= 1e6:
        return f"{characters / 1e6:.1f} M"
    return f"{characters / 1e3:.0f} k"
