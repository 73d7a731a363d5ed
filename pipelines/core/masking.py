"""Choose positions and replace tokens for masked language modelling.

A mask is a pure function of (seed, pass, sequence id): packing, sharding, the number of workers and
restarts cannot change it. Source: Devlin et al. 2019 (BERT), section 3.1 (15 %, 80/10/10); random
replacement from the unigram distribution of the training text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.core.hashing import generator

Ids = npt.NDArray[np.uint32]
Positions = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class MaskingRule:
    """How to mask. Probabilities are of a chosen position."""

    rate: float
    """Share of ordinary tokens that are chosen for prediction."""
    mask_probability: float
    """Chosen position becomes <mask>."""
    random_probability: float
    """Chosen position becomes a random ordinary token; the rest stays as it is."""
    mask_id: int
    special_ids: frozenset[int]
    """Ids that are never chosen and never inserted."""


class UnigramSampler:
    """Draws ordinary ids by their frequency in the training text.

    Args:
        counts: occurrences by id, shape (vocabulary rows,).
        special_ids: ids that are never drawn.

    Raises:
        ValueError: no ordinary id has a count.
    """

    def __init__(self, counts: npt.NDArray[np.int64], special_ids: frozenset[int]) -> None:
        weights = counts.astype(np.float64).copy()
        weights[sorted(special_ids)] = 0.0
        if weights.sum() <= 0:
            raise ValueError("the unigram counts hold no ordinary token")
        self._cumulative = np.cumsum(weights) / weights.sum()

    def draw(self, rng: np.random.Generator, size: int) -> Ids:
        """Draw `size` ids, shape (size,)."""
        return np.searchsorted(self._cumulative, rng.random(size), side="right").astype(np.uint32)


def choose_and_replace(
    tokens: Ids,
    rule: MaskingRule,
    sampler: UnigramSampler,
    seed: int,
    pass_index: int,
    sequence_id: str,
) -> tuple[Positions, Ids]:
    """Mask one sequence.

    Exactly max(1, round(rate x ordinary tokens)) positions are chosen, special ids never.

    Args:
        tokens: ids, shape (tokens,).
        pass_index: how often this sequence was used before; another pass gives fresh masks.

    Returns:
        positions, sorted, and the ids to put there, both of shape (chosen,). Both are empty for a
        sequence of special ids alone.
    """
    ordinary = np.flatnonzero(~np.isin(tokens, sorted(rule.special_ids)))
    if not len(ordinary):
        return np.empty(0, np.uint16), np.empty(0, np.uint32)
    rng = generator(seed, "mask", pass_index, sequence_id)
    chosen_count = max(1, round(rule.rate * len(ordinary)))
    chosen = np.sort(rng.permutation(ordinary)[:chosen_count])
    replaced = tokens[chosen].astype(np.uint32)
    fate = rng.random(chosen_count)
    drawn = sampler.draw(rng, chosen_count)
    becomes_mask = fate < rule.mask_probability
    becomes_random = ~becomes_mask & (fate < rule.mask_probability + rule.random_probability)
    replaced[becomes_mask] = rule.mask_id
    replaced[becomes_random] = drawn[becomes_random]
    return chosen.astype(np.uint16), replaced
