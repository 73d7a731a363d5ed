"""Damaged files of the vocabulary stage: found when read, named, and written anew once deleted."""

from __future__ import annotations

import pytest

from pipelines.core.manifest import StageRecord, read_stage
from pipelines.core.shards import StageFailed
from pipelines.core.stages import StageRun
from pipelines.core.store import DamagedObject, Store
from pipelines.train_vocabulary import train_vocabulary
from tests.damage import flip

from .corpus import RUN, balance, config, run, texts_of, write

TEXTS = {"en": texts_of("en", 40), "ru": texts_of("ru", 20)}


def contents(store: Store, record: StageRecord) -> dict[str, bytes]:
    return {output.path: store.read_bytes(output.path) for output in record.outputs}


def test_a_damaged_balance_table(store: Store) -> None:
    settings = config()
    table, unique = balance(store, settings, TEXTS), write(store, TEXTS)
    # A digit becomes another digit: still JSON, and another mix of languages.
    whole = store.read_bytes(table.path)
    flip(store, table.path, whole.index(b'"q": 0.') + 8)
    stage = StageRun(store, RUN, inline=True, quiet=True)
    with pytest.raises(DamagedObject, match=f"{table.path} is damaged"):
        train_vocabulary(stage, settings, table, unique)


def test_a_damaged_plan_of_words(store: Store) -> None:
    record = run(store, config(), TEXTS)
    [plan] = read_stage(store, RUN, "vocabulary-plan").outputs
    wanted, whole = contents(store, record), store.read_bytes(plan.path)
    # The last digit of a number of rows.
    flip(store, plan.path, whole.rindex(b'"rows": ') + 8)
    for output in record.outputs:
        store.delete(output.path)
    with pytest.raises(StageFailed, match=f"DamagedObject: {plan.path} is damaged.*delete it"):
        run(store, config(), TEXTS)
    store.delete(plan.path)
    assert contents(store, run(store, config(), TEXTS)) == wanted
    assert store.read_bytes(plan.path) == whole


def test_finished_looks_at_sizes_and_a_deleted_file_is_written_anew(store: Store) -> None:
    record = run(store, config(), TEXTS)
    wanted = contents(store, record)
    [model] = record.outputs_of(part="spm.model")
    flip(store, model.path)
    again = run(store, config(), TEXTS)
    assert again.reused == again.units
    assert contents(store, again) != wanted
    store.delete(model.path)
    assert contents(store, run(store, config(), TEXTS)) == wanted
