from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.packed_dataset import Masker, PackedSequences, cache_file, collate
from pipelines.core.masking import MaskingRule, UnigramSampler, choose_and_replace
from pipelines.core.shards import Attempt
from pipelines.core.store import Store
from pipelines.pack_sequences import PackedSequence, sequences_to_table

ROWS, MASK = 40, 39
SPECIAL = frozenset({0, 1, 2, 3, MASK})
RULE = MaskingRule(0.15, 0.8, 0.1, MASK, SPECIAL)
SAMPLER = UnigramSampler(np.ones(ROWS, dtype=np.int64), SPECIAL)


def sequence(number: int) -> PackedSequence:
    """A row with `</s>` in its middle, of a length of its own."""
    body = [4 + (number * 7 + i) % 35 for i in range(6 + number % 9)]
    tokens = np.array([0, *body[:3], 2, *body[3:], 2], dtype=np.uint32)
    return PackedSequence(f"doc{number}:0", tokens, [1, 5], ["a", "b"])


def write(store: Store, name: str, rows: int = ROWS) -> tuple[str, list[PackedSequence]]:
    made = [sequence(i) for i in range(5000 if name == "large" else 20)]
    masks = [
        [choose_and_replace(s.tokens, RULE, SAMPLER, 7, v, s.id) for v in (0, 1)] for s in made
    ]
    attempt = Attempt(store, "packed", "unit")
    attempt.write_table(name, sequences_to_table(made, "en", masks, rows))
    return attempt.outputs[0].path, made


def test_stored_and_computed_passes_come_from_one_function(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    key, made = write(store, "large")
    other, more = write(store, "small")
    files = [cache_file(store, k, tmp_path / "cache", ROWS) for k in (key, other)]
    packed = PackedSequences(files, Masker(RULE, SAMPLER, 7))
    assert len(packed) == 5020
    for row in (0, 2047, 2048, 4999, 5000, 5019):
        wanted = [*made, *more][row]
        for pass_index in (0, 1, 2, 5):
            found = packed.masked(row, pass_index)
            positions, ids = choose_and_replace(
                wanted.tokens, RULE, SAMPLER, 7, pass_index, wanted.id
            )
            inputs = wanted.tokens.copy()
            inputs[positions] = ids
            assert found.id == wanted.id
            assert found.inputs.tolist() == inputs.tolist()
            assert found.positions.tolist() == positions.tolist()
            assert found.labels.tolist() == wanted.tokens[positions].tolist()
    with pytest.raises(IndexError, match="row 5020 is outside"):
        packed.masked(5020)


def test_special_tokens_are_never_predicted_and_others_equally_often(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    key, made = write(store, "small")
    packed = PackedSequences(
        [cache_file(store, key, tmp_path / "cache", ROWS)], Masker(RULE, SAMPLER, 7)
    )
    chosen = np.zeros(len(made[0].tokens))
    for pass_index in range(1000):
        found = packed.masked(0, pass_index)
        chosen[found.positions] += 1
        special = np.isin(made[0].tokens, [0, 2])
        assert (found.inputs[special] == made[0].tokens[special]).all()
    # One of six ordinary tokens a pass: 1000/6 each, four standard deviations are 47.
    assert chosen[np.isin(made[0].tokens, [0, 2])].sum() == 0
    ordinary = chosen[~np.isin(made[0].tokens, [0, 2])]
    assert ordinary.sum() == 1000
    assert abs(ordinary - 1000 / 6).max() < 47


def test_batch_is_padded_to_its_longest_and_labels_stay_with_their_tokens(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    key, made = write(store, "small")
    packed = PackedSequences([cache_file(store, key, tmp_path / "cache", ROWS)])
    rows = [3, 8, 0]
    batch = collate([packed.masked(row) for row in rows])
    assert batch.tokens.shape == (3, len(made[8].tokens))
    assert batch.real_tokens == sum(len(made[row].tokens) for row in rows)
    padding = [len(made[8].tokens) - len(made[row].tokens) for row in rows]
    assert (batch.tokens == 1).sum(dim=1).tolist() == padding
    restored = batch.tokens.flatten().clone()
    restored[batch.masked] = batch.labels
    for row, line in zip(rows, restored.view_as(batch.tokens).tolist(), strict=True):
        assert line[: len(made[row].tokens)] == made[row].tokens.tolist()


def test_an_id_outside_the_vocabulary_is_refused_with_file_and_id(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    key, _ = write(store, "small")
    with pytest.raises(ValueError, match=r"packed/small.parquet.*id 38 is not below .* 38 rows"):
        cache_file(store, key, tmp_path / "cache", 38)
    assert not list((tmp_path / "cache").glob("*.arrow"))


def test_a_view_that_is_not_stored_needs_a_masker(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    key, _ = write(store, "small")
    packed = PackedSequences([cache_file(store, key, tmp_path / "cache", ROWS)])
    with pytest.raises(ValueError, match="view 2 is not among 2 stored"):
        packed.masked(0, 2)
