"""The picture of a mix that changes during training: each language's share in each phase."""

from __future__ import annotations

from matplotlib.ticker import FuncFormatter, NullFormatter

from flows.report.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    language_axis,
    new_figure,
    panel,
    style,
    to_svg,
)
from flows.report.tables import Balance

MARKERS = ("s", "D", "^", "v", "P", "X")
COLOURS = (BLUE, ORANGE, GREEN)


def phases_svg(balance: Balance, max_languages: int) -> str:
    """Natural share and share in each phase, of the languages with the most text (log axis)."""
    rows = sorted(balance.rows, key=lambda row: (-row.p, row.language))[:max_languages]
    tags = [row.language for row in rows]
    with style("phases"):
        figure = new_figure(3.4)
        axes = panel(figure.subplots())
        axes.set_yscale("log")
        width = 0.6 / max(len(balance.phases), 1)
        axes.plot(range(len(tags)), [row.p for row in rows], "_", color=GREY, markersize=14,
                  markeredgewidth=1.5, label="p, natural share")  # fmt: skip
        began = 0.0
        for number, phase in enumerate(balance.phases):
            shares = [(place, phase.of(tag)) for place, tag in enumerate(tags)]
            shift = (number - (len(balance.phases) - 1) / 2) * width
            axes.plot(
                [place + shift for place, q in shares if q],
                [q for _, q in shares if q],
                MARKERS[number % len(MARKERS)],
                color=COLOURS[number % len(COLOURS)],
                markersize=5,
                label=f"{began * 100:g} to {phase.until * 100:g} % of the steps, "
                f"alpha = {phase.alpha:g}",
            )
            began = phase.until
        axes.set_ylabel(f"share of {balance.unit}")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g} %"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1, ncols=2)
        language_axis(axes, tags, f"language, most {balance.unit} first")
        return to_svg(figure, "phases", "Share of each language in each phase of training")
