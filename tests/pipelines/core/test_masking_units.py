from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.choose import span_length_limits
from pipelines.core.masking import (
    MaskingRule,
    UniformSampler,
    choose_and_replace,
    mask_keys,
    mask_sequences,
)
from tests.pipelines.core.masking_reference import (
    chosen_spans,
    chosen_words,
    key_of,
    replaced,
    wanted,
    words_of,
)

ROWS, MASK = 60, 59
SPECIAL = frozenset({0, 1, 2, 3, MASK})
WORD = MaskingRule(0.3, 0.4, 0.3, MASK, SPECIAL, unit="word")
SPAN = replace(WORD, unit="span", mean_span_words=2.5)
SAMPLER = UniformSampler(ROWS, SPECIAL)

rows_of_ids = st.lists(st.integers(0, MASK), max_size=120)
starts_of_pieces = st.lists(st.booleans(), min_size=ROWS, max_size=ROWS)
rates = st.floats(0.01, 1)


def mask_one(
    tokens: list[int], rule: MaskingRule, starts: list[bool], name: str = "s"
) -> tuple[list[int], list[int]]:
    found = choose_and_replace(
        np.array(tokens, dtype=np.uint32), rule, SAMPLER, 7, 0, name, np.array(starts)
    )
    return found[0].tolist(), found[1].tolist()


def assert_ids(found: list[int], right: list[int | None]) -> None:
    """None stands for any random id, which is an ordinary one."""
    for one, other in zip(found, right, strict=True):
        assert one == other or (other is None and 4 <= one < MASK)


@given(rows_of_ids, starts_of_pieces, rates, st.integers(0, 99))
def test_words_are_those_of_the_plain_form(
    tokens: list[int], starts: list[bool], rate: float, name: int
) -> None:
    rule = replace(WORD, rate=rate)
    key = key_of(7, 0, str(name))
    positions, ids = mask_one(tokens, rule, starts, str(name))
    assert positions == chosen_words(tokens, rule, key, starts)
    right = replaced(tokens, rule, key, {p: p for p in positions})
    assert_ids(ids, right)


@given(rows_of_ids, starts_of_pieces, rates, st.integers(0, 99), st.floats(1, 5.5))
def test_spans_are_those_of_the_plain_form(
    tokens: list[int], starts: list[bool], rate: float, name: int, mean: float
) -> None:
    rule = replace(SPAN, rate=rate, mean_span_words=mean)
    key = key_of(7, 0, str(name))
    limits = [int(limit) for limit in span_length_limits(mean)]
    positions, ids = mask_one(tokens, rule, starts, str(name))
    spans = chosen_spans(tokens, rule, key, starts, limits)
    assert positions == sorted(spans)
    right = replaced(tokens, rule, key, spans)
    assert_ids(ids, right)


@given(rows_of_ids, starts_of_pieces, rates, st.sampled_from([WORD, SPAN]))
def test_words_stay_whole_and_their_tokens_are_as_many_as_fit(
    tokens: list[int], starts: list[bool], rate: float, rule: MaskingRule
) -> None:
    rule = replace(rule, rate=rate)
    chosen = set(mask_one(tokens, rule, starts)[0])
    words = [set(range(start, start + length)) for start, length in words_of(tokens, rule, starts)]
    assert all(word <= chosen or not word & chosen for word in words)
    assert chosen <= {position for word in words for position in word}
    most = wanted(tokens, rule)
    if len(chosen) > most:  # only a single word, the shortest of all
        assert chosen in words and len(chosen) == min(map(len, words))
    else:
        left = [len(word) for word in words if not word & chosen]
        assert all(len(chosen) + length > most for length in left)
    assert bool(chosen) == bool(words)


@given(rows_of_ids, rates, st.integers(0, 99))
def test_words_of_one_token_are_chosen_as_tokens_are(
    tokens: list[int], rate: float, name: int
) -> None:
    as_tokens = mask_one(tokens, replace(WORD, unit="token", rate=rate), [], str(name))
    single = replace(SPAN, rate=rate, mean_span_words=1.0)
    for rule in (replace(WORD, rate=rate), single):
        assert mask_one(tokens, rule, [True] * ROWS, str(name)) == as_tokens


def test_a_word_cut_off_at_the_beginning_is_one_and_specials_end_words() -> None:
    starts = [i % 10 == 0 for i in range(ROWS)]  # 10, 20, … begin a word
    # <s> in-side word | word of three </s> </s> | continued | word </s>
    tokens = [0, 11, 12, 20, 21, 22, 2, 2, 31, 40, 2]
    words = [{1, 2}, {3, 4, 5}, {8}, {9}]
    seen = set()
    for name in range(200):
        chosen = set(mask_one(tokens, replace(WORD, rate=0.29), starts, str(name))[0])
        seen.add(frozenset(chosen))
        assert len(chosen) == 2  # round(0.29 x 7)
    assert seen == {frozenset(words[0]), frozenset(words[2] | words[3])}


def test_without_a_word_that_fits_the_shortest_is_taken() -> None:
    starts = [i % 10 == 0 for i in range(ROWS)]
    tokens = [0, 10, 11, 12, 13, 20, 21, 22, 30, 31, 32, 2]
    for rule in (replace(WORD, rate=0.15), replace(SPAN, rate=0.15)):
        seen = set()
        for name in range(100):
            positions, ids = mask_one(tokens, rule, starts, str(name))
            seen.add(tuple(positions))
            origins = {p: positions[0] if rule.unit == "span" else p for p in positions}
            assert_ids(ids, replaced(tokens, rule, key_of(7, 0, str(name)), origins))
        assert seen == {(5, 6, 7), (8, 9, 10)}


def test_spans_share_a_fate_and_stop_at_documents() -> None:
    starts = [True] * ROWS
    body = [4 + i % 50 for i in range(400)]
    tokens = [0, *body[:200], 2, *body[200:], 2]
    rule = replace(SPAN, rate=0.15, mask_probability=0.5, random_probability=0.0)
    longest = 0
    for name in range(50):
        positions, ids = mask_one(tokens, rule, starts, str(name))
        assert len(positions) == 60 and 201 not in positions
        key = key_of(7, 0, str(name))
        spans = chosen_spans(
            tokens, rule, key, starts, [int(n) for n in span_length_limits(rule.mean_span_words)]
        )
        fates: dict[int, set[bool]] = {}
        for position, new in zip(positions, ids, strict=True):
            fates.setdefault(spans[position], set()).add(new == MASK)
        assert all(len(fate) == 1 for fate in fates.values())
        longest = max(longest, *(list(spans.values()).count(o) for o in fates))
    assert 5 < longest <= 10


def test_span_lengths_are_spanbert_s() -> None:
    """Joshi et al. 2020: geometric with p = 0.2, at most 10 words, 3.8 on average."""
    weights = np.array([0.2 * 0.8**n for n in range(10)])
    weights /= weights.sum()
    assert (weights * np.arange(1, 11)).sum() == pytest.approx(3.8, abs=0.005)
    limits = span_length_limits(3.8).astype(np.float64) / 2**32
    assert limits == pytest.approx(np.cumsum(weights)[:-1], abs=2e-3)
    for mean in (1.0, 1.5, 3.8, 5.5):
        shares = np.diff([0, *span_length_limits(mean).astype(np.float64) / 2**32, 1])
        assert (shares * np.arange(1, 11)).sum() == pytest.approx(mean, abs=1e-6)
        assert (shares[:-1] >= shares[1:] - 1e-9).all()


@pytest.mark.parametrize(("rate", "nearest"), [(0.15, 0.002), (0.3, 0.002)])
def test_long_rows_reach_the_rate_with_every_unit(rate: float, nearest: float) -> None:
    """Words of 1 to 5 tokens: some short word always fits into what is left."""
    random = np.random.default_rng(1)
    lengths = random.integers(1, 6, 200_000)
    heads = np.zeros(int(lengths.sum()), dtype=np.bool_)
    heads[np.cumsum(lengths) - lengths] = True
    tokens = np.where(heads, 4, 5).astype(np.uint32)[: 512 * 1000]
    starts = np.arange(ROWS) == 4
    offsets = np.arange(1001) * 512
    for rule in (WORD, SPAN):
        masks = mask_sequences(
            tokens,
            offsets,
            mask_keys(7, 0, [str(i) for i in range(1000)]),
            replace(rule, rate=rate),
            SAMPLER,
            starts,
        )
        counts = np.diff(masks.offsets)
        assert counts.max() == round(rate * 512)
        assert rate - counts.mean() / 512 < nearest
