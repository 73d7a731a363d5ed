from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.data.batches import Batch, Layout, Masker, batches_of
from model.data.packed_dataset import PackedSequences, Rows
from model.data.packed_files import FileCache
from pipelines.core.masking import MaskingRule
from pipelines.core.store import Store
from tests.model.packed import MASK, RULE, SAMPLER, SEED, SPECIAL, Row, make_row, packing, write


def batch_of(rows: Rows, passes: np.ndarray, masker: Masker | None, length: int) -> Batch:
    [batch] = batches_of(rows, passes, masker, Layout(length, len(passes)))
    return batch


MASKER = Masker(RULE, SAMPLER, SEED)
LENGTHS = [64, 64, 63, 9, 8, 17, 32, 33, 64, 48, 3]


def reference(rows: list[Row], passes: list[int], length: int, rule: MaskingRule = RULE) -> dict:
    """A batch, row by row and token by token."""
    lines, predicted, starts, segments = [], [], [], []
    for row, pass_index in zip(rows, passes, strict=True):
        inputs = list(row.tokens)
        positions, replacements = row.mask(pass_index, rule)
        for position, replacement in zip(positions, replacements, strict=True):
            inputs[position] = replacement
        for begin in range(0, len(inputs), length):
            end = min(begin + length, len(inputs))
            number = len(lines)
            lines.append(inputs[begin:end])
            segments.append(row.segments[begin:end])
            predicted += [(number, p - begin, row.tokens[p]) for p in positions if begin <= p < end]
            here = {s - begin for s in row.starts if begin <= s < end} | ({0} if begin else set())
            starts += [(number, s) for s in sorted(here)]
    width = max(map(len, lines))
    return {
        "tokens": [line + [1] * (width - len(line)) for line in lines],
        "masked": [number * width + column for number, column, _ in predicted],
        "labels": [label for _, _, label in predicted],
        "real_tokens": sum(map(len, lines)),
        "sequence_ids": [row.id for row in rows],
        "document_starts": [number * width + column for number, column in starts],
        "segments": [line + [0] * (width - len(line)) for line in segments],
        "is_next": [row.is_next for row in rows],
    }


def check(batch: Batch, wanted: dict, pairs: bool) -> None:
    for name, value in wanted.items():
        found = getattr(batch, name)
        if name in ("segments", "is_next") and not pairs:
            assert found is None
        else:
            assert (found.tolist() if hasattr(found, "tolist") else found) == value, name


@pytest.fixture(scope="module", params=["stream", "pairs"])
def packed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PackedSequences, list[Row], bool]:
    folder, made = tmp_path_factory.mktemp("batches"), packing(mode=request.param)
    store = Store(str(folder / "store"))
    rows = [make_row(f"doc:{i}", length, i % 4) for i, length in enumerate(LENGTHS)]
    keys = [write(store, f"{i}.parquet", rows[i : i + 4], made, folder) for i in (0, 4, 8)]
    sequences = PackedSequences(FileCache(store, folder / "cache", made), {"en": keys})
    return sequences, rows, request.param == "pairs"


@settings(max_examples=120, deadline=None)
@given(data=st.data(), length=st.sampled_from([64, 32, 16, 8]), rate=st.sampled_from([0.15, 0.4]))
def test_a_batch_is_that_of_the_slow_way(
    packed: tuple[PackedSequences, list[Row], bool],
    data: st.DataObject,
    length: int,
    rate: float,
) -> None:
    sequences, rows, pairs = packed
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=9))
    passes = data.draw(st.lists(st.integers(0, 5), min_size=len(chosen), max_size=len(chosen)))
    masker = MASKER.at_rate(rate)
    # Some masks are stored and some are not, unless the rate is another one.
    views = np.array(passes) if rate == RULE.rate else np.full(len(passes), -1)
    taken = sequences.take(np.array(chosen), views)
    size = data.draw(st.integers(1, len(chosen)))
    batches = batches_of(taken, np.array(passes), masker, Layout(length, size))
    for number, batch in enumerate(batches):
        part = slice(number * size, number * size + size)
        wanted = [rows[i] for i in chosen[part]]
        check(batch, reference(wanted, passes[part], length, masker.rule), pairs)
    assert len(batches) == -(-len(chosen) // size)


def test_folding_keeps_tokens_and_masks(
    packed: tuple[PackedSequences, list[Row], bool],
) -> None:
    sequences, _, _ = packed
    numbers = np.arange(len(LENGTHS))
    passes = numbers % 3
    whole, folded = (
        batch_of(sequences.take(numbers, passes), passes, MASKER, length) for length in (64, 16)
    )
    for batch, rows, width in ((whole, len(LENGTHS), 64), (folded, 29, 16)):
        assert batch.tokens.shape == (rows, width)
        assert not (batch.tokens == 1).all(dim=1).any(), "no row is padding alone"
        flat = batch.tokens.flatten()
        assert int((flat != 1).sum()) == batch.real_tokens == sum(LENGTHS)
    assert folded.labels.tolist() == whole.labels.tolist()
    real = [batch.tokens.flatten()[batch.tokens.flatten() != 1] for batch in (whole, folded)]
    assert real[0].tolist() == real[1].tolist()
    at = [batch.tokens.flatten()[batch.masked].tolist() for batch in (whole, folded)]
    assert at[0] == at[1]


def test_only_the_right_tokens_change(packed: tuple[PackedSequences, list[Row], bool]) -> None:
    sequences, rows, _ = packed
    row, counts = 0, np.zeros(64)
    for pass_index in range(1000):
        views = np.array([pass_index])
        batch = batch_of(sequences.take(np.array([row]), views), views, MASKER, 64)
        counts[batch.masked.numpy()] += 1
        restored = batch.tokens.flatten().clone()
        restored[batch.masked] = batch.labels
        assert restored.tolist() == rows[row].tokens
    special = np.isin(rows[row].tokens, sorted(SPECIAL))
    assert counts[special].sum() == 0
    # round(0.15 * 61) = 9 of 61 ordinary tokens a pass: 147.5 each, five deviations are 56.
    assert counts.sum() == 9000 and (~special).sum() == 61
    assert abs(counts[~special] - 9000 / 61).max() < 56


def test_a_mask_that_is_not_stored_needs_a_rule(
    packed: tuple[PackedSequences, list[Row], bool],
) -> None:
    sequences, _, _ = packed
    rows, views = np.array([3, 2]), np.array([2, 2])
    with pytest.raises(ValueError, match="sequence doc:2: view 2 is not stored"):
        batch_of(sequences.take(rows, views), views, None, 64)


def test_words_are_masked_whole(packed: tuple[PackedSequences, list[Row], bool]) -> None:
    sequences, rows, _ = packed
    begins = np.arange(MASK + 1) % 3 == 0
    rule = MaskingRule(0.3, 1.0, 0.0, MASK, SPECIAL, "word")
    masker = Masker(rule, SAMPLER, SEED, begins)
    none = np.array([-1])
    batch = batch_of(sequences.take(np.array([0]), none), np.array([0]), masker, 64)
    chosen, tokens = set(batch.masked.tolist()), rows[0].tokens
    assert 1 <= len(chosen) <= round(0.3 * 61)
    for position in chosen:
        after = position + 1
        if tokens[after] not in SPECIAL and not begins[tokens[after]]:
            assert after in chosen, "the word goes on, and so does the mask"
