"""Prose in tables that only lay out a page: a row of columns, a text beside its picture."""

from __future__ import annotations

import re

LEAST_TABLE = 300
"""Characters; a shorter table holds no prose worth the search."""
LEAST_PROSE = 100
"""Characters of a cell that can be prose."""
LEAST_SHARE = 0.6
"""Of the text of all cells, the part that must be prose."""

DATA_TABLE = re.compile(
    r"^[^\n]*(?:infobox|navbox|wikitable|toccolou?rs|sortable|metadata|sidebar|taxobox|prettytable)"
    r"|\n[ \t]*!|<t[dh]\b",
    re.IGNORECASE,
)
"""A table with a header, of a class for data or boxes, or in HTML."""
CELL = re.compile(r"\n[ \t]*\||\|\|")
ATTRIBUTES = re.compile(r"[^|\n\[\]{}]*=[^|\n\[\]{}]*\|(?!\|)")
STOP = re.compile(r"[.!?。！？؟।։۔](?:\s|$|<|\[)")
ITEM = re.compile(r"^[*#]", re.MULTILINE)


def prose_of(table: str) -> str:
    """Cells that hold prose, as paragraphs, of a table that holds little else.

    Args:
        table: what stands between {| and |}, without templates and inner tables.

    Returns:
        Nothing for a table of data.
    """
    if len(table) < LEAST_TABLE or DATA_TABLE.search(table):
        return ""
    prose: list[str] = []
    total = 0
    for piece in CELL.split(table)[1:]:
        if piece[:1] in ("-", "+", "}"):
            continue  # the attributes of a row, or the caption
        cell = piece[found.end() :] if (found := ATTRIBUTES.match(piece)) else piece
        cell = cell.strip()
        total += len(cell)
        if _is_prose(cell):
            prose.append(cell)
    kept = sum(map(len, prose))
    return "\n\n".join(prose) if kept and kept >= LEAST_SHARE * total else ""


def _is_prose(cell: str) -> bool:
    if len(cell) < LEAST_PROSE or STOP.search(cell) is None:
        return False
    return len(ITEM.findall(cell)) <= cell.count("\n") / 2
