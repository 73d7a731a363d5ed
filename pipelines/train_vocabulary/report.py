"""The report of a vocabulary: what it makes of text it was not trained on.

Fertility is tokens per word (Rust et al. 2021, section 3.2), a word being what stands between
blanks. Scripts that write no blanks between words have no such words: there, and when one script is
compared with another, tokens per character count. All sizes are those of the text as given, before
the vocabulary's own normalisation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pipelines.core.languages import unicode_scripts_of
from pipelines.core.vocabulary import UNK_ID
from pipelines.core.words import UNSPACED_SCRIPTS
from pipelines.train_vocabulary.fertility import Counting, Encoded, Encoder, Sizes, measure
from pipelines.train_vocabulary.piece_kinds import BYTE, pieces_report

__all__ = ["Encoder", "coverage", "vocabulary_report"]

MOST_LISTED = 20
"""Entries of a list of examples; how many there are in all is counted beside it."""


def vocabulary_report(
    vocabulary: Encoder,
    held_out: Iterable[tuple[str, str]],
    characters: Mapping[str, Counter[int]] | None = None,
    compare_with: Encoder | None = None,
) -> dict[str, Any]:
    """Measure a vocabulary on held-out lines, and say what its pieces are.

    Args:
        held_out: (language tag, line); read once, in batches.
        characters: code points of the training text with their counts, by language; without it
            nothing is said about coverage.
        compare_with: another vocabulary that is measured on the same lines.

    Returns:
        `pieces`, `rows`, `languages` (by tag, sorted), `totals`, `pieces_by` (script, length,
        kind), `examples` and, where asked for, `coverage`. Plain JSON; shares go from 0 to 1, and a
        ratio is this vocabulary's tokens over the other's, below 1 where this one needs fewer.
    """
    ours = Counting(vocabulary)
    theirs = Counting(compare_with) if compare_with is not None else None
    languages = measure(held_out, ours, theirs)
    report = {
        "pieces": vocabulary.piece_count,
        "rows": vocabulary.rows,
        "languages": {
            tag: _language(tag, languages[tag], theirs is not None) for tag in sorted(languages)
        },
        "totals": _totals(languages, theirs is not None),
        **pieces_report(vocabulary, ours.uses, MOST_LISTED),
    }
    if compare_with is not None:
        report["compared_with"] = {"pieces": compare_with.piece_count, "rows": compare_with.rows}
    if characters is not None:
        report["coverage"] = coverage(vocabulary, characters)
    return report


def coverage(vocabulary: Encoder, characters: Mapping[str, Counter[int]]) -> dict[str, Any]:
    """How many of a text's characters the vocabulary can write, overall and by language.

    A character is covered when it alone is encoded without <unk>; what only byte pieces can write
    is counted apart.
    """
    whole: Counter[int] = Counter()
    for counts in characters.values():
        whole.update(counts)
    points = sorted(whole)
    unknown, in_bytes = _uncovered(vocabulary, points)
    missing = sorted(unknown, key=lambda point: (-whole[point], point))
    return {
        **_covered(whole, unknown, in_bytes),
        "missing": [
            {"character": f"U+{point:04X}", "shown": chr(point), "count": whole[point]}
            for point in missing[:MOST_LISTED]
        ],
        "languages": {
            tag: _covered(characters[tag], unknown, in_bytes) for tag in sorted(characters)
        },
    }


def _uncovered(vocabulary: Encoder, points: Sequence[int]) -> tuple[set[int], set[int]]:
    """Of some code points, those that become <unk> and those that become bytes."""
    ids, offsets = vocabulary.encode_ragged([chr(point) for point in points])
    is_byte = np.array(
        [BYTE.fullmatch(vocabulary.token(i)) is not None for i in range(vocabulary.rows)]
    )
    found = []
    for marked in (ids == UNK_ID, is_byte[ids]):
        before = np.concatenate([[0], np.cumsum(marked)])
        has = before[offsets[1:]] > before[offsets[:-1]]
        found.append({point for point, hit in zip(points, has.tolist(), strict=True) if hit})
    return found[0], found[1]


def _covered(counts: Counter[int], unknown: set[int], in_bytes: set[int]) -> dict[str, Any]:
    mass, distinct = counts.total(), len(counts)
    lost = sum(count for point, count in counts.items() if point in unknown)
    result = {
        "characters": mass,
        "distinct": distinct,
        "covered_share": _share(mass - lost, mass),
        "covered_distinct": distinct - sum(point in unknown for point in counts),
    }
    if in_bytes:
        result["distinct_as_bytes"] = sum(point in in_bytes for point in counts)
    return result


def _language(tag: str, sizes: Sizes, compared: bool) -> dict[str, Any]:
    row = {
        "lines": sizes.lines,
        "words": sizes.words,
        "characters": sizes.characters,
        "written_with_blanks": _has_blanks(tag),
        **_fertility(sizes, sizes.encoded),
    }
    if compared:
        row["compared"] = _fertility(sizes, sizes.compared)
        row["ratio"] = _share(sizes.encoded.tokens, sizes.compared.tokens)
    return row


def _fertility(sizes: Sizes, encoded: Encoded) -> dict[str, Any]:
    return {
        **asdict(encoded),
        "tokens_per_word": _share(encoded.tokens, sizes.words),
        "tokens_per_character": _share(encoded.tokens, sizes.characters),
        "unknown_share": _share(encoded.unknown, encoded.tokens),
    }


def _totals(languages: Mapping[str, Sizes], compared: bool) -> dict[str, Any]:
    """Sums over all text, and means in which every language counts the same."""
    sizes = languages.values()
    totals = {
        "languages": len(sizes),
        "lines": sum(s.lines for s in sizes),
        "words": sum(s.words for s in sizes),
        "characters": sum(s.characters for s in sizes),
        **_sums([(tag, s, s.encoded) for tag, s in languages.items()]),
    }
    if compared:
        totals["compared"] = _sums([(tag, s, s.compared) for tag, s in languages.items()])
        both = [s for s in sizes if s.encoded.tokens and s.compared.tokens]
        logs = [math.log(s.encoded.tokens / s.compared.tokens) for s in both]
        mean = _mean(logs)
        totals["ratio"] = _share(totals["tokens"], totals["compared"]["tokens"])
        # Geometric, so that it says the same whichever vocabulary is compared with the other.
        totals["mean_ratio"] = None if mean is None else round(math.exp(mean), 6)
        totals["languages_with_fewer_tokens"] = sum(log < 0 for log in logs)
    return totals


def _sums(rows: Sequence[tuple[str, Sizes, Encoded]]) -> dict[str, Any]:
    spaced = [(s, found) for tag, s, found in rows if _has_blanks(tag)]
    tokens = sum(found.tokens for _, _, found in rows)
    return {
        "tokens": tokens,
        "unknown": sum(found.unknown for _, _, found in rows),
        "unknown_characters": sum(found.unknown_characters for _, _, found in rows),
        "tokens_per_word": _share(
            sum(found.tokens for _, found in spaced), sum(s.words for s, _ in spaced)
        ),
        "tokens_per_character": _share(tokens, sum(s.characters for _, s, _ in rows)),
        "mean_tokens_per_word": _mean([found.tokens / s.words for s, found in spaced if s.words]),
        "mean_tokens_per_character": _mean(
            [found.tokens / s.characters for _, s, found in rows if s.characters]
        ),
    }


def _has_blanks(tag: str) -> bool:
    scripts = unicode_scripts_of(tag)
    return not scripts or not all(script in UNSPACED_SCRIPTS for script in scripts)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), 6) if values else None
