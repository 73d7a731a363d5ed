"""Small pieces of HTML. Everything that comes from a run is escaped here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1b1c1d; --paper: #ffffff; --faint: #6b7075;
  --line: #d9dcdf; --panel: #f5f6f7; --good: #00734f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e7e8; --paper: #16181a; --faint: #9aa0a6;
  --line: #34383c; --panel: #1f2225; --good: #4cc79c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .5rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
p.lead { font-size: 1.05rem; background: var(--panel); padding: .9rem 1.1rem; margin: 1rem 0;
  border-left: 4px solid var(--good); }
p.faint, figcaption, .facts dt { color: var(--faint); }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; }
svg { display: block; width: 100%; height: auto; color: var(--ink); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums;
  margin: .5rem 0; }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; white-space: normal; }
th.text, td.text { text-align: left; } td.text { white-space: normal; overflow-wrap: break-word;
  min-width: 6rem; }
details { margin: .5rem 0 1rem; } summary { cursor: pointer; color: var(--faint); }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem;
  font-size: .9rem; margin: .5rem 0; }
.facts dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--panel); padding: .75rem 1rem; overflow-x: auto; font-size: .8rem; }
@media print { details > * { display: block; } body { max-width: none; } }
"""


CONTROLS = {code: "\ufffd" for code in range(32) if chr(code) not in "\t\n\r"}


@dataclass(frozen=True)
class Table:
    """What to show in rows: leading columns of text, then columns of figures."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    text_columns: int = 1


def text(value: object) -> str:
    """A value for a page: whole numbers with separators, None as a dash, all else escaped.

    Control characters, which a page cannot hold, are shown as U+FFFD.
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else escape(str(value).translate(CONTROLS))


def table(content: Table) -> str:
    """A table, or a line that says it is empty."""
    if not content.rows:
        return '<p class="faint">nothing</p>'
    kinds = [
        " class='text'" if place < content.text_columns else ""
        for place in range(len(content.columns))
    ]
    head = "".join(
        f"<th scope='col'{kind}>{text(column)}</th>"
        for kind, column in zip(kinds, content.columns, strict=True)
    )
    rows = (
        "".join(f"<td{kind}>{text(value)}</td>" for kind, value in zip(kinds, row, strict=True))
        for row in content.rows
    )
    body = "\n".join(f"<tr>{cells}</tr>" for cells in rows)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def details(summary: str, content: str) -> str:
    """Something to unfold; `content` is markup already."""
    return f"<details><summary>{text(summary)}</summary>\n{content}\n</details>"


def figure(svg: str, caption: str, numbers: Table) -> str:
    """A picture with its caption and, folded, the numbers it is drawn from."""
    return (
        f"<figure>\n{svg}\n<figcaption>{text(caption)}</figcaption>\n</figure>\n"
        f"{details('the numbers', table(numbers))}"
    )


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """A list of names and values."""
    items = "\n".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in pairs)
    return f'<dl class="facts">\n{items}\n</dl>'


def paragraph(content: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{text(content)}</p>"


def section(title: str, *content: str) -> str:
    """A part of the page under a heading; `content` is markup already."""
    return "\n".join([f"<section><h2>{text(title)}</h2>", *content, "</section>"])


def page(title: str, content: Sequence[str]) -> str:
    """A whole page that needs nothing but itself; it is also well-formed XML after its doctype."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8" />',
            '<meta name="viewport" content="width=device-width, initial-scale=1" />',
            f"<title>{text(title)}</title>",
            f"<style>{STYLE}</style></head>",
            "<body>",
            *content,
            "</body></html>\n",
        ]
    )
