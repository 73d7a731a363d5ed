"""The pictures of a training: each language's held-out loss, and what the log holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import EngFormatter

from flows.report.figures import BLUE, GREEN, GREY, ORANGE, new_figure, panel, style, to_svg
from flows.report.read import mean_loss
from flows.report.training_tables import Metrics, SpeedEntry

COLUMNS = 6
MOST_LANGUAGES = 24
"""In the picture of curves; the page's table has all of them."""


def shown_languages(metrics: Metrics, most: int = MOST_LANGUAGES) -> list[str]:
    """Languages for the picture of curves, those that gained most against the unigram model first.

    Where there are more than `most`, half of them are the first and half the last.
    """
    if not metrics.evaluations:
        return []
    gains = {}
    for tag, part in metrics.evaluations[-1].languages.items():
        after, base = mean_loss(part), mean_loss(metrics.unigram.get(tag))
        if after is not None:
            gains[tag] = after - (base if base is not None else 0.0)
    ranked = sorted(gains, key=lambda tag: (gains[tag], tag))
    return ranked if len(ranked) <= most else [*ranked[: most // 2], *ranked[-(most // 2) :]]


def curves_svg(metrics: Metrics) -> str:
    """Held-out loss over steps, a small panel a language, with its unigram loss as a line."""
    tags = shown_languages(metrics)
    with style("curves"):
        lines = max(1, math.ceil(len(tags) / COLUMNS))
        figure = new_figure(0.5 + 1.15 * lines)
        grid = figure.subplots(lines, COLUMNS, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(tags) :]:
            axes.set_visible(False)
        for axes, tag in zip(grid.flat, tags, strict=False):
            _curve(panel(axes), metrics, tag)
        figure.supxlabel("step (optimizer updates)", fontsize=9)
        figure.supylabel("nats per masked token" if lines > 2 else "nats", fontsize=9)
        return to_svg(figure, "curves", "Held-out loss of each language over steps")


def _curve(axes: Any, metrics: Metrics, tag: str) -> None:
    points = [
        (evaluation.step, loss)
        for evaluation in metrics.evaluations
        if (loss := mean_loss(evaluation.languages.get(tag))) is not None
    ]
    axes.plot(*zip(*points, strict=True), ".-", color=BLUE, linewidth=1.2, markersize=4)
    unigram = mean_loss(metrics.unigram.get(tag))
    if unigram is not None:
        axes.axhline(unigram, color=GREEN, linestyle="-.", linewidth=1.0)
    axes.set_title(tag, fontsize=8, pad=2)
    axes.tick_params(labelsize=7)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.locator_params(nbins=3)


def training_svg(metrics: Metrics, speed: Sequence[SpeedEntry]) -> str:
    """Learning rate, gradient norm, and tokens per second over steps."""
    with style("training"):
        figure = new_figure(2.4)
        left, middle, right = figure.subplots(1, 3)
        steps = [row.step for row in metrics.log]
        rates, norms = (
            [r.learning_rate for r in metrics.log],
            [r.gradient_norm for r in metrics.log],
        )
        _line(panel(left), steps, rates, BLUE, "learning rate")
        _line(panel(middle), steps, norms, ORANGE, "gradient norm, before clipping")
        own = [row.step for row in speed]
        _line(panel(right), own, [row.real for row in speed], GREEN, "tokens per second")
        if not speed:
            right.text(0.5, 0.5, "not recorded", ha="center", color=GREY, transform=right.transAxes)
        right.yaxis.set_major_formatter(EngFormatter(sep=""))
        return to_svg(figure, "training", "Learning rate, gradient norm and speed over steps")


def _line(axes: Any, steps: Sequence[int], values: Sequence[float], colour: str, name: str) -> None:
    axes.plot(steps, values, color=colour, linewidth=1.2)
    axes.set_title(name, fontsize=9)
    axes.margins(y=0.1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
