"""One update: the same at any number of workers and micro-batches, and none from a bad loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from model.config import EncoderSection, PretrainingSection
from model.data.batches import Batch
from model.distributed import Worker, share_of_batch
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.learner import Learner
from model.optimizer import set_learning_rate
from model.spikes import SpikeWatch
from model.step_plan import step_plan_of
from model.update import LossSpikeError, NonFiniteError, StepResult, trained_loss, update
from model.wishes import Wishes

from .gloo_workers import run_in_workers

ROWS, LENGTH = 60, 16
SETTINGS: dict[str, Any] = {"steps": 100, "warmup_steps": 0, "max_gradient_norm": 0.0}


class OneWeight(nn.Module):
    """A masked token's loss is w x its label, a pair's is v x 7, where w and v are parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))
        self.v = nn.Parameter(torch.ones(()))

    def forward(
        self,
        tokens: torch.Tensor,
        masked: torch.Tensor,
        labels: torch.Tensor,
        document_starts: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
        is_next: torch.Tensor | None = None,
        padded: bool | None = None,
    ) -> torch.Tensor:
        pairs = 0 if is_next is None else 7 * int(is_next.sum())
        return torch.stack([self.w * labels.sum(), self.v * pairs])


def part(number: int, labels: list[int], follows: list[bool] | None = None) -> Batch:
    return Batch(
        tokens=torch.full((2, 4), 5),
        masked=torch.arange(len(labels)),
        labels=torch.tensor(labels),
        real_tokens=6,
        sequence_ids=[f"sequence-{number}"],
        document_starts=torch.tensor([0, 4]),
        number=number,
        is_next=None if follows is None else torch.tensor(follows),
    )


def learner_of(model: nn.Module, worker: Worker, **settings: Any) -> Learner:
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    section = PretrainingSection.model_validate(SETTINGS | settings)
    return Learner(7, section, worker, model, worker.wrap(model), optimizer)  # type: ignore[arg-type]


def facts_of(model: nn.Module, result: StepResult) -> dict[str, Any]:
    gradients = {name: p.grad.tolist() for name, p in model.named_parameters()}  # type: ignore[union-attr]
    return {
        "loss": result.loss,
        "pairs": result.next_sentence_loss,
        "norm": result.gradient_norm,
        "masked": result.masked,
        "real": result.real,
        "padded": result.padded,
        "gradients": gradients,
    }


def weigh(worker: Worker, parts: list[list[Batch]], target: str) -> None:
    model = OneWeight()
    result = update(learner_of(model, worker), parts[worker.rank], 0)
    if worker.leads:
        Path(target).write_text(json.dumps(facts_of(model, result)))


THREE, ONE = [1, 1, 1], [5]
SPLITS = {
    "together": [[part(0, THREE + ONE)]],
    "accumulated": [[part(0, THREE), part(1, ONE)]],
    "two workers": [[part(0, THREE)], [part(1, ONE)]],
    "uneven": [[part(0, [1]), part(1, [1]), part(2, [1])], [part(3, [5])]],
    "pairs": [[part(0, THREE, [True, True, False])], [part(1, ONE, [True])]],
}


def in_two_workers(worker: Worker, folder: str) -> None:
    """All that needs two workers, in one group."""
    for name in ("two workers", "uneven", "pairs"):
        weigh(worker, SPLITS[name], f"{folder}/{name}")
    for pairs in (False, True):
        learn(worker, pairs, f"{folder}/learn-{pairs}")
    fails_on_one(worker, f"{folder}/error")
    wish(worker, f"{folder}/wish")


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two workers found, by name."""
    folder = tmp_path_factory.mktemp("two")
    run_in_workers(2, in_two_workers, str(folder))
    return folder


@pytest.mark.parametrize("name", ["together", "accumulated", "two workers", "uneven"])
def test_c38_a_token_weighs_the_same_whoever_computes_it(
    name: str, two_workers: Path, tmp_path: Path
) -> None:
    path = two_workers / name
    if len(SPLITS[name]) == 1:
        path = tmp_path / name
        weigh(Worker(), SPLITS[name], str(path))
    found = json.loads(path.read_text())
    assert found["loss"] == pytest.approx(2.0, abs=1e-12), "8 / 4; a mean of means gives 3.0"
    assert found["gradients"]["w"] == pytest.approx(2.0, abs=1e-6)
    assert found["masked"] == 4 and found["pairs"] is None
    micro = sum(len(own) for own in SPLITS[name])
    assert (found["real"], found["padded"]) == (6 * micro, 2 * micro)


def test_pairs_have_a_divisor_of_their_own(two_workers: Path) -> None:
    found = json.loads((two_workers / "pairs").read_text())
    assert found["loss"] == pytest.approx(2.0)
    assert found["pairs"] == pytest.approx(7 * 3 / 4), "three that follow, of four pairs"
    assert found["gradients"]["v"] == pytest.approx(7 * 3 / 4, abs=1e-6)
    assert found["gradients"]["w"] == pytest.approx(2.0, abs=1e-6)


def encoder_parts(pairs: bool) -> list[Batch]:
    """Five micro-batches with 1 to 9 masked tokens of rows of several lengths."""
    rng, parts = np.random.default_rng(3), []
    for number in range(5):
        rows = 1 + number % 3
        lengths = rng.integers(6, LENGTH + 1, size=rows)
        tokens = torch.ones(rows, int(lengths.max()), dtype=torch.int64)
        for row, length in enumerate(lengths):
            tokens[row, :length] = torch.from_numpy(rng.integers(4, ROWS - 1, size=length))
        real = (tokens != 1).flatten().nonzero().flatten()
        count = int(rng.integers(1, 10))
        masked = real[torch.from_numpy(rng.permutation(len(real))[:count]).sort().values]
        segments = torch.zeros_like(tokens)
        segments[:, 3:] = 1
        parts.append(
            Batch(
                tokens=tokens,
                masked=masked,
                labels=torch.from_numpy(rng.integers(4, ROWS - 1, size=len(masked))),
                real_tokens=int(lengths.sum()),
                sequence_ids=[f"{number}-{row}" for row in range(rows)],
                document_starts=torch.arange(rows) * tokens.shape[1],
                segments=segments if pairs else None,
                is_next=torch.from_numpy(rng.random(rows) < 0.5) if pairs else None,
                number=number,
            )
        )
    return parts


def encoder_of(pairs: bool, dropout: float) -> MaskedLanguageModel:
    section = EncoderSection(
        layers=2,
        hidden_size=16,
        heads=2,
        feed_forward_size=32,
        dropout=dropout,
        first_position=0 if pairs else 2,
        segments=2 if pairs else 1,
        next_sentence=pairs,
    )
    torch.manual_seed(1)
    return MaskedLanguageModel(Encoder(section, ROWS, LENGTH))


def learn(worker: Worker, pairs: bool, target: str) -> None:
    parts, model = encoder_parts(pairs), encoder_of(pairs, dropout=0.1)
    own = [parts[i] for i in share_of_batch(len(parts), worker.rank, worker.world_size)]
    result = update(learner_of(model, worker), own, 3)
    if worker.leads:
        Path(target).write_text(json.dumps(facts_of(model, result)))


@pytest.mark.parametrize("pairs", [False, True])
def test_gradients_do_not_depend_on_workers_with_dropout_and_unequal_counts(
    two_workers: Path, tmp_path: Path, pairs: bool
) -> None:
    counts = [len(batch.labels) for batch in encoder_parts(pairs)]
    assert sum(counts[:2]) != sum(counts[2:]), f"two and three micro-batches: {counts}"
    learn(Worker(), pairs, str(tmp_path / "one"))
    wanted = json.loads((tmp_path / "one").read_text())
    found = json.loads((two_workers / f"learn-{pairs}").read_text())
    assert (wanted["pairs"] is not None) == pairs
    assert found["loss"] == pytest.approx(wanted["loss"], abs=1e-6)
    assert found["pairs"] == pytest.approx(wanted["pairs"], abs=1e-6)
    for name, gradient in wanted["gradients"].items():
        np.testing.assert_allclose(found["gradients"][name], gradient, atol=1e-6, err_msg=name)


def joined(parts: list[Batch]) -> Batch:
    """The same rows as one micro-batch."""
    width = max(batch.tokens.shape[1] for batch in parts)
    tokens, masked, first = [], [], 0
    for batch in parts:
        rows, own = batch.tokens.shape
        tokens.append(nn.functional.pad(batch.tokens, (0, width - own), value=1))
        masked.append((first + batch.masked // own) * width + batch.masked % own)
        first += rows
    segments = None
    if parts[0].segments is not None:
        segments = torch.zeros(first, width, dtype=torch.int64)
        segments[:, 3:] = 1
    return Batch(
        tokens=torch.cat(tokens),
        masked=torch.cat(masked),
        labels=torch.cat([batch.labels for batch in parts]),
        real_tokens=sum(batch.real_tokens for batch in parts),
        sequence_ids=[name for batch in parts for name in batch.sequence_ids],
        document_starts=torch.arange(first) * width,
        segments=segments,
        is_next=torch.cat([b.is_next for b in parts]) if segments is not None else None,  # type: ignore[misc]
    )


@pytest.mark.parametrize("pairs", [False, True])
def test_one_large_micro_batch_gives_the_gradients_of_five(pairs: bool) -> None:
    parts, found = encoder_parts(pairs), []
    for split in (parts, [joined(parts)], [joined(parts[:2]), joined(parts[2:])]):
        model = encoder_of(pairs, 0.0)
        found.append(facts_of(model, update(learner_of(model, Worker()), split, 3)))
    for other in found[1:]:
        assert other["loss"] == pytest.approx(found[0]["loss"], abs=1e-6)
        assert other["real"] == found[0]["real"]
        for name, gradient in found[0]["gradients"].items():
            np.testing.assert_allclose(other["gradients"][name], gradient, atol=1e-6, err_msg=name)


def fails_on_one(worker: Worker, target: str) -> None:
    """Only the loss of micro-batch 3 is past float32; the second of two workers computes it."""
    parts = [part(number, [1, 2]) for number in range(3)] + [part(3, [5, 5])]
    model = OneWeight()
    nn.init.constant_(model.w, 1e38)
    own = [parts[i] for i in share_of_batch(4, worker.rank, worker.world_size)]
    learner = learner_of(model, worker)
    set_learning_rate(learner.optimizer, 1e37)  # or an update of 1e38 would not show
    try:
        update(learner, own, 6)
    except NonFiniteError as error:
        assert float(model.w.detach()) == pytest.approx(1e38, rel=1e-6), "no update"
        Path(f"{target}-{worker.rank}").write_text(str(error))


def test_a_bad_loss_of_one_worker_stops_all_before_the_update(two_workers: Path) -> None:
    first, second = ((two_workers / f"error-{rank}").read_text() for rank in range(2))
    assert first == second
    assert first.startswith("step 7: loss inf") and "the model was not updated" in first
    assert "sequence-3" in first and "sequence-2" not in first
    assert "pretraining.skip_steps = [7]" in first


class Steep(OneWeight):
    """The root of w at 0: the loss is 0, its gradient is endless."""

    def forward(self, tokens: torch.Tensor, *others: torch.Tensor | bool | None) -> torch.Tensor:
        return torch.stack([self.w.sqrt(), self.v * 0.0])


def test_a_gradient_that_is_no_number_stops_before_the_update() -> None:
    model = Steep()
    nn.init.zeros_(model.w)
    with pytest.raises(NonFiniteError, match="loss 0.0, gradient norm (inf|nan).*gradient only"):
        update(learner_of(model, Worker()), [part(0, [1])], 0)
    assert float(model.w.detach()) == 0.0


def test_a_spike_stops_before_the_update_where_it_is_told_to() -> None:
    model, settings = OneWeight(), {"on_spike": "stop", "spike_factor": 2.0}
    learner, losses = learner_of(model, Worker(), **settings), [1.0] * 20
    plan = step_plan_of(learner.settings, LENGTH)
    spikes = SpikeWatch(learner.settings, plan, losses, print)
    with pytest.raises(LossSpikeError, match=r"step 21: .*skip_steps = \[21\]"):
        update(learner, [part(0, [1, 9])], 20, spikes=spikes)
    assert float(model.w.detach()) == 1.0 and losses == [1.0] * 20
    set_learning_rate(learner.optimizer, 0.5)
    result = update(learner, [part(0, [1, 2])], 20, spikes=spikes)
    assert float(model.w.detach()) == pytest.approx(1.0 - 0.5 * 1.5)
    assert losses[-1] == trained_loss(result) == 1.5, "the loss before the update"


def wish(worker: Worker, target: str) -> None:
    asked = [Wishes(), Wishes(save=True), Wishes(stop=True)]
    heard = []
    for of_last in asked:
        own = of_last if worker.rank == 1 else None
        result = update(learner_of(OneWeight(), worker), [part(worker.rank, [1])], 0, own)
        heard.append(asked.index(result.wishes))
    Path(f"{target}-{worker.rank}").write_text(json.dumps(heard))


def test_what_one_worker_asks_for_all_hear_of(two_workers: Path) -> None:
    for rank in range(2):
        assert json.loads((two_workers / f"wish-{rank}").read_text()) == [0, 1, 2]


class NoisyWeight(OneWeight):
    """Drops out half of a hundred ones."""

    def forward(self, tokens: torch.Tensor, *others: torch.Tensor | bool | None) -> torch.Tensor:
        kept = nn.functional.dropout(torch.ones(100), 0.5).sum()
        return torch.stack([self.w * kept, self.v * 0.0])


def test_each_micro_batch_of_each_step_has_dropout_of_its_own() -> None:
    def loss_of(number: int, step: int) -> float:
        return update(learner_of(NoisyWeight(), Worker()), [part(number, [1])], step).loss

    losses = [loss_of(number, step) for step in range(3) for number in range(3)]
    assert len(set(losses)) > 5, "sums of 100 draws meet now and then"
    torch.manual_seed(99)
    assert losses == [loss_of(number, step) for step in range(3) for number in range(3)]
    together = update(learner_of(NoisyWeight(), Worker()), [part(0, [1]), part(2, [1])], 1)
    assert together.loss == pytest.approx((losses[3] + losses[5]) / 2, abs=1e-12)
