"""The balance table: shares of every language for training, by phase, and for the vocabulary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.config import BalanceSection
from pipelines.core.config import ConfigError
from pipelines.rebalance.shares import LanguageShare, named, sampling_plan

MEASURES = ("documents", "sentences", "characters", "bytes")
"""What is counted of each language; each can be the unit of p."""

Sizes = Mapping[str, Mapping[str, int]]
"""Counts by language and measure."""


def sizes_by_language(counters: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Documents, sentences, characters and bytes of each language, from the counters of a stage.

    A measure that was never counted for a language is 0.
    """
    sizes: dict[str, dict[str, int]] = {}
    for name, value in counters.items():
        measure, slash, language = name.partition("/")
        if slash and measure in MEASURES:
            sizes.setdefault(language, dict.fromkeys(MEASURES, 0))[measure] = value
    return sizes


def balance_table(section: BalanceSection, sizes: Sizes) -> dict[str, Any]:
    """The table as plain JSON.

    `rows` holds every language of the mix: p, and q, repeats over the whole of training (the mean
    of its phases, weighted by their length); `phases` and `vocabulary` hold theirs. Repeats are
    counted while as much is drawn as the corpus has. `excluded` names the languages that are left
    out, with their sizes and why.

    Raises:
        ConfigError: no language has enough text, or the weights do not fit the languages.
    """
    counts, excluded = _with_enough_text(section, sizes)
    for row in excluded:
        if row["language"] in section.weights:
            raise ConfigError(
                f"balance.weights names {row['language']}, which is left out: {row['reason']} "
                f"(it has {row['sentences']:,} sentences)"
            )
    ends = [(phase.until, phase.alpha) for phase in section.phases] or [(1.0, section.alpha)]
    phases, mean = [], {tag: _Mean() for tag in counts}
    began = 0.0
    plan: Sequence[LanguageShare] = ()
    for until, alpha in ends:
        plan = _plan(section, counts, alpha)
        phases.append({"until": until, "alpha": alpha, "rows": [_row(share) for share in plan]})
        for share in plan:
            mean[share.language].add(share, until - began)
        began = until
    rows = [
        {
            "language": share.language,
            "p": share.p,
            **mean[share.language].values(),
            "weighted": share.weighted,
            **{measure: sizes[share.language][measure] for measure in MEASURES},
        }
        for share in plan
    ]
    vocabulary = section.alpha if section.vocabulary_alpha is None else section.vocabulary_alpha
    return {
        "unit": section.unit,
        "alpha": ends[-1][1],
        "max_repeats": section.max_repeats,
        "rows": rows,
        "excluded": excluded,
        "phases": phases,
        "vocabulary": {
            "alpha": vocabulary,
            "rows": [_row(share) for share in _plan(section, counts, vocabulary)],
        },
    }


def notes_of(table: Mapping[str, Any]) -> list[str]:
    """What a person should know of a table: who is left out, and whose share is not as set."""
    notes = []
    by_reason: dict[str, list[str]] = {}
    for row in table["excluded"]:
        by_reason.setdefault(row["reason"], []).append(f"{row['language']} ({row['sentences']:,})")
    for reason, languages in by_reason.items():
        notes.append(
            f"{len(languages)} language(s) left out of the mix, {reason} (their sentences in "
            f"brackets): {named(languages)}"
        )
    for title, rows in _uses(table):
        held = [row for row in rows if row["capped"]]
        if held:
            tags = [f"{row['language']} (q = {row['q']:.3g})" for row in held]
            notes.append(
                f"{title}: held at {table['max_repeats']:g} repeats, what is over goes to the "
                f"others: {named(tags)}"
            )
    return notes


def _uses(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    uses = [
        (f"training until {phase['until']:.4g}, alpha = {phase['alpha']:g}", phase["rows"])
        for phase in table["phases"]
    ]
    vocabulary = table["vocabulary"]
    return [*uses, (f"vocabulary, alpha = {vocabulary['alpha']:g}", vocabulary["rows"])]


class _Mean:
    """The mean of a language's shares over the phases."""

    def __init__(self) -> None:
        self._q: list[float] = []
        self._repeats: list[float] = []
        self._capped = False

    def add(self, share: LanguageShare, length: float) -> None:
        self._q.append(share.q * length)
        self._repeats.append(share.repeats * length)
        self._capped |= share.capped

    def values(self) -> dict[str, Any]:
        repeats = math.fsum(self._repeats)
        return {"q": math.fsum(self._q), "repeats": repeats, "capped": self._capped}


def _plan(section: BalanceSection, counts: Mapping[str, int], alpha: float) -> list[LanguageShare]:
    try:
        return sampling_plan(counts, alpha, section.max_repeats, weights=section.weights)
    except ConfigError as error:
        raise ConfigError(f"balance.{error}") from None


def _row(share: LanguageShare) -> dict[str, Any]:
    return {
        "language": share.language,
        "q": share.q,
        "repeats": share.repeats,
        "capped": share.capped,
    }


def _with_enough_text(
    section: BalanceSection, sizes: Sizes
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Counts of the languages in the mix, in the section's unit, and the rows of the others."""
    counts, excluded = {}, []
    for tag, size in sorted(sizes.items()):
        if size["sentences"] < section.min_sentences or not size[section.unit]:
            few = f"fewer than balance.min_sentences = {section.min_sentences}"
            none = "no text in the deduplicated corpus"
            found = {measure: size[measure] for measure in MEASURES}
            reason = few if any(found.values()) else none
            excluded.append({"language": tag, **found, "reason": reason})
        else:
            counts[tag] = size[section.unit]
    if not counts:
        most = max((size["sentences"] for size in sizes.values()), default=0)
        raise ConfigError(
            f"balance.min_sentences = {section.min_sentences}: no language has as many; "
            f"the largest has {most}"
        )
    return counts, excluded
