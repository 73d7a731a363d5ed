"""Rebalance languages: q_i = p_i^alpha / sum_j p_j^alpha, with a cap on repeats.

Source: Conneau and Lample 2019 (XLM), section 3.1; XLM-R uses alpha = 0.3. p_i is a language's
share of the sentences of the deduplicated corpus.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.config import BalanceSection, DataConfig
from pipelines.core.manifest import Output
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.core.store import local_file


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


def sampling_plan(
    counts: Mapping[str, int], alpha: float, max_repeats: float, budget: int | None = None
) -> list[LanguageShare]:
    """Shares of all languages, the largest first.

    Where q_i x budget / n_i would exceed `max_repeats`, q_i is lowered to meet it and the excess
    goes to the languages below their cap, in proportion to p^alpha.

    Args:
        counts: n_i by language, all above 0.
        budget: draws in one pass; None is the sum of the counts.

    Raises:
        ValueError: there is no language, a count is not above 0, or the budget cannot be met
            even with every language at its cap.
    """
    empty = sorted(language for language, count in counts.items() if count <= 0)
    if empty or not counts:
        raise ValueError(f"no text for: {', '.join(empty)}" if empty else "no language has text")
    whole = sum(counts.values())
    budget = whole if budget is None else budget
    if max_repeats * whole < budget:
        raise ValueError(f"{budget} draws need more than {max_repeats} repeats of {whole} texts")
    p = {language: count / whole for language, count in counts.items()}
    weight = {language: share**alpha for language, share in p.items()}
    ceiling = {language: max_repeats * count / budget for language, count in counts.items()}
    capped: set[str] = set()
    while True:
        free = [language for language in sorted(counts) if language not in capped]
        left = 1.0 - sum(ceiling[language] for language in sorted(capped))
        scale = left / sum(weight[language] for language in free) if free else 0.0
        over = {language for language in free if weight[language] * scale > ceiling[language]}
        if not over:
            break
        capped |= over
    q = {tag: ceiling[tag] if tag in capped else weight[tag] * scale for tag in counts}
    shares = [
        LanguageShare(
            tag, counts[tag], p[tag], q[tag], q[tag] * budget / counts[tag], tag in capped
        )
        for tag in counts
    ]
    return sorted(shares, key=lambda share: (-share.count, share.language))


def balance_languages(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the table of languages as JSON; languages with too little text are named in it."""
    section = BalanceSection.model_validate(config["balance"])
    sizes: Mapping[str, Mapping[str, int]] = config["sizes"]
    enough = {
        tag: size["sentences"]
        for tag, size in sizes.items()
        if size["sentences"] >= section.min_sentences
    }
    if not enough:
        most = max((size["sentences"] for size in sizes.values()), default=0)
        raise ValueError(
            f"balance.min_sentences = {section.min_sentences}: no language has as many; "
            f"the largest has {most}"
        )
    rows = []
    for share in sampling_plan(enough, section.alpha, section.max_repeats):
        row = asdict(share)
        del row["count"]
        rows.append({**row, **sizes[share.language]})
        attempt.counters["languages"] += 1
    excluded = [
        {
            "language": tag,
            "sentences": size["sentences"],
            "reason": f"fewer than balance.min_sentences = {section.min_sentences}",
        }
        for tag, size in sorted(sizes.items())
        if tag not in enough
    ]
    attempt.counters["excluded"] += len(excluded)
    attempt.counters["excluded_sentences"] += sum(
        size["sentences"] for tag, size in sizes.items() if tag not in enough
    )
    table = {
        "alpha": section.alpha,
        "max_repeats": section.max_repeats,
        "unit": "sentences",
        "rows": rows,
        "excluded": excluded,
    }
    with local_file(".json") as path:
        path.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        attempt.write_file(f"balance-{attempt.unit_id}.json", path, part="balance")


def sizes_by_language(counters: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Documents, sentences, characters and bytes of each language, from the counters of a stage."""
    sizes: dict[str, dict[str, int]] = {}
    for name, value in counters.items():
        measure, slash, language = name.partition("/")
        if slash and measure in ("documents", "sentences", "characters", "bytes"):
            sizes.setdefault(language, {})[measure] = value
    return sizes


def balance_step(config: DataConfig, counters: Mapping[str, int]) -> Step:
    """The balance stage under a configuration and the counts of the deduplicated corpus."""
    read = {"balance": config.balance.model_dump(mode="json"), "sizes": sizes_by_language(counters)}
    return Step("balance", 1, f"runs/{config.run.name}/balance", read, balance_languages, "table")


def balance_units(unique: Sequence[Output]) -> list[Unit]:
    """A single unit: the whole table."""
    return [Unit("languages", tuple(output.ref for output in unique))]
