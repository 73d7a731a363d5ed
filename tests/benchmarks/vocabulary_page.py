"""The page with the tables of the benchmark `vocabulary_report`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

SETS = {
    "help": "help pages",
    "udhr": "UDHR",
    "bible": "Bible",
    "sib200": "SIB-200",
}

INTRODUCTION = """# A vocabulary of 250,000 pieces beside XLM-R's

`python -m tests.benchmarks vocabulary_report` measures this and writes this page; do not edit it.
The model itself is not kept: `python -m tests.benchmarks vocabulary` trains it, on the help pages
of LibreOffice in Debian's packages.

- **Trained on** {lines:,} distinct lines ({megabytes:.1f} MB of UTF-8) in {languages} languages,
  all of one domain: help for office software.
- **Compared with** the real vocabulary of XLM-R, of equal size ({pieces:,} pieces), which was
  trained on general web text in 100 languages.
- **Held-out help pages** are 2 % of the pages, the same ones in every language; of their lines only
  those are measured that no training page holds. They are of the *same domain* as the training
  text, so they say how well a vocabulary fits the text it was made for: **{help:.2f} times**
  XLM-R's tokens, as the mean of the languages.
- **Out of domain** are the Universal Declaration of Human Rights (UDHR), the New Testament (Bible)
  and news, travel and science (SIB-200), in the languages trained on. There it makes **{outside}
  times** XLM-R's tokens. XLM-R's web text is likely to hold these very texts, and it is many
  thousand times as much. So train a vocabulary on the text that its model will read.
- A *word* is what stands between blanks. Languages written without blanks
  ({unspaced}) have none and are compared by tokens per character.
- A *ratio* is our tokens over XLM-R's on the same text; below 1 we need fewer. *Lost* is the share
  of characters that become `<unk>`: many characters become few `<unk>`, so a ratio says little
  where much is lost (XLM-R has no Tibetan script, for Dzongkha; this vocabulary has few Han
  characters, for the help pages use few).
"""


def page_of(figures: dict[str, Any]) -> str:
    """All tables as Markdown."""
    training, text = figures["training"], figures["text"]
    unspaced = [
        tag for tag, row in text["help"]["languages"].items() if not row["written_with_blanks"]
    ]
    parts = [
        INTRODUCTION.format(
            lines=training["distinct_lines"],
            megabytes=training["bytes"] / 1e6,
            languages=training["languages"],
            pieces=figures["pieces"],
            unspaced=", ".join(unspaced),
            help=text["help"]["totals"]["mean_ratio"],
            outside=_outside(text),
        ),
        "## All text\n",
        _totals(text),
        "## Held-out help pages, by language\n",
        _by_language(text["help"]["languages"]),
        "## Ratio to XLM-R by language and domain\n",
        _ratios(text),
        "## Pieces by script\n",
        _scripts(figures),
        "## Pieces by length\n",
        _lengths(figures),
        "## Characters of the training text\n",
        _coverage(figures["coverage"]),
        "## Odd pieces\n",
        _examples(figures["examples"]),
    ]
    return "\n".join(parts)


def _outside(text: dict[str, Any]) -> str:
    """The lowest and the highest mean ratio of the texts of other domains."""
    ratios = [text[name]["totals"]["mean_ratio"] for name in SETS if name != "help"]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _totals(text: dict[str, Any]) -> str:
    columns = ("text", "languages", "lines", "tokens per word", "XLM-R", "tokens per character",
               "XLM-R", "ratio", "mean ratio", "fewer in", "lost", "XLM-R loses")  # fmt: skip
    rows = []
    for name, title in SETS.items():
        totals = text[name]["totals"]
        other, size = totals["compared"], totals["characters"]
        rows.append(
            (title, totals["languages"], totals["lines"], _two(totals["mean_tokens_per_word"]),
             _two(other["mean_tokens_per_word"]), _three(totals["mean_tokens_per_character"]),
             _three(other["mean_tokens_per_character"]), _three(totals["ratio"]),
             _three(totals["mean_ratio"]), totals["languages_with_fewer_tokens"],
             _percent(totals["unknown_characters"], size),
             _percent(other["unknown_characters"], size))
        )  # fmt: skip
    note = (
        "\nTokens per word and per character, and the mean ratio (geometric), are means in which "
        "every language\ncounts the same; the ratio is over all tokens.\n"
    )
    return _table(columns, rows) + note


def _by_language(languages: dict[str, Any]) -> str:
    columns = ("language", "lines", "characters", "words", "tokens per word", "XLM-R",
               "tokens per character", "XLM-R", "ratio", "lost", "XLM-R loses")  # fmt: skip
    rows = []
    for tag, row in languages.items():
        other, spaced, size = row["compared"], row["written_with_blanks"], row["characters"]
        rows.append(
            (tag, row["lines"], size, row["words"] if spaced else None,
             _two(row["tokens_per_word"] if spaced else None),
             _two(other["tokens_per_word"] if spaced else None),
             _three(row["tokens_per_character"]), _three(other["tokens_per_character"]),
             _three(row["ratio"]), _percent(row["unknown_characters"], size),
             _percent(other["unknown_characters"], size))
        )  # fmt: skip
    return _table(columns, rows)


def _ratios(text: dict[str, Any]) -> str:
    columns = ["language"]
    for title in SETS.values():
        columns += [title, "lost", "XLM-R loses"]
    rows = []
    for tag in sorted({tag for name in SETS for tag in text[name]["languages"]}):
        cells: list[object] = [tag]
        for name in SETS:
            row = text[name]["languages"].get(tag)
            if row is None:
                cells += [None, None, None]
                continue
            size = row["characters"]
            cells += [_three(row["ratio"]), _percent(row["unknown_characters"], size),
                      _percent(row["compared"]["unknown_characters"], size)]  # fmt: skip
        rows.append(cells)
    return _table(columns, rows)


def _scripts(figures: dict[str, Any]) -> str:
    ours = {row["name"]: row for row in figures["pieces_by"]["script"]}
    theirs = {row["name"]: row for row in figures["xlmr_pieces_by"]["script"]}
    rows = [
        (name, ours[name]["pieces"] if name in ours else 0,
         _percent(ours[name]["used"], ours[name]["pieces"]) if name in ours else None,
         theirs[name]["pieces"] if name in theirs else 0)
        for name in dict.fromkeys([*ours, *theirs])
    ]  # fmt: skip
    return _table(("script", "pieces", "used on the held-out help pages", "XLM-R"), rows)


def _lengths(figures: dict[str, Any]) -> str:
    ours, theirs = figures["pieces_by"], figures["xlmr_pieces_by"]
    lengths = sorted({*map(int, ours["length"]), *map(int, theirs["length"])})
    rows: list[Sequence[object]] = [
        (f"{n} character{'s' * (n > 1)}", *(by["length"].get(str(n), 0) for by in (ours, theirs)))
        for n in lengths
    ]
    rows += [
        (title, ours["kind"][key], theirs["kind"][key])
        for title, key in (
            ("begin a word", "begins_a_word"),
            ("letters of several scripts", "mixed_scripts"),
            ("one character four times in a row", "repeated_character"),
        )
    ]
    return _table(("pieces", "ours", "XLM-R"), rows)


def _coverage(coverage: dict[str, Any]) -> str:
    def cells(name: str, row: dict[str, Any]) -> Sequence[object]:
        share = row["covered_share"]
        return (name, row["characters"], row["distinct"], row["covered_distinct"],
                f"{share:.4%}" if share is not None else None)  # fmt: skip

    rows = [cells("all", coverage), *(cells(tag, r) for tag, r in coverage["languages"].items())]
    columns = ("language", "characters", "distinct", "with a piece", "text covered")
    missing = ", ".join(f"{m['character']} ({m['count']:,})" for m in coverage["missing"])
    return _table(columns, rows) + f"\nThe most frequent without a piece: {missing or 'none'}.\n"


def _examples(examples: dict[str, Sequence[str]]) -> str:
    titles = {"longest": "Longest", "mixed_scripts": "Letters of several scripts",
              "repeated_character": "One character four times in a row"}  # fmt: skip
    return "\n".join(
        f"- {titles[key]}: {' '.join(f'`{piece}`' for piece in pieces) or 'none'}"
        for key, pieces in examples.items()
    ) + "\n"  # fmt: skip


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' + '--:|' * (len(columns) - 1)}\n"
    return head + "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _two(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _three(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _percent(part: int, whole: int) -> str | None:
    if not whole:
        return None
    return "0" if not part else f"{100 * part / whole:.2g} %"
