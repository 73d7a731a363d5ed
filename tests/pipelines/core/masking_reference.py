"""Masking said again in plain Python, one token after the other, to compare with."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pipelines.core.hashing import stable_uint64
from pipelines.core.masking import MaskingRule

BITS_32, BITS_64 = 2**32 - 1, 2**64 - 1


def mix64(number: int) -> int:
    number = (number + 0x9E3779B97F4A7C15) & BITS_64
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & BITS_64
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & BITS_64
    return number ^ (number >> 31)


def number_at(key: int, counter: int) -> int:
    """The random 32 bits of a counter under a key."""
    mixed = ((key & BITS_32) + counter * 0x9E3779B9) & BITS_32
    mixed ^= mixed >> 16
    mixed = (mixed * 0x21F0AAAD) & BITS_32
    mixed ^= mixed >> 15
    mixed = (mixed + (key >> 32)) & BITS_32
    mixed = (mixed * 0xD35A2D97) & BITS_32
    return mixed ^ (mixed >> 15)


def key_of(seed: int, pass_index: int, sequence_id: str) -> int:
    own = int.from_bytes(hashlib.blake2b(sequence_id.encode(), digest_size=8).digest(), "little")
    return mix64(own ^ stable_uint64(seed, "mask", pass_index))


def wanted(tokens: Sequence[int], rule: MaskingRule) -> int:
    ordinary = sum(token not in rule.special_ids for token in tokens)
    return max(1, round(rule.rate * ordinary)) if ordinary else 0


def words_of(
    tokens: Sequence[int], rule: MaskingRule, starts: Sequence[bool]
) -> list[tuple[int, int]]:
    """First position and length of each word."""
    words: list[tuple[int, int]] = []
    inside = False
    for position, token in enumerate(tokens):
        if token in rule.special_ids:
            inside = False
        elif starts[token] or not inside:
            words.append((position, 1))
            inside = True
        else:
            words[-1] = (words[-1][0], words[-1][1] + 1)
    return words


def chosen_tokens(tokens: Sequence[int], rule: MaskingRule, key: int) -> list[int]:
    ordinary = [i for i, token in enumerate(tokens) if token not in rule.special_ids]
    return sorted(sorted(ordinary, key=lambda i: number_at(key, i))[: wanted(tokens, rule)])


def chosen_words(
    tokens: Sequence[int], rule: MaskingRule, key: int, starts: Sequence[bool]
) -> list[int]:
    words = words_of(tokens, rule, starts)
    left = wanted(tokens, rule)
    chosen: list[int] = []
    for start, length in sorted(words, key=lambda word: number_at(key, word[0]) >> 1):
        if length <= left:
            left -= length
            chosen += range(start, start + length)
    return sorted(chosen) or shortest(words, key)


def shortest(words: list[tuple[int, int]], key: int) -> list[int]:
    if not words:
        return []
    start, length = min(words, key=lambda word: (word[1], number_at(key, word[0]) >> 1))
    return list(range(start, start + length))


def chosen_spans(
    tokens: Sequence[int],
    rule: MaskingRule,
    key: int,
    starts: Sequence[bool],
    limits: Sequence[int],
) -> dict[int, int]:
    """Chosen positions, each with the first position of its span."""
    words = words_of(tokens, rule, starts)
    left = wanted(tokens, rule)
    spans: dict[int, int] = {}
    for first in sorted(range(len(words)), key=lambda w: number_at(key, words[w][0]) >> 1):
        origin = words[first][0]
        drawn = number_at(mix64(key ^ 0x7370616E), origin)
        end = origin
        for start, length in words[first : first + 1 + sum(drawn >= limit for limit in limits)]:
            if start != end or start in spans or length > left:
                break
            spans.update(dict.fromkeys(range(start, start + length), origin))
            left -= length
            end = start + length
    return spans or dict.fromkeys(one := shortest(words, key), one[0] if one else 0)


def replaced(
    tokens: Sequence[int], rule: MaskingRule, key: int, origins: dict[int, int]
) -> list[int | None]:
    """The ids at the chosen positions; None where a random one stands."""
    ids: list[int | None] = []
    for position in sorted(origins):
        fate = (number_at(mix64(key ^ 1), 3 * origins[position]) >> 1) / 2**31
        if fate < rule.mask_probability:
            ids.append(rule.mask_id)
        elif fate < rule.mask_probability + rule.random_probability:
            ids.append(None)
        else:
            ids.append(tokens[position])
    return ids
