from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core import masking
from pipelines.core.hashing import counter_uint32
from pipelines.core.hashing import mix64 as mix64_of_arrays
from pipelines.core.masking import (
    MaskingRule,
    Masks,
    UniformSampler,
    UnigramSampler,
    choose_and_replace,
    mask_keys,
    mask_sequences,
)
from tests.pipelines.core.masking_reference import (
    chosen_tokens,
    key_of,
    number_at,
    replaced,
)

SPECIAL = frozenset({0, 1, 2, 3, 1001})
RULE = MaskingRule(0.15, 0.8, 0.1, mask_id=1001, special_ids=SPECIAL)
COUNTS = np.arange(1002, dtype=np.int64)
SAMPLER = UnigramSampler(COUNTS, SPECIAL)

sequences_of_ids = st.lists(st.lists(st.integers(0, 1001), max_size=60), max_size=12)
units = st.sampled_from(["token", "word", "span"])
WORD_STARTS = np.arange(1002) % 3 != 0


def mask(
    sequences: list[list[int]], names: list[str], rule: MaskingRule = RULE, pass_index: int = 0
) -> Masks:
    tokens = np.array([token for one in sequences for token in one], dtype=np.uint32)
    offsets = np.cumsum([0, *map(len, sequences)])
    keys = mask_keys(7, pass_index, names)
    return mask_sequences(tokens, offsets, keys, rule, SAMPLER, WORD_STARTS)


def of_one(masks: Masks, number: int) -> tuple[list[int], list[int]]:
    part = slice(masks.offsets[number], masks.offsets[number + 1])
    return masks.positions[part].tolist(), masks.tokens[part].tolist()


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_c29_padding_and_specials_are_never_chosen_and_the_others_equally_often(unit: str) -> None:
    rule = replace(RULE, rate=0.15, unit=unit)
    row = [0, 10, 11, 12, 2, 1, 1, 1]
    # Of three tokens one is chosen, 1/3 of 1000 draws each: at least one, where chance alone would
    # give 15 % of them. Of twenty, three are: the 150 (105 ... 195) of the case.
    long = [0, *range(10, 30), 2, 1, 1, 1]
    for tokens, share in ((row, 1 / 3), (long, 0.15)):
        names = [f"s{draw}" for draw in range(1000)]
        flat = np.tile(np.array(tokens, np.uint32), 1000)
        offsets = np.arange(1001) * len(tokens)
        every_word = np.ones(1002, dtype=np.bool_)
        masks = mask_sequences(flat, offsets, mask_keys(7, 0, names), rule, SAMPLER, every_word)
        chosen = np.bincount(masks.positions, minlength=len(tokens))
        ordinary = np.array([token not in SPECIAL for token in tokens])
        assert chosen[~ordinary].sum() == 0
        if unit == "span":  # the first words of a row are reached by fewer spans than others
            assert chosen[ordinary].min() > 0
            continue
        spread = 4 * (1000 * share * (1 - share)) ** 0.5
        assert abs(chosen[ordinary] - 1000 * share).max() < spread
        if share == 0.15:
            assert chosen[ordinary].min() >= 105 and chosen[ordinary].max() <= 195


def test_c29_masked_input_and_labels() -> None:
    row = np.array([0, 10, 11, 12, 2, 1, 1, 1], dtype=np.uint32)
    for pass_index in range(1000):
        positions, ids = choose_and_replace(row, RULE, SAMPLER, 7, pass_index, "s")
        inputs, labels = row.copy(), np.full(8, -100, dtype=np.int64)
        inputs[positions], labels[positions] = ids, row[positions]
        assert (inputs[[0, 4, 5, 6, 7]] == row[[0, 4, 5, 6, 7]]).all()
        assert (labels[[0, 4, 5, 6, 7]] == -100).all()
        assert np.count_nonzero(labels != -100) == 1


def test_separators_in_the_middle_stay() -> None:
    tokens = np.array([0, 10, 2, 2, 11, 2], dtype=np.uint32)
    chosen = {
        int(choose_and_replace(tokens, RULE, SAMPLER, 7, draw, "s")[0][0]) for draw in range(200)
    }
    assert chosen == {1, 4}


@given(st.lists(st.integers(0, 1001), max_size=200), st.integers(0, 9), st.floats(0.01, 1))
def test_exactly_the_share_is_chosen_and_at_least_one(
    ids: list[int], pass_index: int, rate: float
) -> None:
    tokens = np.array(ids, dtype=np.uint32)
    rule = replace(RULE, rate=rate)
    ordinary = sum(i not in SPECIAL for i in ids)

    positions, replaced = choose_and_replace(tokens, rule, SAMPLER, 7, pass_index, "s")

    assert len(positions) == len(replaced) == (max(1, round(rate * ordinary)) if ordinary else 0)
    assert (np.diff(positions.astype(int)) > 0).all()
    assert not set(tokens[positions].tolist()) & SPECIAL
    assert not set(replaced.tolist()) & {0, 1, 2, 3}


@given(sequences_of_ids, st.floats(0.01, 1), st.integers(-5, 5), st.integers(0, 3))
def test_tokens_are_those_of_the_plain_form(
    sequences: list[list[int]], rate: float, seed: int, pass_index: int
) -> None:
    rule = replace(RULE, rate=rate, mask_probability=0.4, random_probability=0.3)
    names = [f"é{i}:0" for i in range(len(sequences))]
    flat = np.array([token for one in sequences for token in one], dtype=np.uint32)
    offsets = np.cumsum([0, *map(len, sequences)])
    masks = mask_sequences(flat, offsets, mask_keys(seed, pass_index, names), rule, SAMPLER)
    for number, (name, tokens) in enumerate(zip(names, sequences, strict=True)):
        key = key_of(seed, pass_index, name)
        positions, ids = of_one(masks, number)
        assert positions == chosen_tokens(tokens, rule, key)
        for found, right in zip(
            ids, replaced(tokens, rule, key, {p: p for p in positions}), strict=True
        ):
            assert found == right or (right is None and 4 <= found <= 1000)


@settings(deadline=None)
@given(sequences_of_ids, units, st.integers(1, 300), st.randoms(use_true_random=False))
def test_grouping_order_and_blocks_change_nothing(
    sequences: list[list[int]], unit: str, cells: int, random: object
) -> None:
    rule = replace(RULE, rate=0.3, unit=unit)
    names = [f"doc{i}" for i in range(len(sequences))]
    together = mask(sequences, names, rule)
    order = list(range(len(sequences)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = mask([sequences[i] for i in order], [names[i] for i in order], rule)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masking, "BLOCK_CELLS", cells)
        small = mask(sequences, names, rule)
    for place, number in enumerate(order):
        alone = choose_and_replace(
            np.array(sequences[number], dtype=np.uint32),
            rule,
            SAMPLER,
            7,
            0,
            names[number],
            WORD_STARTS,
        )
        wanted = alone[0].tolist(), alone[1].tolist()
        assert of_one(together, number) == wanted
        assert of_one(shuffled, place) == wanted
        assert of_one(small, number) == wanted


@given(sequences_of_ids, st.floats(0.01, 0.9), st.floats(0.01, 0.9))
def test_a_higher_rate_adds_positions_and_changes_none(
    sequences: list[list[int]], one: float, other: float
) -> None:
    names = [f"doc{i}" for i in range(len(sequences))]
    low, high = (mask(sequences, names, replace(RULE, rate=r)) for r in sorted((one, other)))
    for number in range(len(sequences)):
        few, many = (dict(zip(*of_one(m, number), strict=True)) for m in (low, high))
        assert few.items() <= many.items()


def test_a_mask_depends_on_seed_pass_and_sequence_alone() -> None:
    tokens = np.arange(4, 204, dtype=np.uint32)

    def positions(seed: int, pass_index: int, name: str) -> list[int]:
        return choose_and_replace(tokens, RULE, SAMPLER, seed, pass_index, name)[0].tolist()

    cases = [(1, 0, "a"), (2, 0, "a"), (1, 1, "a"), (1, 0, "b")]
    assert positions(*cases[0]) == positions(*cases[0])
    assert len({tuple(positions(*case)) for case in cases}) == 4
    assert mask_keys(1, [0, 1, 0], ["a", "a", "b"]).tolist() == [
        key_of(1, 0, "a"),
        key_of(1, 1, "a"),
        key_of(1, 0, "b"),
    ]


def test_numbers_are_those_of_the_published_generator_and_never_tie() -> None:
    # The first three outputs of SplitMix64 with the seed 0.
    states = (np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    assert [hex(n) for n in mix64_of_arrays(states).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]
    key = key_of(1, 0, "a")
    numbers = counter_uint32(np.array([key], dtype=np.uint64), np.arange(2**16, dtype=np.uint32))
    assert len(np.unique(numbers)) == 2**16
    assert numbers[[0, 1, 511, 65535]].tolist() == [number_at(key, i) for i in (0, 1, 511, 65535)]


@pytest.mark.parametrize(
    ("unit", "positions", "ids"),
    [
        (
            "token",
            [4, 7, 10, 14, 20, 22, 38, 40],
            [1001, 299, 863, 1001, 1001, 25, 906, 211],
        ),
        (
            "word",
            [7, 10, 14, 15, 22, 38, 39, 40],
            [299, 863, 1001, 1001, 25, 906, 1001, 211],
        ),
        (
            "span",
            [14, 15, 16, 22, 23, 24, 38, 39],
            [1001, 1001, 1001, 25, 26, 27, 906, 741],
        ),
    ],
)
def test_masks_do_not_change_from_release_to_release(
    unit: str, positions: list[int], ids: list[int]
) -> None:
    """Packed files keep views, later passes are computed: both must stay one function."""
    tokens = np.array([0, *range(4, 44), 2], dtype=np.uint32)
    rule = replace(RULE, rate=0.2, mask_probability=0.4, random_probability=0.4, unit=unit)
    found = choose_and_replace(tokens, rule, SAMPLER, 7, 0, "doc:0", WORD_STARTS)
    assert (found[0].tolist(), found[1].tolist()) == (positions, ids)


def test_long_rows_specials_alone_and_nothing_at_all() -> None:
    longest = np.full(65_535, 5, dtype=np.uint32)
    positions, _ = choose_and_replace(longest, RULE, SAMPLER, 7, 0, "s")
    assert len(positions) == round(0.15 * 65_535) and positions.dtype == np.uint16
    assert positions[-1] > 65_000
    masks = mask([[0, 2], [], [5], [1, 1, 1]], ["a", "b", "c", "d"])
    assert masks.offsets.tolist() == [0, 0, 0, 1, 1] and masks.positions.tolist() == [0]
    nothing = mask([], [])
    assert nothing.offsets.tolist() == [0] and not len(nothing.positions)
    everything = mask([[0, 5, 6, 2]], ["a"], replace(RULE, rate=1.0))
    assert everything.positions.tolist() == [1, 2]


def test_wide_rows_are_chosen_as_narrow_ones_are() -> None:
    """Ranks in wide rows are found in another way; the rows' counts differ."""
    random = np.random.default_rng(2)
    rows = [random.choice([2, 5, 6, 7], size=width).tolist() for width in (513, 900, 900, 6000)]
    names = ["a", "b", "c", "d"]
    masks = mask(rows, names)
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        assert of_one(masks, number)[0] == chosen_tokens(row, RULE, key_of(7, 0, name))
    assert len(set(np.diff(masks.offsets).tolist())) > 1


def test_probabilities_of_one_and_zero_are_kept_to() -> None:
    tokens = np.arange(4, 1000, dtype=np.uint32)
    all_masked = replace(RULE, rate=0.9, mask_probability=1.0, random_probability=0.0)
    assert set(choose_and_replace(tokens, all_masked, SAMPLER, 7, 0, "s")[1].tolist()) == {1001}
    untouched = replace(RULE, rate=0.9, mask_probability=0.0, random_probability=0.0)
    positions, ids = choose_and_replace(tokens, untouched, SAMPLER, 7, 0, "s")
    assert ids.tolist() == tokens[positions].tolist()
    only_500 = UnigramSampler(np.bincount([500], minlength=1002), SPECIAL)
    all_random = replace(RULE, rate=0.9, mask_probability=0.0, random_probability=1.0)
    assert set(choose_and_replace(tokens, all_random, only_500, 7, 0, "s")[1].tolist()) == {500}


def test_special_ids_anywhere_and_the_mask_itself_are_left_alone() -> None:
    special = frozenset({0, 7, 9, 10, 11, 50})
    rule = replace(RULE, rate=1.0, special_ids=special, mask_id=60)
    tokens = np.arange(70, dtype=np.uint32)
    positions, _ = choose_and_replace(tokens, rule, UniformSampler(70, special), 7, 0, "s")
    assert set(range(70)) - set(positions.tolist()) == {*special, 60}


def test_what_does_not_fit_together_is_refused() -> None:
    tokens, two = np.array([5, 6, 7], dtype=np.uint32), np.array([0, 1, 3])
    keys = mask_keys(7, 0, ["a", "b"])
    with pytest.raises(ValueError, match="2 keys need 3 offsets, not 2"):
        mask_sequences(tokens, two[:2], keys, RULE, SAMPLER)
    for offsets in ([0, 1, 2], [1, 1, 3], [0, 4, 3]):
        with pytest.raises(ValueError, match="rise from 0 to the number of tokens, 3"):
            mask_sequences(tokens, np.array(offsets), keys, RULE, SAMPLER)
    with pytest.raises(ValueError, match="tokens are uint16; need uint32"):
        mask_sequences(tokens.astype(np.uint16), two, keys, RULE, SAMPLER)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sequence 0 has 65536 tokens; at most 65535"):
        choose_and_replace(np.full(65_536, 5, dtype=np.uint32), RULE, SAMPLER, 7, 0, "s")
    with pytest.raises(ValueError, match="unit = word needs to know which pieces begin a word"):
        choose_and_replace(tokens, replace(RULE, unit="word"), SAMPLER, 7, 0, "s")
    with pytest.raises(ValueError, match="2 sequences need as many passes, not 3"):
        mask_keys(7, [0, 1, 2], ["a", "b"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 0.0}, "rate is 0.0"),
        ({"rate": 1.5}, "rate is 1.5"),
        ({"mask_probability": 0.95}, "sum is at most 1"),
        ({"random_probability": -0.1}, "sum is at most 1"),
        ({"unit": "piece"}, "unit is 'piece'; need one of token, word, span"),
        ({"mean_span_words": 6.0}, "mean_span_words is 6.0; need 1 ... 5.5"),
    ],
)
def test_rules_without_meaning_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(RULE, **changes)  # type: ignore[arg-type]
