"""How every picture is drawn: one palette, one look, and the same bytes for the same numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#8A8A8A"
"""Okabe and Ito 2008: told apart by people with any common colour blindness."""

INK = "#1b1c1d"
"""Colour of text and axes; in the page it becomes the page's own text colour."""

WIDTH_INCHES = 9.6

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine draws the same
    "font.size": 9,
    "text.parse_math": False,  # a label may hold a dollar sign
    "svg.fonttype": "path",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.constrained_layout.use": True,
}


@contextmanager
def style(name: str) -> Iterator[None]:
    """Draw in the project's look; ids inside an SVG depend on `name` alone."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        yield


def new_figure(height_inches: float) -> Figure:
    """An empty figure of the page's width, transparent."""
    figure = Figure(figsize=(WIDTH_INCHES, height_inches))
    figure.patch.set_alpha(0.0)
    return figure


def panel(axes: Any) -> Any:
    """Make an axes transparent with a faint grid; returns it."""
    axes.patch.set_alpha(0.0)
    axes.grid(True, alpha=0.2, linewidth=0.6, color=GREY)
    return axes


def to_svg(figure: Figure, name: str, description: str) -> str:
    """Write a figure as an SVG element for a page: no prolog, no dates, ids of its own.

    Args:
        name: put before every id, so that several pictures can share a page.
        description: what a screen reader says.
    """
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(buffer)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = text.replace(INK, "currentColor")
    label = description.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).strip()


def to_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG on white, without the software's name or a date."""
    figure.patch.set_facecolor("white")
    figure.patch.set_alpha(1.0)
    FigureCanvasAgg(figure).print_figure(path, dpi=150, metadata={"Software": None})


def language_axis(axes: Any, tags: Sequence[str], label: str) -> None:
    """Put language tags under the columns of an axes, upright when there are many."""
    axes.set_xticks(range(len(tags)), tags, rotation=90 if len(tags) > 12 else 0)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlim(-0.7, max(len(tags), 1) - 0.3)
    axes.grid(False, axis="x")
    axes.set_xlabel(label)


def bars(
    axes: Any, labels: Sequence[str], values: Sequence[float | None], colour: str, title: str
) -> None:
    """Horizontal bars from the top down, each with its number; None is told in words."""
    panel(axes).set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.4, -0.6)
    axes.barh(range(len(labels)), [value or 0 for value in values], color=colour, height=0.7)
    for place, value in enumerate(values):
        axes.annotate(
            _short(value),
            (value or 0, place),
            xytext=(3, 0),
            va="center",
            textcoords="offset points",
            fontsize=8,
        )
    axes.grid(False, axis="y")
    axes.set_xlabel(title)
    axes.margins(x=0.25)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.locator_params(axis="x", nbins=4)


def _short(value: float | None) -> str:
    if value is None:
        return "not counted"
    if isinstance(value, float):
        return f"{value:.1%}"
    return str(EngFormatter(places=1, sep="")(value)) if value >= 10_000 else f"{value:,}"
