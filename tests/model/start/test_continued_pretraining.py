"""Further pretraining: an old run's weights on a new domain, through the real loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from model import checkpoint
from model.checkpoint import Checkpoint
from model.distributed import Worker
from model.held_out import mean_loss
from model.plan import RunInputs, pretraining_job
from model.pretrain import pretrain
from pipelines.core.store import Store
from tests.model.tiny import build, tiny_config

QUICK = {
    "steps": 60,
    "learning_rate": 1e-2,
    "warmup_steps": 5,
    "evaluate_every_steps": 60,
    "checkpoint_every_steps": 60,
    "log_every_steps": 20,
}


def trained(
    store: Store, folder: Path, name: str, domain: str = "tiny", **sections: Mapping[str, Any]
) -> Checkpoint:
    """Build a run and train it; its last checkpoint."""
    pretraining = {**QUICK, **sections.pop("pretraining", {})}
    config = tiny_config(
        run={"name": name}, encoder={"dropout": 0.0}, pretraining=pretraining, **sections
    )
    build(store, config, domain)
    job = pretraining_job(RunInputs(store, name))
    place = f"runs/{name}/checkpoints/unit"
    pretrain(job, store, place, Worker(0, 1, torch.device("cpu")), folder / name)
    found, _ = checkpoint.latest_complete(store, place)
    assert found is not None and found.step == pretraining["steps"]
    return found


def losses(found: Checkpoint) -> list[float]:
    """Held-out loss over all languages at the start and at the end."""
    return [mean_loss(line["languages"]) for line in found.training["evaluations"]]


def test_a_new_domain_is_learnt_from_where_the_old_run_ended(store: Store, tmp_path: Path) -> None:
    old = trained(store, tmp_path, "old")
    start = {"start_from": f"old@{QUICK['steps']}"}
    same = trained(
        store,
        tmp_path,
        "same",
        vocabulary={"start_from": "old"},
        pretraining={**start, "steps": 10},
    )
    # On the same held-out text the start's loss is the old model's last one: the weights arrived.
    assert losses(same)[0] == pytest.approx(losses(old)[-1], abs=1e-5)
    assert losses(same)[0] < losses(old)[0] - 0.3

    new = trained(
        store,
        tmp_path,
        "new",
        domain="news",
        vocabulary={"start_from": "old"},
        pretraining=start,
    )
    begin, end = losses(new)[0], losses(new)[-1]
    assert end < begin - 0.1
    # Steps and schedule begin anew.
    assert [line["step"] for line in new.training["log"]] == [20, 40, 60]
    assert new.training["tokens_seen"] > 0


def test_a_grown_vocabulary_begins_near_the_old_model(store: Store, tmp_path: Path) -> None:
    """New pieces begin as what the model made of their parts: far better than a fresh start."""
    old = trained(store, tmp_path, "old")
    grown = trained(
        store,
        tmp_path,
        "grown",
        domain="news",
        vocabulary={"start_from": "old", "add_pieces": 30},
        pretraining={"start_from": f"old@{QUICK['steps']}"},
    )
    fresh = trained(
        store,
        tmp_path,
        "fresh",
        domain="news",
        vocabulary={"start_from": "old", "add_pieces": 30},
        pretraining={"steps": 10},
    )
    assert losses(grown)[0] < losses(fresh)[0] - 0.2
    assert losses(grown)[-1] < losses(grown)[0] - 0.1
    assert len(grown.model["bias"]) == len(old.model["bias"]) + 30
    assert any("27 are the mean of the old pieces" in note for note in grown.training["notes"])


def test_resume_within_a_warm_started_run_does_not_start_again(
    store: Store, tmp_path: Path
) -> None:
    """A run that has a checkpoint of its own goes on from it and never reads the start again."""
    trained(store, tmp_path, "old", pretraining={"steps": 10})
    start = {"start_from": "old@10", "steps": 12, "checkpoint_every_steps": 6}
    first = trained(store, tmp_path, "new", pretraining=start, vocabulary={"start_from": "old"})
    place = "runs/new/checkpoints/unit"
    store.delete(checkpoint.step_key(place, 12))
    found, _ = checkpoint.latest_complete(store, place)
    assert found is not None and found.step == 6
    again = trained(store, tmp_path, "new", pretraining=start, vocabulary={"start_from": "old"})
    for name, tensor in first.model.items():
        assert torch.equal(tensor, again.model[name]), name
