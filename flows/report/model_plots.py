"""The pictures of the model path: losses and scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import PercentFormatter

from flows.report.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    bars,
    new_figure,
    panel,
    style,
    to_svg,
)
from flows.report.read import losses_by_group, mean_loss
from flows.report.tables import Scores
from flows.report.totals import held_out_losses, unigram_loss
from flows.report.training_tables import Metrics


def loss_svg(metrics: Metrics) -> str:
    """Loss over steps beside two references, and before and after for each script group."""
    with style("loss"):
        groups = (
            sorted(losses_by_group(metrics.evaluations[-1].languages))
            if (metrics.evaluations)
            else []
        )
        figure = new_figure(max(3.4, 1.6 + 0.34 * len(groups)))
        left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
        _loss_over_steps(panel(left), metrics)
        _loss_by_group(panel(right), metrics, groups)
        return to_svg(figure, "loss", "Masked-language-model loss over steps and by script group")


def scores_svg(scores: Scores, max_languages: int) -> str:
    """F1 of each label and accuracy of each language on the test set."""
    test = scores.test
    labels = sorted(test.per_label.items(), key=lambda item: (-item[1].f1, item[0]))
    tags = sorted(test.per_language.items(), key=lambda item: (-item[1].count, item[0]))
    tags = tags[:max_languages]
    name = f"scores-{scores.task}"
    with style(name):
        figure = new_figure(1.2 + 0.2 * max(len(labels), len(tags), 6))
        left, right = figure.subplots(1, 2)
        bars(left, [_tick(k) for k, _ in labels], [v.f1 for _, v in labels], BLUE, "F1 by label")
        bars(
            right,
            [k for k, _ in tags],
            [v.accuracy for _, v in tags],
            GREEN,
            "accuracy by language",
        )
        for axes in (left, right):
            axes.set_xlim(0, 1.12)
            axes.set_ylim(max(len(labels), len(tags)) - 0.4, -0.6)  # bars alike in both panels
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        right.axvline(test.majority_accuracy, color=ORANGE, linestyle="--", label="majority label")
        right.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
        return to_svg(figure, name, f"Scores of task {scores.task} by label and by language")


def _loss_over_steps(axes: Any, metrics: Metrics) -> None:
    axes.plot(
        [row.step for row in metrics.log],
        [row.loss for row in metrics.log],
        color=BLUE,
        linewidth=1.3,
        label="training",
    )
    held_out = held_out_losses(metrics)
    if held_out:
        axes.plot(
            [step for step, _ in held_out],
            [loss for _, loss in held_out],
            "o--",
            color=ORANGE,
            label="held out",
        )
    unigram = unigram_loss(metrics)
    if unigram is not None:
        axes.axhline(unigram, color=GREEN, linestyle="-.", label=f"unigram model: {unigram:.2f}")
    axes.axhline(
        math.log(metrics.rows),
        color=GREY,
        linestyle=":",
        label=f"ln({metrics.rows:,} rows): {math.log(metrics.rows):.2f}",
    )
    axes.set_xlabel("step (optimizer updates)")
    axes.set_ylabel("loss (nats per masked token)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower left", fontsize=8)


def _loss_by_group(axes: Any, metrics: Metrics, groups: Sequence[str]) -> None:
    def means(table: Mapping[str, Any]) -> list[float]:
        sums = losses_by_group(table)
        return [
            value if (value := mean_loss(sums.get(group))) is not None else math.nan
            for group in groups
        ]

    places = list(range(len(groups)))
    axes.set_yticks(places, [group.replace(", ", ",\n") for group in groups])
    axes.set_ylim(max(len(groups), 1) - 0.4, -0.6)
    axes.set_xlabel("held-out loss (nats per masked token)")
    if not groups:
        return
    before, after = (
        means(metrics.evaluations[0].languages),
        means(metrics.evaluations[-1].languages),
    )
    axes.hlines(places, after, before, color=GREY, linewidth=1.2, alpha=0.6)
    axes.plot(before, places, "o", color=GREY, label="before")
    axes.plot(after, places, "s", color=BLUE, label="after")
    axes.plot(
        means(metrics.unigram),
        places,
        "|",
        color=GREEN,
        markersize=14,
        markeredgewidth=2,
        label="unigram model",
    )
    axes.set_xlim(left=0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=3, fontsize=8)


def _tick(label: str) -> str:
    """A label that any font has: other letters as escapes, at most 24 characters."""
    plain = label.encode("unicode_escape").decode("ascii")
    return plain if len(plain) <= 24 else f"{plain[:21]}..."
