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
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, pipeline

from model.encoder import Encoder
from model.export import (
    ExportMismatch,
    export_classifier,
    export_masked_model,
    fill_mask,
    masks_read,
    verify_model,
    verify_tokenizer,
    write_model,
)
from model.heads import MaskedLanguageModel, SequenceClassifier
from model.plan import RunInputs
from pipelines.core.store import Store
from pipelines.core.tokenizer_file import tokenizer_files
from pipelines.core.vocabulary import Vocabulary
from tests.model.layouts import LAYOUTS, section_of_layout, shaken
from tests.model.tiny import build, tiny_config

ROWS = [[0, 5, 6, 7, 2], [0, 9, 2], [0, 20, 21, 22, 23, 24, 2], [0, 50, 2, 51, 2], [0, 4, 2]]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    store = Store(str(tmp_path_factory.mktemp("export")))
    build(store, tiny_config())
    return RunInputs(store, "tiny").vocabulary


def trained_model(layout: str, rows: int) -> MaskedLanguageModel:
    """A model three steps away from its start, so that biases and norms are not at 0 and 1."""
    torch.manual_seed(3)
    sizes = {"hidden_size": 64, "heads": 4, "feed_forward_size": 128}
    model = MaskedLanguageModel(Encoder(section_of_layout(layout, **sizes), rows, 24))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens, masked = torch.tensor([[0, 5, 2, 6, 7, 2]]), torch.tensor([1, 3])
    segments, is_next = torch.tensor([[0, 0, 0, 1, 1, 1]]), torch.tensor([True])
    for _ in range(3):
        optimizer.zero_grad()
        model(tokens, masked, torch.tensor([9, 8]), None, segments, is_next).sum().backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def exported(layout: str, vocabulary: Vocabulary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder")
    model = trained_model(layout, vocabulary.rows)
    export_masked_model(folder, model, vocabulary, "card")
    assert verify_model(folder, model, ROWS) <= 1e-5
    return folder


PROGRAM = """
import json, sys, torch, transformers
config = json.load(open(sys.argv[1] + "/config.json"))
load = getattr(transformers, config["architectures"][0]).from_pretrained
model, info = load(sys.argv[1], output_loading_info=True)
with torch.no_grad():
    outputs = [model.eval()(torch.tensor([row]))[0][0] for row in json.loads(sys.argv[2])]
found = {name: sorted(map(str, names)) for name, names in info.items()}
print(json.dumps([found, [output.tolist() for output in outputs]]))
"""


def test_a_new_process_finds_the_same_logits_and_nothing_missing(
    layout: str, tmp_path: Path
) -> None:
    """Case C46: 1,002 rows, 64 wide, two layers, three steps, five rows of ids."""
    model = trained_model(layout, 1002)
    write_model(tmp_path, model)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(ROWS)],
        capture_output=True,
        text=True,
        check=True,
    )
    info, logits = json.loads(done.stdout.splitlines()[-1])

    assert not any(info.values()), info
    for row, theirs in zip(ROWS, logits, strict=True):
        with torch.no_grad():
            ours = model.eval().logits(torch.tensor([row]))[0]
        assert torch.allclose(ours, torch.tensor(theirs), atol=1e-5, rtol=0)
    parameters = sum(p.numel() for p in model.parameters())
    tensors = load_file(tmp_path / "model.safetensors")
    assert sum(tensor.numel() for tensor in tensors.values()) == parameters
    assert sum(tensor.shape[0] == 1002 and tensor.ndim == 2 for tensor in tensors.values()) == 1
    assert (tmp_path / "model.safetensors").stat().st_size < 1.2 * 4 * parameters


def test_weights_that_do_not_fit_are_found(layout: str, tmp_path: Path) -> None:
    model = trained_model(layout, 1002)
    write_model(tmp_path, model)
    tensors = load_file(tmp_path / "model.safetensors")
    name = next(
        name for name in tensors if name.endswith(("embeddings.LayerNorm.weight", "s.norm.weight"))
    )
    for wrong, said in (
        ({key: t for key, t in tensors.items() if key != name}, f"missing_keys.*{name}"),
        ({**tensors, "spare.weight": torch.ones(2)}, "unexpected_keys.*spare.weight"),
    ):
        save_file(wrong, tmp_path / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ExportMismatch, match=said):
            verify_model(tmp_path, model, ROWS)


def test_a_changed_pair_head_is_found(tmp_path: Path) -> None:
    model = trained_model("bert+next", 1002)
    write_model(tmp_path, model)
    assert model.next_sentence is not None
    with torch.no_grad():
        model.next_sentence.bias[1] += 0.01
    with pytest.raises(ExportMismatch, match="logits differ by 1.0"):
        verify_model(tmp_path, model, ROWS)


def test_a_changed_weight_is_found(layout: str, exported: Path, vocabulary: Vocabulary) -> None:
    model = trained_model(layout, vocabulary.rows)
    with torch.no_grad():
        model.bias[7] += 0.01

    with pytest.raises(ExportMismatch, match="logits differ by 1.0"):
        verify_model(exported, model, ROWS)


def test_the_tokenizer_s_files_are_those_of_the_vocabulary(
    layout: str, exported: Path, vocabulary: Vocabulary
) -> None:
    two_segments = layout.startswith("bert")
    for name, content in tokenizer_files(vocabulary, max_length=24).items():
        changed = two_segments and name != "special_tokens_map.json"
        assert ((exported / name).read_bytes() != content) is changed, name
    assert (exported / "sentencepiece.bpe.model").read_bytes() == vocabulary.model


def test_the_tokenizer_gives_the_vocabulary_s_ids(exported: Path, vocabulary: Vocabulary) -> None:
    lines = ["thing er", "kaanen", "wa ki", "", "  x  ", "wa </s> ki", "<s>wa<pad> <unk>"]
    assert verify_tokenizer(exported, vocabulary, lines) == 0
    assert verify_tokenizer(exported, vocabulary, [*lines, "wa <mask> ki", "<mask><mask>"]) == 2
    assert masks_read(vocabulary, "<mask> <mask") == 1


def test_a_pair_is_written_as_the_model_knows_pairs(
    layout: str, exported: Path, vocabulary: Vocabulary
) -> None:
    """With two segments as packing.mode = pairs writes them; else as XLM-R does."""
    first, second = (vocabulary.encode(text).tolist() for text in ("wa ki", "li"))
    got = dict(AutoTokenizer.from_pretrained(exported)("wa ki", "li"))
    if layout.startswith("bert"):
        assert got["input_ids"] == [0, *first, 2, *second, 2]
        segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        assert got["token_type_ids"] == segments
    else:
        assert got["input_ids"] == [0, *first, 2, 2, *second, 2]
        assert "token_type_ids" not in got


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


def test_the_fill_mask_pipeline_works_on_the_folder(
    layout: str, exported: Path, vocabulary: Vocabulary
) -> None:
    """What users type first."""
    found = pipeline("fill-mask", str(exported), top_k=3)("wa <mask>.")
    ours = fill_mask(exported, "wa <mask>.", top=3)
    assert [answer["score"] for answer in found] == pytest.approx([p for _, p, _ in ours])
    assert [answer["sequence"] for answer in found] == [text for _, _, text in ours]
    ids = [0, *vocabulary.encode("wa").tolist(), vocabulary.mask_id]
    model = trained_model(layout, vocabulary.rows).eval()
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


def test_a_classifier_keeps_its_labels_names(
    layout: str, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    torch.manual_seed(4)
    section = section_of_layout(layout)
    model = SequenceClassifier(Encoder(section, vocabulary.rows, 24), 3)
    shaken(model)
    labels = ["10", "9", "sports"]
    export_classifier(tmp_path, model, labels, vocabulary)

    assert verify_model(tmp_path, model, ROWS) <= 1e-5
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["id2label"] == {"0": "10", "1": "9", "2": "sports"}
    assert saved["label2id"] == {"10": 0, "9": 1, "sports": 2}
