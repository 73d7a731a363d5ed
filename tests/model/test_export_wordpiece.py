"""A run with BERT's vocabulary is exported and fine-tuned like any other."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save as tensors_to_bytes
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from transformers import AutoTokenizer, pipeline

from model.encoder import Encoder
from model.export import fill_mask
from model.export_stage import export_step, export_units, publish_classifier
from model.finetune import FinetuningJob, build_classifier
from model.heads import MaskedLanguageModel
from model.model_card import masking_rule
from model.plan import RunInputs, finetuning_units, pretraining_job
from model.tasks import TASKS
from model.vocabulary_facts import kind_of, normalization_of
from pipelines.core.foreign import foreign_vocabulary
from pipelines.core.manifest import StageRecord
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import Store
from pipelines.core.vocabulary import Vocabulary, open_vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary
from tests.model.tiny import build, tiny_config
from tests.pipelines.core.foreign_folders import bert_folder, files_of
from tests.pipelines.train_vocabulary.known_models import model_of

LANGUAGES = ("en", "fi", "sw")


def untrained(unit: Unit, config: dict[str, int], attempt: Attempt) -> None:
    """What pretraining leaves, with weights from a seed instead of training."""
    inputs = RunInputs(attempt.store, "tiny")
    torch.manual_seed(config["seed"])
    job = pretraining_job(inputs)
    model = MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length))
    losses = {tag: {"loss_sum": 30.0, "tokens": 10, "correct": 1} for tag in LANGUAGES}
    evaluations = [{"step": 12, "languages": losses}]
    metrics = {"steps": 12, "tokens_seen": 99, "evaluations": evaluations, "unigram": losses}
    for part, content in (
        ("model", tensors_to_bytes(model.state_dict())),
        ("metrics", json.dumps(metrics).encode()),
    ):
        path = Path(config["folder"]) / part
        path.write_bytes(content)
        attempt.write_file(f"{attempt.unit_id}/{part}", path, part=part)


BERT = {"first_position": 0, "segments": 2, "norm_epsilon": 1e-12}
MODERN = {
    "norm": "pre",
    "positions": "rotary",
    "feed_forward": "geglu",
    "biases": False,
    "segments": 0,
}
RUNS: dict[str, tuple[str, dict[str, object]]] = {
    "unigram": ("unigram", {}),
    "unigram-modern": ("unigram", MODERN),
    "wordpiece": ("wordpiece", {}),
    "wordpiece-bert": ("wordpiece", BERT),
}
"""Kind of the vocabulary, and settings of the encoder."""


def run_with(
    folder: Path, kind: str, encoder: dict[str, object], more: Mapping[str, object] | None = None
) -> RunInputs:
    """A run that is pretrained; `more` are settings of its vocabulary."""
    store = Store(str(folder / "store"))
    vocabulary = {"kind": kind, **(more or {})}
    masking = {"unit": "word"}
    build(store, tiny_config(vocabulary=vocabulary, masking=masking, encoder=encoder))
    step = Step(
        "pretrain", 1, "runs/tiny/pretrained", {"seed": 5, "folder": str(folder)}, untrained
    )
    run_step(step, [Unit("pretrain", ())], store, "tiny", inline=True, quiet=True)
    return RunInputs(store, "tiny")


@pytest.fixture(scope="module", params=list(RUNS))
def inputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunInputs:
    return run_with(tmp_path_factory.mktemp(request.param), *RUNS[request.param])


def fetched(store: Store, record: StageRecord, folder: Path, part: str) -> Path:
    for output in record.outputs_of(part=part):
        (folder / output.labels["file"]).write_bytes(store.read_bytes(output.path))
    return folder


def test_the_export_stage(inputs: RunInputs, tmp_path: Path) -> None:
    step, units = export_step(inputs), export_units(inputs)
    record = run_step(step, units, inputs.store, "tiny", inline=True, quiet=True)
    folder = fetched(inputs.store, record, tmp_path, "export")
    wordpiece = isinstance(inputs.vocabulary, WordPieceVocabulary)

    names = {path.name for path in folder.iterdir()}
    assert ("sentencepiece.bpe.model" in names) is not wordpiece
    assert {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"} <= names
    assert record.counters["lines_compared"] == 5 * len(LANGUAGES)
    assert record.counters["rows_compared"] > 3
    assert record.counters["lines_with_literal_mask"] == 0

    tokenizer = AutoTokenizer.from_pretrained(folder)
    mask = "[MASK]" if wordpiece else "<mask>"
    assert (tokenizer.mask_token, tokenizer.model_max_length) == (mask, 24)
    own = inputs.vocabulary.encode("wa </s> [SEP] ki").tolist()
    assert tokenizer("wa </s> [SEP] ki")["input_ids"] == [0, *own, 2]
    config = json.loads((folder / "config.json").read_text())
    layout = inputs.config.encoder.layout
    assert config["model_type"] == layout
    assert ("token_type_ids" in tokenizer.model_input_names) is (layout == "bert")
    assert len(pipeline("fill-mask", str(folder))(f"wa {mask} ki.")) == 5
    assert len(fill_mask(folder, f"wa {mask}.", top=2)) == 2
    with pytest.raises(ValueError, match=re.escape(f"write one {mask} into the text; it has 0")):
        fill_mask(folder, "wa ki")

    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"(`{layout}`)" in card
    assert f"`{mask}` in a text, after normalization, is the mask" in card
    assert "predicted: 0.15; chosen as whole words. Of these 0.8 are replaced by" in card
    assert ("| WordPiece |" in card) is wordpiece
    assert ("| nmt_nfkc |" in card) is not wordpiece


@pytest.mark.parametrize(
    ("kind", "old", "new", "said"),
    [
        ("unigram", {"normalization": "nfkc"}, {"normalization": "nmt_nfkc"}, "nfkc"),
        ("wordpiece", {"lowercase": True}, {}, "BERT's, lower case, no accents"),
        ("wordpiece", {}, {"lowercase": True}, "BERT's, cased"),
    ],
)
def test_the_card_of_a_vocabulary_that_was_taken_tells_its_own_rules(
    tmp_path: Path, kind: str, old: dict[str, object], new: dict[str, object], said: str
) -> None:
    store = Store(str(tmp_path / "store"))
    build(store, tiny_config(run={"name": "old"}, vocabulary={"kind": kind, **old}))
    inputs = run_with(tmp_path, kind, {}, {"start_from": "old", **new})
    step, units = export_step(inputs), export_units(inputs)
    record = run_step(step, units, inputs.store, "tiny", inline=True, quiet=True)
    [readme] = [o for o in record.outputs if o.labels["file"] == "README.md"]
    card = inputs.store.read_bytes(readme.path).decode("utf-8")
    assert f"| normalization | {said} |" in card
    assert "| vocabulary taken from | old |" in card


def test_the_rules_of_foreign_vocabularies(tmp_path: Path) -> None:
    pieces = [*"abc", "##a"]
    for settings, said in (
        ({}, "BERT's, lower case, no accents"),
        ({"strip_accents": False}, "BERT's, lower case, accents kept"),
        ({"do_lower_case": False}, "BERT's, cased"),
        (
            {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
            "BERT's, cased, no accents, no blanks around Chinese characters",
        ),
    ):
        folder = bert_folder(tmp_path / said, pieces, **settings)
        found = foreign_vocabulary(files_of(folder)).vocabulary
        assert (kind_of(found), normalization_of(found)) == ("WordPiece", said)
    model = ModelProto.FromString(model_of(["▁", "a"]))
    assert kind_of(Vocabulary(model.SerializeToString())) == "SentencePiece Unigram, no bytes"
    model.normalizer_spec.precompiled_charsmap = b""
    model.normalizer_spec.name = "identity"
    assert normalization_of(Vocabulary(model.SerializeToString())) == "identity"


def publish(unit: Unit, config: dict[str, str], attempt: Attempt) -> None:
    """The end of fine-tuning, with a head that is not trained."""
    inputs = RunInputs(attempt.store, "tiny")
    read, [task_unit] = finetuning_units(inputs)
    [task] = inputs.config.finetuning
    sha256 = inputs.vocabulary_sha256
    vocabulary = open_vocabulary(attempt.store, read["vocabulary_files"], sha256)
    unique = inputs.stage("deduplicate").outputs_of(part="unique")
    examples = TASKS[task.kind].examples(task, attempt.store, unique, vocabulary, read["seed"])
    job = FinetuningJob(
        seed=read["seed"], length=read["length"], rows=read["rows"], encoder=read["encoder"],
        task=task, labels=examples.labels, model=task_unit.input(read["model"]), examples="unused",
    )  # fmt: skip
    classifier, _ = build_classifier(job, attempt.store)
    state = classifier.state_dict()
    rows = examples.table["tokens"].slice(0, 4).to_pylist()
    publish_classifier(attempt, job, state, vocabulary, rows)
    used = {ref.path for ref in task_unit.inputs}
    assert used >= {read["model"], *read["vocabulary_files"].values()}


def test_fine_tuning_reads_and_exports_the_vocabulary(inputs: RunInputs, tmp_path: Path) -> None:
    step = Step("finetune", 1, "runs/tiny/finetune", {}, publish)
    record = run_step(step, [Unit("topic", ())], inputs.store, "tiny", inline=True, quiet=True)
    folder = fetched(inputs.store, record, tmp_path, "model")
    wordpiece = not isinstance(inputs.vocabulary, Vocabulary)
    assert (folder / "sentencepiece.bpe.model").exists() is not wordpiece
    [answer] = pipeline("text-classification", str(folder))("wa ki")
    assert answer["label"] in ("arts", "news", "sports")
    [pair] = pipeline("text-classification", str(folder))([{"text": "wa", "text_pair": "ki"}])
    assert pair["label"] in ("arts", "news", "sports")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "predicted: 0.15; chosen as single tokens. Of these 0.8 are replaced by `<mask>`"),
        ({}, "0.1 by a random token (drawn by its frequency), 0.1 stay."),
        ({"unit": "span"}, "chosen as spans of 3.8 words on average"),
        (
            {"phases": [{"until": 0.5, "rate": 0.3}, {"until": 1.0, "rate": 0.15}]},
            "predicted: 0.3 until 50%, then 0.15 until 100% of the training; chosen",
        ),
        (
            {"mask_probability": 0.5, "random_probability": 0.25, "random_from": "uniform"},
            "0.25 by a random token (drawn all alike), 0.25 stay.",
        ),
    ],
)
def test_the_card_tells_the_masking_rule(change: dict[str, object], said: str) -> None:
    rule = {
        "rate": 0.15, "phases": [], "unit": "token", "mean_span_words": 3.8,
        "mask_probability": 0.8, "random_probability": 0.1, "random_from": "unigram",
    }  # fmt: skip
    assert said in masking_rule({**rule, **change}, "<mask>")
