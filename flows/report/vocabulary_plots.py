"""The pictures of the vocabulary. Labels are language tags and English names of scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import EngFormatter

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
from flows.report.tables import LanguageTokens, PiecesBy, VocabularyReport

MAX_SCRIPTS = 18
"""Bars of the picture of scripts; further ones share one bar."""


def fertility_svg(report: VocabularyReport, max_languages: int) -> str:
    """Tokens per word and per character of the languages with the most held-out text."""
    most = sorted(report.languages.items(), key=lambda item: (-item[1].characters, item[0]))
    shown = most[:max_languages]
    with style("fertility"):
        figure = new_figure(4.6)
        panels = figure.subplots(2, 1, sharex=True)
        rows = [row for _, row in shown]
        words = [row.words if row.written_with_blanks else 0 for row in rows]
        _bars(panels[0], rows, words, "tokens per word", BLUE)
        _bars(panels[1], rows, [row.characters for row in rows], "tokens per character", GREEN)
        for place, row in enumerate(rows):
            if not row.written_with_blanks:
                panels[0].text(place, 0.04, "no blanks", rotation=90, ha="center", va="bottom",
                               fontsize=7, color=GREY)  # fmt: skip
        if any(row.compared for row in rows):
            panels[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
        language_axis(
            panels[1], [tag for tag, _ in shown], "language, the most held-out text first"
        )
        return to_svg(figure, "fertility", "Tokens per word and per character by language")


def _bars(
    axes: Any, rows: Sequence[LanguageTokens], sizes: Sequence[int], label: str, colour: str
) -> None:
    heights = [row.tokens / size if size else 0 for row, size in zip(rows, sizes, strict=True)]
    panel(axes).bar(range(len(rows)), heights, color=colour, width=0.7)
    others = [
        (place, row.compared.tokens / size)
        for place, (row, size) in enumerate(zip(rows, sizes, strict=True))
        if row.compared and size
    ]
    if others:
        axes.hlines([height for _, height in others], [place - 0.42 for place, _ in others],
                    [place + 0.42 for place, _ in others], color=ORANGE, linewidth=2.5,
                    label="compared vocabulary")  # fmt: skip
    axes.set_ylabel(label)


def pieces_svg(pieces: PiecesBy) -> str:
    """Pieces by script, with those that were used, and by length."""
    rows = [(row.name, row.pieces, row.used) for row in pieces.script[:MAX_SCRIPTS]]
    rest = pieces.script[MAX_SCRIPTS:]
    if rest:
        label = f"{len(rest)} further groups"
        rows.append((label, sum(row.pieces for row in rest), sum(row.used for row in rest)))
    with style("pieces"):
        figure = new_figure(max(2.6, 0.8 + 0.2 * len(rows)))
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
        places = range(len(rows))
        panel(left).set_yticks(places, [name for name, _, _ in rows])
        left.barh(places, [count for _, count, _ in rows], color=BLUE, alpha=0.45, height=0.72)
        left.barh(places, [used for _, _, used in rows], color=BLUE, height=0.72)
        for place, (_, count, _) in enumerate(rows):
            left.annotate(f"{count:,}", (count, place), xytext=(3, 0), va="center",
                          textcoords="offset points", fontsize=8)  # fmt: skip
        left.set_ylim(len(rows) - 0.4, -0.6)
        left.grid(False, axis="y")
        left.margins(x=0.15)
        left.set_xlabel("pieces")
        lengths = sorted(pieces.length)
        panel(right).bar(lengths, [pieces.length[n] for n in lengths], color=GREEN, width=0.75)
        right.set_xlabel("characters of a piece")
        right.set_ylabel("pieces")
        right.grid(False, axis="x")
        right.set_xticks(lengths[:: 1 if len(lengths) <= 8 else 3])
        left.xaxis.set_major_formatter(EngFormatter(sep=""))
        right.yaxis.set_major_formatter(EngFormatter(sep=""))
        left.locator_params(axis="x", nbins=5)
        return to_svg(figure, "pieces", "Pieces of the vocabulary by script and by length")
