"""The part of a run's page about the vocabulary: what it makes of held-out text, and its pieces."""

from __future__ import annotations

from collections.abc import Iterator

from flows.report import markup
from flows.report.markup import Table
from flows.report.tables import (
    Coverage,
    LanguageTokens,
    PiecesBy,
    VocabularyReport,
    VocabularyTotals,
    VocabularyTraining,
)
from flows.report.totals import percent
from flows.report.vocabulary_plots import fertility_svg, pieces_svg

EXAMPLES = {
    "longest": "longest",
    "mixed_scripts": "letters of several scripts",
    "repeated_character": "one character four times in a row",
}


def vocabulary_section(report: VocabularyReport, max_languages: int) -> str:
    """Fertility by language, pieces by script, coverage of characters, odd pieces."""
    return markup.section(
        "Vocabulary",
        markup.paragraph(" ".join(_sentences(report))),
        *([markup.paragraph(_against(report.totals))] if report.totals else []),
        markup.figure(
            fertility_svg(report, max_languages),
            _caption(report, max_languages),
            _languages(report),
        ),
        *([_comparison(report)] if report.totals and report.totals.compared else []),
        *([_pieces(report.pieces_by)] if report.pieces_by else []),
        *([_coverage(report.coverage)] if report.coverage else []),
        *([_examples(report)] if report.examples else []),
    )


def _sentences(report: VocabularyReport) -> Iterator[str]:
    yield f"{report.pieces:,} pieces ({report.rows:,} rows with special tokens)."
    if report.training is not None:
        yield _training(report.training)
    totals = report.totals
    if totals is None or not totals.tokens:
        return
    yield (
        f"Measured on {totals.lines:,} held-out lines of {totals.languages} languages that it was "
        f"not trained on: {figure(totals.tokens_per_word, 2)} tokens per word, "
        f"{figure(totals.tokens_per_character, 3)} per character, "
        f"{percent(totals.unknown / totals.tokens)} of the tokens unknown."
    )


def _against(totals: VocabularyTotals) -> str:
    if totals.compared is None:
        return "No other vocabulary was measured beside it (vocabulary.compare_with)."
    return (
        f"The vocabulary it is compared with makes {totals.compared.tokens:,} tokens of the same "
        f"text, this one {totals.tokens:,}: {figure(totals.ratio, 3)} times as many over all text, "
        f"{figure(totals.mean_ratio, 3)} as the mean of the languages, and fewer in "
        f"{totals.languages_with_fewer_tokens} of them. Unknown characters make few tokens, so "
        "read a ratio together with the characters lost."
    )


def _training(training: VocabularyTraining) -> str:
    text = f"Kind {training.kind}, normalisation {training.normalization}, trained on "
    if training.train_on == "words":
        return (
            f"{text}{training.words or 0:,} of {training.distinct_words or 0:,} distinct words, "
            "their counts weighed by q."
        )
    return f"{text}{training.sample_characters or 0:,} characters of lines drawn by q."


def _caption(report: VocabularyReport, max_languages: int) -> str:
    shown, known = min(len(report.languages), max_languages), len(report.languages)
    text = (
        f"Fertility: tokens per word and per character of {shown} of {known} languages. A word is "
        "what stands between blanks, so languages written without them are compared by characters."
    )
    if any(row.compared for row in report.languages.values()):
        text += " Orange marks: the vocabulary that is compared with."
    return text


def _languages(report: VocabularyReport) -> Table:
    columns = ("language", "lines", "characters", "words", "tokens", "tokens per word",
               "tokens per character", "unknown tokens", "characters lost")  # fmt: skip
    return Table(columns, [_language(tag, row) for tag, row in _largest_first(report)])


def _language(tag: str, row: LanguageTokens) -> list[object]:
    words = row.words if row.written_with_blanks else 0
    return [
        *(tag, row.lines, row.characters, words or None, row.tokens),
        figure(row.tokens / words if words else None, 2),
        figure(row.tokens / row.characters if row.characters else None, 3),
        percent(row.unknown / row.tokens) if row.tokens else None,
        row.unknown_characters,
    ]


def _comparison(report: VocabularyReport) -> str:
    rows = [
        (tag, row.tokens, row.compared.tokens, figure(row.ratio, 3), row.unknown_characters,
         row.compared.unknown_characters)
        for tag, row in _largest_first(report) if row.compared
    ]  # fmt: skip
    columns = ("language", "tokens", "tokens of the other", "ratio", "characters lost",
               "characters the other loses")  # fmt: skip
    return markup.details("beside the compared vocabulary", markup.table(Table(columns, rows)))


def _largest_first(report: VocabularyReport) -> list[tuple[str, LanguageTokens]]:
    return sorted(report.languages.items(), key=lambda item: (-item[1].characters, item[0]))


def _pieces(pieces: PiecesBy) -> str:
    rows = [
        (row.name, row.pieces, percent(row.share), row.used, percent(row.used / row.pieces))
        for row in pieces.script
    ]
    kind = pieces.kind
    facts = (
        ("Begin a word", "begins_a_word"),
        ("Of one character", "one_character"),
        ("Letters of several scripts", "mixed_scripts"),
        ("One character four times in a row", "repeated_character"),
        ("Occur in the held-out text", "used_on_held_out_text"),
    )
    return "\n".join(
        [
            markup.figure(
                pieces_svg(pieces),
                "Pieces by the script of their letters (dark: those that occur in the held-out "
                "text), and by length in characters.",
                Table(("script", "pieces", "share", "used on held-out text", "used"), rows),
            ),
            markup.facts([(name, round(kind.get(key) or 0)) for name, key in facts]),
        ]
    )


def _coverage(coverage: Coverage) -> str:
    rows = [
        (tag, row.characters, row.distinct, row.covered_distinct, _covered(row.covered_share))
        for tag, row in sorted(
            coverage.languages.items(), key=lambda item: (item[1].covered_share or 0, item[0])
        )
    ]
    missing = [(row.character, row.shown, row.count) for row in coverage.missing]
    columns = ("language", "characters", "distinct", "with a piece", "text covered")
    return "\n".join(
        [
            markup.paragraph(
                f"{coverage.covered_distinct:,} of the {coverage.distinct:,} different characters "
                f"of the training text can be written, which are {_covered(coverage.covered_share)}"
                " of the text."
            ),
            markup.details(
                "coverage by language, the least first", markup.table(Table(columns, rows))
            ),
            markup.details(
                "the most frequent characters without a piece",
                markup.table(Table(("code point", "character", "count"), missing, text_columns=2)),
            ),
        ]
    )


def _examples(report: VocabularyReport) -> str:
    rows = [
        (name, "  ".join(report.examples[key]) or "none")
        for key, name in EXAMPLES.items()
        if key in report.examples
    ]
    return markup.details(
        "examples of odd pieces", markup.table(Table(("kind", "pieces"), rows, text_columns=2))
    )


def figure(value: float | None, places: int) -> str | None:
    """A number with so many places, or None."""
    return None if value is None else f"{value:.{places}f}"


def _covered(share: float | None) -> str:
    """A share near 1, without rounding it up to 1: 0.99996 -> `99.996 %`."""
    if share is None or share == 1:
        return "–" if share is None else "100 %"
    return f"{share * 100:.4f}".rstrip("0").rstrip(".") + " %"
