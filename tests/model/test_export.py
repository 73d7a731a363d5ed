"""What is exported is the model that was trained, whole, and nothing is stored twice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import pipeline

from model.config import EncoderSection
from model.encoder import Encoder
from model.export import (
    MASKED_HEAD_NAMES,
    ExportMismatch,
    export_classifier,
    export_masked_model,
    fill_mask,
    masks_read,
    renamed,
    verify_model,
    verify_tokenizer,
)
from model.heads import MaskedLanguageModel, SequenceClassifier
from model.plan import RunInputs
from pipelines.core.store import Store
from pipelines.core.tokenizer_file import tokenizer_files
from pipelines.core.vocabulary import Vocabulary
from tests.model.tiny import build, tiny_config

ROWS = [[0, 5, 6, 7, 2], [0, 9, 2], [0, 20, 21, 22, 23, 24, 2], [0, 50, 2, 51, 2], [0, 4, 2]]
SECTION = EncoderSection(layers=2, hidden_size=64, heads=4, feed_forward_size=128)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    store = Store(str(tmp_path_factory.mktemp("export")))
    build(store, tiny_config())
    return RunInputs(store, "tiny").vocabulary


def trained_model(rows: int) -> MaskedLanguageModel:
    """A model three steps away from its start, so that biases and norms are not at 0 and 1."""
    torch.manual_seed(3)
    model = MaskedLanguageModel(Encoder(SECTION, rows, 24))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        tokens, masked = torch.tensor([[0, 5, 6, 7, 2]]), torch.tensor([1, 3])
        model(tokens, masked, torch.tensor([9, 8])).sum().backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module")
def exported(vocabulary: Vocabulary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder")
    model = trained_model(vocabulary.rows)
    export_masked_model(folder, model, vocabulary, "card")
    assert verify_model(folder, model, ROWS) <= 1e-5
    return folder


def test_a_new_process_finds_the_same_logits_and_nothing_missing(
    exported: Path, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    program = (
        "import json, sys, torch\n"
        "from transformers import AutoModelForMaskedLM\n"
        "load = AutoModelForMaskedLM.from_pretrained\n"
        "model, info = load(sys.argv[1], output_loading_info=True)\n"
        "rows = json.loads(sys.argv[2])\n"
        "with torch.no_grad():\n"
        "    outputs = [model.eval()(input_ids=torch.tensor([row])) for row in rows]\n"
        "logits = [output.logits[0].tolist() for output in outputs]\n"
        "print(json.dumps([{k: sorted(map(str, v)) for k, v in info.items()}, logits]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(exported), json.dumps(ROWS)],
        capture_output=True,
        text=True,
        check=True,
    )
    info, logits = json.loads(done.stdout.splitlines()[-1])

    assert not any(info.values()), info
    own = trained_model(vocabulary.rows).eval()
    for row, theirs in zip(ROWS, logits, strict=True):
        with torch.no_grad():
            ours = own.logits(torch.tensor([row]))[0]
        assert torch.allclose(ours, torch.tensor(theirs), atol=1e-5)


def test_the_vocabulary_matrix_is_stored_once(exported: Path, vocabulary: Vocabulary) -> None:
    parameters = sum(p.numel() for p in trained_model(vocabulary.rows).parameters())
    tensors = load_file(exported / "model.safetensors")

    assert sum(tensor.numel() for tensor in tensors.values()) == parameters
    assert (exported / "model.safetensors").stat().st_size < 1.2 * 4 * parameters


def test_a_broken_tie_is_refused_and_a_whole_one_is_not(vocabulary: Vocabulary) -> None:
    state = trained_model(vocabulary.rows).state_dict()
    words = state["encoder.words.weight"]

    assert renamed({**state, "decoder.weight": words.clone()}, MASKED_HEAD_NAMES).keys() == (
        renamed(state, MASKED_HEAD_NAMES).keys()
    )
    with pytest.raises(ExportMismatch, match=r"decoder\.weight differs"):
        renamed({**state, "decoder.weight": words + 1e-3}, MASKED_HEAD_NAMES)


def test_a_changed_weight_is_found(exported: Path, vocabulary: Vocabulary) -> None:
    model = trained_model(vocabulary.rows)
    with torch.no_grad():
        model.bias[7] += 0.01

    with pytest.raises(ExportMismatch, match="logits differ by 1.0"):
        verify_model(exported, model, ROWS)


def test_the_tokenizer_s_files_are_those_of_the_vocabulary(
    exported: Path, vocabulary: Vocabulary
) -> None:
    for name, content in tokenizer_files(vocabulary, max_length=24).items():
        assert (exported / name).read_bytes() == content
    assert (exported / "sentencepiece.bpe.model").read_bytes() == vocabulary.model


def test_the_tokenizer_gives_the_vocabulary_s_ids(exported: Path, vocabulary: Vocabulary) -> None:
    lines = ["thing er", "kaanen", "wa ki", "", "  x  ", "wa </s> ki", "<s>wa<pad> <unk>"]
    assert verify_tokenizer(exported, vocabulary, lines) == 0
    assert verify_tokenizer(exported, vocabulary, [*lines, "wa <mask> ki", "<mask><mask>"]) == 2
    assert masks_read(vocabulary, "<mask> <mask") == 1


def changed_folder(exported: Path, folder: Path, name: str, change: Any) -> Path:
    shutil.copytree(exported, folder)
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(content))
    return folder


def reads_all_names(settings: dict[str, Any]) -> None:
    settings["split_special_tokens"] = False


def reads_no_mask(tokenizer: dict[str, Any]) -> None:
    away = {"type": "Replace", "pattern": {"String": "<mask>"}, "content": "wa"}
    tokenizer["normalizer"]["normalizers"].append(away)


def cuts_otherwise(tokenizer: dict[str, Any]) -> None:
    pieces = tokenizer["model"]["vocab"]
    [place] = [i for i, (piece, _) in enumerate(pieces) if piece == "a"]
    pieces[place][1] = 1_000.0


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("tokenizer_config.json", reads_all_names, r"ids of 'a </s> b"),
        ("tokenizer.json", reads_no_mask, r"ids of 'a <mask>\.'.*wanted 1 mask\(s\)"),
        ("tokenizer.json", cuts_otherwise, r"ids of 'kaanen'"),
    ],
)
def test_a_tokenizer_that_reads_otherwise_is_found(
    exported: Path, vocabulary: Vocabulary, tmp_path: Path, name: str, change: Any, message: str
) -> None:
    folder = changed_folder(exported, tmp_path / "changed", name, change)
    with pytest.raises(ExportMismatch, match=message):
        verify_tokenizer(folder, vocabulary, ["kaanen"])


def test_the_fill_mask_pipeline_works_on_the_folder(exported: Path, vocabulary: Vocabulary) -> None:
    """What users type first."""
    found = pipeline("fill-mask", str(exported), top_k=3)("wa <mask>.")
    ours = fill_mask(exported, "wa <mask>.", top=3)
    assert [answer["score"] for answer in found] == pytest.approx([p for _, p, _ in ours])
    assert [answer["sequence"] for answer in found] == [text for _, _, text in ours]
    ids = [0, *vocabulary.encode("wa").tolist(), vocabulary.mask_id]
    model = trained_model(vocabulary.rows).eval()
    with torch.no_grad():
        row = torch.tensor([[*ids, vocabulary.encode("wa.").tolist()[-1], 2]])
        best = model.logits(row)[0, len(ids) - 1].softmax(dim=0).topk(3)
    assert [answer["token"] for answer in found] == best.indices.tolist()
    assert [answer["score"] for answer in found] == pytest.approx(best.values.tolist(), abs=1e-6)


def test_a_mask_takes_the_blank_before_it_and_is_filled(exported: Path) -> None:
    answers = fill_mask(exported, "wa <mask> ki", top=3)

    assert len(answers) == 3
    assert answers[0][1] >= answers[1][1] >= answers[2][1] > 0
    with pytest.raises(ValueError, match="write one <mask>"):
        fill_mask(exported, "no mask")
    with pytest.raises(ValueError, match="the model reads 24"):
        fill_mask(exported, "wa ki li tu sha ngo ku ji " * 20 + "<mask>")


def test_a_classifier_keeps_its_labels_names(vocabulary: Vocabulary, tmp_path: Path) -> None:
    torch.manual_seed(4)
    model = SequenceClassifier(Encoder(SECTION, vocabulary.rows, 24), 3)
    labels = ["10", "9", "sports"]
    export_classifier(tmp_path, model, labels, vocabulary)

    assert verify_model(tmp_path, model, ROWS) <= 1e-5
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["id2label"] == {"0": "10", "1": "9", "2": "sports"}
    assert saved["label2id"] == {"10": 0, "9": 1, "sports": 2}
