"""Choose positions and replace tokens for masked language modelling.

A mask is a pure function of (seed, pass, sequence id): packing, sharding, the number of workers and
restarts cannot change it. Source: Devlin et al. 2019 (BERT), section 3.1 (15 %, 80/10/10); random
replacement from the unigram distribution of the training text, or from all ordinary ids alike.

Each (sequence, position) has random numbers of its own, which neither the rate nor the other
sequences change. So, with the unit token, what is chosen at a rate of 0.15 is also chosen at 0.3,
with the same replacement. A random token may happen to be the one that stood there, as in BERT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.core.choose import Block, Choice, Integers, choose
from pipelines.core.hashing import counter_uint32, mix64, stable_uint64, stable_uint64s
from pipelines.core.mask_rules import (
    LONGEST_SEQUENCE,
    Flags,
    Ids,
    Keys,
    MaskingRule,
    MaskingUnit,
    Masks,
    Offsets,
    Positions,
)
from pipelines.core.samplers import Sampler, UniformSampler, UnigramSampler

__all__ = [
    "Ids",
    "Keys",
    "MaskingRule",
    "MaskingUnit",
    "Masks",
    "Offsets",
    "Positions",
    "Sampler",
    "UniformSampler",
    "UnigramSampler",
    "choose_and_replace",
    "mask_keys",
    "mask_sequences",
    "rule_and_sampler",
]

BLOCK_CELLS = 2**17
"""Tokens that are worked on at once: their numbers stay in a core's cache."""
_REPLACE_STREAM = np.uint64(1)
_SAMPLER_NUMBERS = np.array([[1], [2]], dtype=np.uint32)


def rule_and_sampler(
    masking: Mapping[str, Any],
    rows: int,
    special_ids: frozenset[int],
    unigram: npt.NDArray[np.int64],
) -> tuple[MaskingRule, Sampler]:
    """How a run masks; packing stores by it what training may compute again.

    Args:
        masking: the settings of [masking].
        rows: of the vocabulary; <mask> is the last.
        unigram: occurrences by id, shape (rows,).
    """
    rule = MaskingRule(
        masking["rate"],
        masking["mask_probability"],
        masking["random_probability"],
        rows - 1,
        special_ids,
        masking["unit"],
        masking["mean_span_words"],
    )
    if masking["random_from"] == "uniform":
        return rule, UniformSampler(rows, special_ids)
    return rule, UnigramSampler(unigram, special_ids)


def mask_keys(
    seed: int, passes: int | Sequence[int] | Integers, sequence_ids: Sequence[str]
) -> Keys:
    """The keys from which masks are drawn, one a sequence, shape (sequences,).

    Args:
        passes: how often each sequence was used before, one number for all or one for each.

    Raises:
        ValueError: there are not as many passes as sequences.
    """
    own = stable_uint64s(sequence_ids)
    if isinstance(passes, int | np.integer):
        return mix64(own ^ np.uint64(stable_uint64(seed, "mask", int(passes))))
    if len(passes) != len(own):
        raise ValueError(f"{len(own)} sequences need as many passes, not {len(passes)}")
    distinct, which = np.unique(np.asarray(passes, dtype=np.int64), return_inverse=True)
    salts = np.array([stable_uint64(seed, "mask", int(n)) for n in distinct], dtype=np.uint64)
    return mix64(own ^ salts[which])


def mask_sequences(
    tokens: Ids,
    offsets: Offsets,
    keys: Keys,
    rule: MaskingRule,
    sampler: Sampler,
    word_starts: Flags | None = None,
) -> Masks:
    """Mask several sequences of any lengths; how they are grouped into calls changes nothing.

    Of n ordinary tokens exactly k = max(1, round(rate x n)) are chosen when the unit is token; as
    many as whole words allow, and no more than k, when it is word or span (see `choose_words`,
    `choose_spans`). Special ids are never chosen and never inserted. A sequence of special ids
    alone has no masks.

    Args:
        tokens: ids of all sequences, one behind the other, shape (total,).
        offsets: sequence i is tokens[offsets[i] : offsets[i + 1]], shape (sequences + 1,).
        keys: from `mask_keys`, shape (sequences,).
        word_starts: whether a piece begins a word, shape (vocabulary rows,); for word and span.

    Raises:
        ValueError: offsets, keys or tokens do not fit together, a sequence is longer than 65,535
            tokens, or the rule's unit needs `word_starts`.
    """
    lengths = offsets[1:] - offsets[:-1]
    _check(tokens, offsets, lengths, keys)
    counts = np.zeros(len(keys), dtype=np.int64)
    parts: list[tuple[Integers, Positions, Ids]] = []
    for members, block in _blocks(tokens, offsets, lengths, keys, rule):
        choice = choose(block, rule, word_starts)
        counts[members] = choice.counts
        replaced = _replace(block, choice, rule, sampler)
        parts.append((members, choice.positions.astype(np.uint16), replaced))
    ends = np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum(counts, out=ends[1:])
    if not parts:
        return Masks(np.empty(0, np.uint16), np.empty(0, np.uint32), ends)
    positions = np.concatenate([part[1] for part in parts])
    replaced = np.concatenate([part[2] for part in parts])
    if bool((lengths[1:] < lengths[:-1]).any()):
        # The blocks came by length; bring their results back into the order of the sequences.
        members = np.concatenate([part[0] for part in parts])
        found = np.zeros_like(counts)
        found[members] = np.cumsum(counts[members]) - counts[members]
        source = np.arange(len(positions)) + np.repeat(found - ends[:-1], counts)
        positions, replaced = positions[source], replaced[source]
    return Masks(positions, replaced, ends)


def choose_and_replace(
    tokens: Ids,
    rule: MaskingRule,
    sampler: Sampler,
    seed: int,
    pass_index: int,
    sequence_id: str,
    word_starts: Flags | None = None,
) -> tuple[Positions, Ids]:
    """Mask one sequence; the same as `mask_sequences` gives it among others.

    Args:
        tokens: ids, shape (tokens,).
        pass_index: how often this sequence was used before; another pass gives fresh masks.

    Returns:
        positions, rising, and the ids to put there, both of shape (chosen,). Both are empty for a
        sequence of special ids alone.
    """
    keys = mask_keys(seed, pass_index, [sequence_id])
    offsets = np.array([0, len(tokens)], dtype=np.int64)
    masks = mask_sequences(tokens, offsets, keys, rule, sampler, word_starts)
    return masks.positions, masks.tokens


def _check(tokens: Ids, offsets: Offsets, lengths: Integers, keys: Keys) -> None:
    if len(offsets) != len(keys) + 1:
        raise ValueError(f"{len(keys)} keys need {len(keys) + 1} offsets, not {len(offsets)}")
    if offsets[0] != 0 or offsets[-1] != len(tokens) or bool((lengths < 0).any()):
        raise ValueError(f"offsets must rise from 0 to the number of tokens, {len(tokens)}")
    if tokens.dtype != np.uint32:
        raise ValueError(f"tokens are {tokens.dtype}; need uint32")
    if len(lengths) and int(lengths.max()) > LONGEST_SEQUENCE:
        raise ValueError(
            f"sequence {int(lengths.argmax())} has {int(lengths.max())} tokens; "
            f"at most {LONGEST_SEQUENCE} can be masked"
        )


def _blocks(
    tokens: Ids, offsets: Offsets, lengths: Integers, keys: Keys, rule: MaskingRule
) -> Iterator[tuple[Integers, Block]]:
    """Put sequences of about one length side by side, with their numbers in the call."""
    order = np.argsort(lengths, kind="stable")
    rising = lengths[order]
    first = int(np.count_nonzero(rising == 0))
    while first < len(order):
        nearby = rising[first : first + BLOCK_CELLS // rising[first]]
        cells = nearby * np.arange(1, len(nearby) + 1)
        last = first + max(1, int(np.searchsorted(cells, BLOCK_CELLS, side="right")))
        members, width = order[first:last], int(rising[last - 1])
        if rising[first] == width and bool((np.diff(members) == 1).all()):
            begin = int(offsets[members[0]])
            side_by_side = tokens[begin : begin + width * len(members)].reshape(-1, width)
            special = _special(side_by_side, rule)
        else:
            columns = np.arange(width)
            places = offsets[members][:, None] + columns
            side_by_side = tokens[np.minimum(places, len(tokens) - 1)]
            special = _special(side_by_side, rule)
            special |= columns >= rising[first:last, None]
        first = last
        ordinary = width - np.count_nonzero(special, axis=1)
        wanted = np.maximum(np.rint(rule.rate * ordinary), 1).astype(np.int64)
        yield members, Block(side_by_side, special, keys[members], wanted * (ordinary > 0))


def _special(tokens: Ids, rule: MaskingRule) -> Flags:
    """Whether each token is special; ids in a row, as they mostly are, are compared at once."""
    special = np.zeros(tokens.shape, dtype=np.bool_)
    for low, high in _runs({*rule.special_ids, rule.mask_id}):
        if low == 0:
            special |= tokens <= np.uint32(high)
        elif low == high:
            special |= tokens == np.uint32(low)
        else:
            special |= (tokens >= np.uint32(low)) & (tokens <= np.uint32(high))
    return special


def _runs(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Runs of consecutive numbers, first and last of each."""
    numbers = sorted(ids)
    begin = 0
    for i, number in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != number + 1:
            yield numbers[begin], number
            begin = i + 1


def _replace(block: Block, choice: Choice, rule: MaskingRule, sampler: Sampler) -> Ids:
    """The ids to put at the chosen positions, shape (chosen,)."""
    tokens = block.tokens.reshape(-1)[choice.places]
    keys = np.repeat(mix64(block.keys ^ _REPLACE_STREAM), choice.counts)
    # Each position has three numbers: of its fate, and two for the sampler.
    fates = counter_uint32(keys, 3 * choice.origins.astype(np.uint32))
    fates >>= np.uint32(1)  # 31 bits, so that a probability of 1 has a limit too
    mask_limit = round(rule.mask_probability * 2**31)
    random_limit = round(min(rule.mask_probability + rule.random_probability, 1) * 2**31)
    random = np.flatnonzero((fates >= mask_limit) & (fates < random_limit))
    replaced = np.where(fates < mask_limit, np.uint32(rule.mask_id), tokens)
    counters = 3 * choice.positions[random].astype(np.uint32) + _SAMPLER_NUMBERS
    replaced[random] = sampler.pick(*counter_uint32(keys[random], counters))
    return replaced
