"""What a number of draws does with the texts there are: used once, more often, never."""

from __future__ import annotations

from dataclasses import dataclass

from model.data.sample_plan import SamplePlan


@dataclass(frozen=True, slots=True)
class Usage:
    """What so many draws do with the texts of a language; once + repeated + never = texts."""

    language: str
    texts: int
    draws: int
    once: int
    """Texts that are drawn exactly once."""
    repeated: int
    """Texts that are drawn more than once."""
    never: int


def usage_of(plan: SamplePlan, budget: int) -> list[Usage]:
    """Texts that the first `budget` samples use once, more often, and never, by language.

    A language's texts come without replacement, so d draws of n texts use each floor(d / n) times,
    and d mod n of them once more.

    Raises:
        IndexError: `budget` is negative or more than the plan has.
    """
    draws = dict(zip(plan.languages, plan.drawn(budget).tolist(), strict=True))
    return [usage(tag, plan.counts[tag], draws[tag]) for tag in plan.languages]


def usage(language: str, texts: int, draws: int) -> Usage:
    """Texts of one language that so many draws use once, more often, and never."""
    passes, more = divmod(draws, texts)
    once = {0: more, 1: texts - more}.get(passes, 0)
    repeated = {0: 0, 1: more}.get(passes, texts)
    return Usage(language, texts, draws, once, repeated, texts - once - repeated)
