"""Rows of word embeddings under another vocabulary, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from model.start.grown_vocabulary import carried, plan_rows
from pipelines.core.foreign import foreign_vocabulary
from pipelines.core.vocabulary import Vocabulary
from tests.pipelines.core.foreign_folders import BERT_PIECES, bert_folder, files_of
from tests.pipelines.train_vocabulary.known_models import model_of

OLD = Vocabulary(model_of(["▁", "a", "b", "▁ab", "c"]))  # ids 4 ... 8, <mask> 9


def table(rows: int, width: int = 3) -> torch.Tensor:
    """Row r is (r, 10 r, 100 r)."""
    scales = 10.0 ** torch.arange(width)
    return torch.arange(rows, dtype=torch.float32)[:, None] * scales


def test_the_same_vocabulary_is_the_same_table() -> None:
    plan = plan_rows(OLD, OLD, np.arange(OLD.rows))
    weights = table(OLD.rows)
    assert carried(weights, plan, seed=1) is weights
    assert plan.notes(OLD, OLD.rows) == []


def test_equal_pieces_are_copied_and_new_ones_are_means_of_what_spells_them() -> None:
    new = Vocabulary(model_of(["c", "▁", "abc", "▁abc", "é", "a", "b"]))
    plan = plan_rows(new, OLD, np.arange(OLD.rows))
    found = carried(table(OLD.rows), plan, seed=1)[:, 0].tolist()

    # c ▁ | abc = a b c = 5 6 8 | ▁abc = ▁ab c = 7 8 | é is drawn | a b
    assert found[:8] == pytest.approx([0, 1, 2, 3, 8, 4, (5 + 6 + 8) / 3, (7 + 8) / 2])
    assert found[9:] == [5, 6, 9]
    assert carried(table(OLD.rows), plan, 1)[7].tolist() == [7.5, 75.0, 750.0]
    bias = carried(table(OLD.rows)[:, 0], plan, seed=1).tolist()
    assert bias[7] == 7.5
    assert bias[8] == pytest.approx(np.mean([4, 5, 6, 7, 8]))  # nothing spells é: the mean of all
    [note] = plan.notes(new, OLD.rows)
    assert "9 of 12 rows are copied (5 had another id), 2 are the mean of the old" in note
    assert "1 are drawn, as the old vocabulary cannot spell them ('é'); 1 old rows are left" in note


def test_rows_that_nothing_spells_are_drawn_like_the_old_ones_and_always_the_same() -> None:
    letters = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]
    new = Vocabulary(model_of(["▁", "a", *letters]))
    plan = plan_rows(new, OLD, np.arange(OLD.rows))
    torch.manual_seed(1)
    weights = torch.randn(OLD.rows, 4) * torch.tensor([1.0, 2.0, 3.0, 4.0]) + 5
    found = carried(weights, plan, seed=7)

    drawn, ordinary = found[plan.drawn], weights[4:9]
    assert len(plan.drawn) == 3000 and len(torch.unique(drawn, dim=0)) == 3000
    torch.testing.assert_close(drawn.mean(dim=0), ordinary.mean(dim=0), atol=0.4, rtol=0)
    torch.testing.assert_close(drawn.std(dim=0), ordinary.std(dim=0), atol=0.4, rtol=0)
    assert torch.equal(found, carried(weights, plan, seed=7))
    assert not torch.equal(found, carried(weights, plan, seed=8))


def test_rows_of_bert_move_with_their_ids(tmp_path: Path) -> None:
    found = foreign_vocabulary(files_of(bert_folder(tmp_path, ["a", "##b", "ab"])))
    plan = plan_rows(found.vocabulary, found.vocabulary, found.rows)
    rows = carried(table(len(BERT_PIECES) + 3), plan, seed=1)[:, 0].tolist()
    # [CLS] [PAD] [SEP] [UNK] | [unused0] a ##b ab | [MASK]
    assert rows == [3, 0, 4, 2, 1, 6, 7, 8, 5]


def test_spare_rows_are_left_behind() -> None:
    plan = plan_rows(OLD, OLD, np.arange(OLD.rows))
    assert len(carried(table(OLD.rows + 6), plan, seed=1)) == OLD.rows
    [note] = plan.notes(OLD, OLD.rows + 6)
    assert note.endswith("10 of 10 rows are copied; 6 old rows are left behind")


def test_two_kinds_of_vocabulary_have_no_rows_in_common(tmp_path: Path) -> None:
    other = foreign_vocabulary(files_of(bert_folder(tmp_path, ["a"]))).vocabulary
    with pytest.raises(ValueError, match=r"one vocabulary is unigram, the other wordpiece"):
        plan_rows(other, OLD, np.arange(OLD.rows))
