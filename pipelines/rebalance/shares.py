"""Shares of the languages: q_i = p_i^alpha / sum_j p_j^alpha, with a cap on repeats.

Source: Conneau and Lample 2019 (XLM), section 3.1, whose p_i counts sentences; XLM-R uses
alpha = 0.3.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.core.config import ConfigError


@dataclass(frozen=True, slots=True)
class LanguageShare:
    """One language's part in the mix."""

    language: str
    count: int
    """n_i, in the unit of the plan."""
    p: float
    """Natural share, n_i / sum n."""
    q: float
    """Share in the mix, after the cap."""
    repeats: float
    """How often each text is seen when as many are drawn as the budget says."""
    capped: bool
    """Whether the cap on repeats lowered q."""
    weighted: bool = False
    """Whether q was set by hand."""


def sampling_plan(
    counts: Mapping[str, int],
    alpha: float,
    max_repeats: float = math.inf,
    budget: int | None = None,
    weights: Mapping[str, float] | None = None,
) -> list[LanguageShare]:
    """Shares of all languages, the largest first.

    Languages in `weights` get that share of the mix; the others divide what is left by p^alpha.
    Where q_i x budget / n_i would exceed `max_repeats`, q_i is lowered to meet it, and the excess
    goes to the languages below their cap: first to those without a weight, in proportion to
    p^alpha; what they cannot take to those with one, in proportion to it.

    Args:
        counts: n_i by language, all above 0.
        max_repeats: times a text may be seen in `budget` draws.
        budget: draws that repeats are counted over; None is the sum of the counts.
        weights: shares that are set by hand, by language, each above 0.

    Raises:
        ValueError: there is no language, a count is not above 0, or the budget cannot be met
            even with every language at its cap.
        ConfigError: `weights` names a language without text, or does not leave the others
            a share.
    """
    empty = sorted(language for language, count in counts.items() if count <= 0)
    if empty or not counts:
        raise ValueError(f"no text for: {', '.join(empty)}" if empty else "no language has text")
    whole = sum(counts.values())
    budget = whole if budget is None else budget
    if budget <= 0:
        raise ValueError(f"{budget} draws; need at least 1")
    if max_repeats * whole < budget:
        raise ValueError(f"{budget} draws need more than {max_repeats} repeats of {whole} texts")
    weights = dict(sorted((weights or {}).items()))
    _check_weights(weights, counts)
    p = {language: count / whole for language, count in counts.items()}
    ceiling = {language: max_repeats * count / budget for language, count in counts.items()}
    natural = {tag: p[tag] ** alpha for tag in sorted(counts) if tag not in weights}
    q, capped = {tag: min(share, ceiling[tag]) for tag, share in weights.items()}, set[str]()
    capped = {tag for tag, share in weights.items() if share > ceiling[tag]}
    given, over = _shared_out(natural, 1.0 - math.fsum(q.values()), ceiling)
    q |= given
    capped |= over
    left = 1.0 - math.fsum(q.values())
    if capped.issuperset(natural) and left > 0:
        free = {tag: share for tag, share in weights.items() if tag not in capped}
        room = left + math.fsum(q[tag] for tag in free)
        more, over = _shared_out(free, room, ceiling)
        q |= more
        capped |= over
    shares = [
        LanguageShare(
            language=tag,
            count=counts[tag],
            p=p[tag],
            q=q[tag],
            repeats=q[tag] * budget / counts[tag],
            capped=tag in capped,
            weighted=tag in weights,
        )
        for tag in counts
    ]
    return sorted(shares, key=lambda share: (-share.count, share.language))


def _shared_out(
    wanted: Mapping[str, float], whole: float, ceiling: Mapping[str, float]
) -> tuple[dict[str, float], set[str]]:
    """Divide `whole` in proportion to `wanted`, none above its ceiling; and who is at it.

    Every round puts the languages above their ceilings to them and divides the rest anew, so it
    ends after as many rounds as there are languages at most.
    """
    capped: set[str] = set()
    scale = 0.0
    while True:
        free = [tag for tag in wanted if tag not in capped]
        left = whole - math.fsum(ceiling[tag] for tag in wanted if tag in capped)
        scale = left / math.fsum(wanted[tag] for tag in free) if free else 0.0
        over = {tag for tag in free if wanted[tag] * scale > ceiling[tag]}
        if not over:
            return {
                tag: ceiling[tag] if tag in capped else wanted[tag] * scale for tag in wanted
            }, capped
        capped |= over


def _check_weights(weights: Mapping[str, float], counts: Mapping[str, int]) -> None:
    """Refuse weights that name no language of the counts, or that leave no share."""
    unknown = [tag for tag in weights if tag not in counts]
    if unknown:
        raise ConfigError(
            "weights: " + "; ".join(f"{tag!r} has no text{_near(tag, counts)}" for tag in unknown)
        )
    whole = math.fsum(weights.values())
    others = sorted(counts.keys() - weights.keys())
    if whole > 1 + 1e-9:
        raise ConfigError(f"weights sum to {whole:.9g}, above 1")
    if weights and not others and whole < 1 - 1e-9:
        raise ConfigError(
            f"weights of all {len(weights)} languages sum to {whole:.9g}; need 1, or leave out "
            "the language that takes the rest"
        )
    if others and whole > 1 - 1e-9:
        raise ConfigError(
            f"weights sum to 1 and leave nothing for {named(others)}; lower them, or leave these "
            "languages out (run.languages)"
        )


def _near(tag: str, known: Mapping[str, int]) -> str:
    near = difflib.get_close_matches(tag, sorted(known), n=3, cutoff=0.4)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; languages with text: {named(sorted(known))}"


def named(names: Sequence[str], most: int = 30) -> str:
    """Names in one line; beyond `most`, how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
