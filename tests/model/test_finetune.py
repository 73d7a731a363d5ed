from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save as tensors_to_bytes
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from model.config import ClassificationTask, EncoderSection
from model.distributed import Worker
from model.encoder import Encoder
from model.finetune import Example, FinetuningJob, batch_of_step, build_classifier, predict
from model.heads import MaskedLanguageModel, SequenceClassifier
from model.metrics import Prediction, classification_scores
from model.plan import RunInputs
from model.tasks import TASKS
from model.tasks.classification import (
    Paragraph,
    normalised,
    one_label_each,
    split_of,
    within_sizes,
)
from pipelines.core.config import ConfigError
from pipelines.core.hashing import digest
from pipelines.core.manifest import FileRef
from pipelines.core.store import Store

from .gloo_workers import run_in_workers
from .layouts import LAYOUTS, section_of_layout, shaken
from .tiny import build, tiny_config

TASK = tiny_config().finetuning[0]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> RunInputs:
    store = Store(str(tmp_path_factory.mktemp("tiny") / "store"))
    build(store, tiny_config())
    return RunInputs(store, "tiny")


def examples(inputs: RunInputs, **changes: Any) -> Any:
    task = ClassificationTask.model_validate({**TASK.model_dump(), **changes})
    unique = inputs.stage("deduplicate").outputs_of(part="unique")
    return TASKS["classification"].examples(task, inputs.store, unique, inputs.vocabulary, 7)


def test_labels_are_sorted_and_no_text_is_in_two_splits(tiny: RunInputs) -> None:
    found = examples(tiny)
    assert found.labels == ["arts", "news", "sports"]
    rows = found.table.to_pylist()
    splits: dict[str, set[str]] = {}
    for row in rows:
        splits.setdefault(row["text_id"], set()).add(row["split"])
        assert row["tokens"][0] == 0 and row["tokens"][-1] == 2 and len(row["tokens"]) <= 24
    assert all(len(found_in) == 1 for found_in in splits.values())
    assert found.counts()["train"] > found.counts()["test"] > 0
    assert len(rows) + sum(found.dropped.values()) == 4 * (60 + 24 + 12)
    assert 0 < found.cut <= sum(len(row["tokens"]) == 24 for row in rows)


def test_equal_texts_share_a_split_however_they_are_written() -> None:
    assert normalised("ＡＢＣ  Straße\n") == normalised("abc strasse")
    assert {split_of(digest(normalised(t)), 7) for t in ("Zwei  Wörter", "zwei wörter")} != set()
    shares = Counter(split_of(digest(i), 7) for i in range(20_000))
    assert shares["train"] == pytest.approx(16_000, abs=230)
    assert shares["dev"] == pytest.approx(2000, abs=170)


def test_texts_under_two_labels_and_repeated_ones_are_counted_out() -> None:
    made = [Paragraph(i, i, label, "en") for i, label in ("aX", "bX", "aY", "bX", "cY")]
    dropped: Counter[str] = Counter()
    kept = one_label_each(made, dropped)
    assert [(p.text_id, p.label) for p in kept] == [("b", "X"), ("c", "Y")]
    assert dropped == {"two_labels": 2, "repeated": 1}


def test_rare_labels_are_named_and_frequent_ones_sampled_down() -> None:
    made = [Paragraph(f"{label}{i}", "", label, "en") for label, n in (("a", 30), ("b", 3))
            for i in range(n)]  # fmt: skip
    task = ClassificationTask.model_validate(
        {**TASK.model_dump(), "min_examples_per_label": 5, "max_examples_per_label": 20}
    )
    dropped: Counter[str] = Counter()
    kept = within_sizes(made, task, 7, dropped)
    assert len(kept) == 20 and {p.label for p in kept} == {"a"}
    assert dropped == {"rare_label:b": 3, "sampled_down": 10}
    assert kept == within_sizes(list(reversed(made)), task, 7, Counter())


LABELS_SCRIPT = """
from model.tasks.classification import Paragraph, within_sizes, one_label_each
from model.config import ClassificationTask
from collections import Counter
import sys
names = sys.argv[1].split(",")
made = [Paragraph(f"{n}{i}", "", n, "en") for n in names for i in range(3)]
task = ClassificationTask(kind="classification", name="t", label_pattern="(x)",
                          min_examples_per_label=1)
print(sorted({p.label for p in within_sizes(one_label_each(made, Counter()), task, 7, Counter())}))
"""


def test_label_ids_depend_on_neither_order_nor_process(tmp_path: Path) -> None:
    printed = set()
    for order, hash_seed in (("sports,arts,news,10,9", "1"), ("9,news,10,sports,arts", "2")):
        done = subprocess.run(
            [sys.executable, "-c", LABELS_SCRIPT, order],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.add(done.stdout)
    assert printed == {"['10', '9', 'arts', 'news', 'sports']\n"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_pattern": "("}, "not a regular expression"),
        ({"label_pattern": "abc"}, r"put the label into a group"),
        ({"max_tokens": 200}, "max_tokens = 200: the encoder reads at most packing.length = 24"),
    ],
)
def test_settings_that_cannot_work_are_refused(change: dict[str, Any], message: str) -> None:
    task = ClassificationTask.model_validate({**TASK.model_dump(), **change})
    with pytest.raises(ConfigError, match=message):
        TASKS["classification"].check(task, 24)


def test_too_few_labels_are_explained(tiny: RunInputs) -> None:
    with pytest.raises(ConfigError, match=r"0 label\(s\) left of 0.*no_label"):
        examples(tiny, label_pattern="^ftp://(x)")


def test_scores_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    truth, guess = rng.integers(0, 4, 300), rng.integers(0, 5, 300)
    judged = [Prediction("en" if i % 3 else "sw", int(t), int(g))
              for i, (t, g) in enumerate(zip(truth, guess, strict=True))]  # fmt: skip
    labels = ["a", "b", "c", "d", "e"]
    found = classification_scores(judged, labels, majority=2)
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, guess))
    macro = f1_score(truth, guess, average="macro", labels=range(5), zero_division=0)
    assert found["macro_f1"] == pytest.approx(macro)
    rows = precision_recall_fscore_support(truth, guess, labels=range(5), zero_division=0)
    for number, name in enumerate(labels):
        own = found["per_label"][name]
        wanted = [float(column[number]) for column in rows]
        assert [own["precision"], own["recall"], own["f1"], own["count"]] == pytest.approx(wanted)
    assert found["majority_accuracy"] == pytest.approx((truth == 2).mean())
    sw = [p for p in judged if p.language == "sw"]
    assert found["per_language"]["sw"]["count"] == len(sw) == 100
    right = sum(p.label == p.predicted for p in sw)
    assert found["per_language"]["sw"]["accuracy"] == right / 100


def judge(worker: Worker, count: int, target: str) -> None:
    torch.manual_seed(0)
    section = EncoderSection(layers=1, hidden_size=8, heads=1, feed_forward_size=8)
    model = SequenceClassifier(Encoder(section, 50, 20), 2)
    rows = [Example("en", 0, [0, *range(4, 5 + i), 2]) for i in range(count)]
    model.eval()
    with torch.no_grad():
        truth = [int(model(torch.tensor([row.tokens])).argmax()) for row in rows]
    # Items 0 and 1 are labelled wrong, the rest right.
    rows = [Example("en", (1 - t) if i < 2 else t, row.tokens)
            for i, (row, t) in enumerate(zip(rows, truth, strict=True))]  # fmt: skip
    judged = predict(model, rows, worker, batch_size=3)
    accuracy = classification_scores(judged, ["a", "b"], 0)["accuracy"]
    Path(f"{target}-{worker.rank}").write_text(
        json.dumps([accuracy, [[p.label, p.predicted] for p in judged]])
    )


def test_every_test_example_counts_once_at_any_number_of_workers(tmp_path: Path) -> None:
    judge(Worker(), 10, str(tmp_path / "one"))
    alone = json.loads((tmp_path / "one-0").read_text())
    assert alone[0] == 0.8 and len(alone[1]) == 10
    for world_size, count, accuracy in ((2, 10, 0.8), (3, 10, 0.8), (3, 2, 0.0)):
        run_in_workers(world_size, judge, count, str(tmp_path / "several"))
        for rank in range(world_size):
            found = json.loads((tmp_path / f"several-{rank}").read_text())
            assert found[0] == accuracy and found[1] == alone[1][:count]


def test_every_epoch_uses_each_example_once() -> None:
    job = FinetuningJob(
        seed=7, length=24, rows=50, encoder=EncoderSection(), task=TASK,
        labels=["a", "b"], model=FileRef(path="m"), examples="e",
    )  # fmt: skip
    per_epoch = math.ceil(37 / TASK.examples_per_step)
    orders = []
    for epoch in range(2):
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        orders.append([i for step in steps for i in batch_of_step(job, 37, step)])
        assert sorted(orders[-1]) == list(range(37))
    assert orders[0] != orders[1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_head_starts_with_the_pooler_where_there_is_one(store: Store, layout: str) -> None:
    """As BERT's classifier does; only the output layer is drawn, and by the seed alone."""
    section = section_of_layout(layout)
    model = MaskedLanguageModel(Encoder(section, 50, 24))
    shaken(model)
    content = tensors_to_bytes(model.state_dict())
    store.publish_bytes("model", content)
    checksum = hashlib.sha256(content).hexdigest()
    job = FinetuningJob(
        seed=7, length=24, rows=50, encoder=section, task=TASK, labels=["a", "b"],
        model=FileRef(path="model", size=len(content), checksum=checksum), examples="e",
    )  # fmt: skip
    found, [note] = build_classifier(job, store)
    assert all(torch.equal(t, found.encoder.state_dict()[name])
               for name, t in model.encoder.state_dict().items())  # fmt: skip
    assert (note == "the head starts anew") is (model.pooler is None)
    without = {name: t for name, t in model.state_dict().items() if not name.startswith("pooler")}
    content = tensors_to_bytes(without)
    store.publish_bytes("other", content)
    other = FileRef(path="other", size=len(content), checksum=hashlib.sha256(content).hexdigest())
    fresh, [said] = build_classifier(job.model_copy(update={"model": other}), store)
    assert said == "the head starts anew"
    assert torch.equal(found.output.weight, fresh.output.weight)
    if model.pooler is None:
        assert torch.equal(found.dense.weight, fresh.dense.weight)
        return
    assert note == "the head starts with the pretrained pooler; its output layer starts anew"
    assert torch.equal(found.dense.weight, model.pooler.weight)
    assert torch.equal(found.dense.bias, model.pooler.bias)
    tokens = torch.tensor([[0, 5, 6, 2]])
    pooled = torch.tanh(model.pooler(model.encoder.eval()(tokens)[:, 0]))
    torch.testing.assert_close(found.eval()(tokens), found.output(pooled))
