"""Weights of somewhere else: they arrive, and what does not fit is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    BertTokenizer,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from model.encoder import Encoder
from model.export import export_masked_model
from model.heads import MaskedLanguageModel
from model.plan import RunInputs, pretraining_job
from model.pretraining_job import PretrainingJob
from model.start.warm_start import starting_tensors
from pipelines.core.config import ConfigError
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import DamagedObject, Store
from tests.model.layouts import shaken
from tests.model.tiny import SYLLABLES, build, tiny_config, write_config

LENGTH = 24
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT = {"first_position": 0, "segments": 2, "norm_epsilon": 1e-12}
BERT_WORDS = sorted(
    {c for part in SYLLABLES.values() for word in part for c in word}
    | {f"##{c}" for part in SYLLABLES.values() for word in part for c in word}
    | {"th", "##ing", "wa", "##mbo", "kaa", "##nen", "."}
)


def job_of(store: Store, **sections: Mapping[str, Any]) -> PretrainingJob:
    """Build a run, and the job of its pretraining."""
    config = tiny_config(**sections)
    build(store, config)
    return pretraining_job(RunInputs(store, config.run.name))


def model_for(job: PretrainingJob) -> MaskedLanguageModel:
    torch.manual_seed(5)
    return MaskedLanguageModel(Encoder(job.encoder, job.rows, job.length)).eval()


def started(job: PretrainingJob, store: Store) -> tuple[MaskedLanguageModel, list[str]]:
    model = model_for(job)
    tensors, notes = starting_tensors(job, store, model)
    assert tensors.keys() == model.state_dict().keys()
    model.load_state_dict(tensors)
    return model, notes


def exported(store: Store, job: PretrainingJob, run: str, folder: Path) -> MaskedLanguageModel:
    """A model whose every weight has a value of its own, and its Hugging Face folder."""
    model = model_for(job)
    shaken(model)
    folder.mkdir()
    export_masked_model(folder, model, RunInputs(store, run).vocabulary, "card")
    return model


@pytest.mark.parametrize(
    ("kind", "encoder"),
    [
        ("unigram", {}),
        ("wordpiece", BERT),
        ("wordpiece", {**BERT, "next_sentence": True}),
        (
            "unigram",
            {
                "norm": "pre",
                "positions": "rotary",
                "feed_forward": "geglu",
                "biases": False,
                "segments": 0,
            },
        ),
    ],
    ids=["xlm-roberta", "bert", "bert+next", "modernbert"],
)
def test_an_export_comes_back(
    store: Store, tmp_path: Path, kind: str, encoder: dict[str, Any]
) -> None:
    packing = {"mode": "pairs" if encoder.get("next_sentence") else "stream"}
    sections: dict[str, Any] = {
        "vocabulary": {"kind": kind},
        "encoder": encoder,
        "packing": packing,
    }
    first = job_of(store, **sections)
    model = exported(store, first, "tiny", tmp_path / "export")
    start = {"start_from": str(tmp_path / "export")}
    second = job_of(
        store,
        **{
            **sections,
            "run": {"name": "second"},
            "vocabulary": {"kind": kind, **start},
            "pretraining": start,
        },
    )
    again, notes = started(second, store)

    tokens = torch.randint(4, first.rows - 1, (3, LENGTH))
    segments = torch.tensor([[0] * 10 + [1] * 14] * 3) if encoder.get("segments") else None
    torch.testing.assert_close(
        again.logits(tokens, segments), model.logits(tokens, segments), atol=1e-5, rtol=0
    )
    assert notes == []
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def bert_model_folder(folder: Path, kind: type[Any], **settings: Any) -> Any:
    """A random model of transformers with vocab.txt beside it, as Google's are."""
    vocab = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *BERT_WORDS]
    config = BertConfig(
        vocab_size=len(vocab) + 3,  # rows that belong to no piece, as padded tables have
        intermediate_size=64,
        max_position_embeddings=40,
        **{**SMALL, **settings},
    )
    torch.manual_seed(4)
    model = kind(config).eval()
    shaken(model)
    model.tie_weights()
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n", encoding="utf-8")
    told = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    return model


def bert_job(store: Store, folder: Path, **encoder: Any) -> PretrainingJob:
    start = {"start_from": str(folder)}
    return job_of(
        store,
        vocabulary={"kind": "wordpiece", **start},
        packing={"mode": "pairs"},
        encoder={**BERT, **encoder},
        pretraining=start,
    )


@pytest.mark.parametrize("kind", [BertForMaskedLM, BertForPreTraining])
def test_a_bert_of_transformers_gives_the_same_logits_on_the_same_text(
    store: Store, tmp_path: Path, kind: type[Any]
) -> None:
    folder = tmp_path / "bert"
    theirs = bert_model_folder(folder, kind)
    pairs = kind is BertForPreTraining
    job = bert_job(store, folder, next_sentence=pairs)
    ours, notes = started(job, store)
    vocabulary = RunInputs(store, "tiny").vocabulary
    texts = ("Thinger wambo kaanen.", "othe Wa")
    given = BertTokenizer.from_pretrained(folder)(*texts, return_tensors="pt")
    one, two = (vocabulary.encode(text).tolist() for text in texts)
    tokens = torch.tensor([[0, *one, 2, *two, 2]])
    segments = torch.tensor([[0] * (len(one) + 2) + [1] * (len(two) + 1)])

    assert given["input_ids"].shape == tokens.shape
    with torch.no_grad():
        expected, found = theirs(**given), ours.logits(tokens, segments)
    logits = expected.prediction_logits if pairs else expected.logits
    rows = {piece: i for i, piece in enumerate((folder / "vocab.txt").read_text().split("\n"))}
    order = [rows[vocabulary.token(i)] for i in range(vocabulary.rows)]
    torch.testing.assert_close(found, logits[:, :, order], atol=1e-5, rtol=0)
    if pairs:
        hidden = ours.encoder(tokens, segments=segments)
        torch.testing.assert_close(
            ours.pair_logits(hidden), expected.seq_relationship_logits, atol=1e-5, rtol=0
        )
    assert any("3 rows of" in note and "belong to no piece" in note for note in notes)
    assert any("of 40 learnt positions the first 24 are kept" in note for note in notes)


def test_a_bare_encoder_starts_with_new_heads_and_says_so(store: Store, tmp_path: Path) -> None:
    bert_model_folder(tmp_path / "bert", BertModel)
    job = bert_job(store, tmp_path / "bert", next_sentence=True)
    model, notes = started(job, store)

    fresh = model_for(job).state_dict()
    for name in ("dense.weight", "norm.weight", "bias", "next_sentence.weight"):
        assert torch.equal(model.state_dict()[name], fresh[name])
    assert not torch.equal(model.state_dict()["pooler.weight"], fresh["pooler.weight"])
    [note] = [note for note in notes if note.startswith("new, as the weights to start from lack")]
    assert "dense.weight" in note and "next_sentence.bias" in note and "pooler" not in note


def xlmr_job(store: Store, folder: Path) -> PretrainingJob:
    """The job of the run that is there, started from a folder."""
    write_config(store, tiny_config(pretraining={"start_from": str(folder)}))
    return pretraining_job(RunInputs(store, "tiny"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path, MaskedLanguageModel]:
    """A run, and an export of a model of its size."""
    store = Store(str(tmp_path_factory.mktemp("built")))
    job = job_of(store)
    folder = tmp_path_factory.mktemp("folder") / "export"
    return store, folder, exported(store, job, "tiny", folder)


@pytest.fixture
def copy(
    built: tuple[Store, Path, MaskedLanguageModel], tmp_path: Path
) -> tuple[Store, Path, MaskedLanguageModel]:
    """The same with a folder that may be changed."""
    store, folder, model = built
    (tmp_path / "copy").mkdir()
    for path in folder.iterdir():
        (tmp_path / "copy" / path.name).write_bytes(path.read_bytes())
    return store, tmp_path / "copy", model


def split(folder: Path, binary: bool) -> None:
    """Write the weights in two parts with an index, as large models are."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    name = "pytorch_model.bin" if binary else "model.safetensors"
    places = {}
    for part, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        file = f"part-{part}.{'bin' if binary else 'safetensors'}"
        content = {n: tensors[n] for n in names}
        if binary:
            torch.save(content, folder / file)
        else:
            save_file(content, folder / file)
        places |= dict.fromkeys(names, file)
    (folder / f"{name}.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.mark.parametrize("binary", [False, True], ids=["safetensors", "bin"])
def test_weights_in_parts(copy: tuple[Store, Path, MaskedLanguageModel], binary: bool) -> None:
    store, folder, model = copy
    split(folder, binary)
    job = xlmr_job(store, folder)
    assert job.start is not None and len(job.start.weights) == 2
    again, _ = started(job, store)
    assert all(torch.equal(t, again.state_dict()[n]) for n, t in model.state_dict().items())


def test_half_precision_becomes_float32(copy: tuple[Store, Path, MaskedLanguageModel]) -> None:
    store, folder, model = copy
    path = folder / "model.safetensors"
    save_file({n: t.half() for n, t in load_file(path).items()}, path)
    again, _ = started(xlmr_job(store, folder), store)
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor.half().float())


def with_config(**settings: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_config(num_hidden_layers=3), r"encoder\.layers = 2: set encoder\.layers = 3$"),
        (
            with_config(hidden_size=64, num_attention_heads=4),
            r"encoder\.hidden_size = 32, encoder\.heads = 2: set .*hidden_size = 64, .*heads = 4$",
        ),
        (
            with_config(
                num_hidden_layers=24,
                hidden_size=1024,
                num_attention_heads=16,
                intermediate_size=4096,
            ),
            r"set encoder\.preset = 'xlmr-large' \(which sets encoder\.layers = 24, ",
        ),
        (
            with_config(layer_norm_eps=1e-12),
            r"norm_epsilon = 1e-05: set .*norm_epsilon = 1e-12",
        ),
        (
            with_config(max_position_embeddings=18),
            r"positions for 16 tokens, .*length = 16 or",
        ),
        (with_config(hidden_act="relu"), r"config\.json: hidden_act = 'relu'"),
        (with_config(model_type="camembert"), r"model_type = 'camembert': the encoders known are"),
        (with_config(tie_word_embeddings=False), r"tie_word_embeddings = false; this model reads"),
        (
            with_config(vocab_size=100),
            r"vocab_size = 100, and the tokenizer beside it ids up",
        ),
        (
            lambda folder: (folder / "config.json").unlink(),
            r"no config\.json there\. Need a Hug",
        ),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            r"no weights there; need model",
        ),
        (
            lambda folder: (
                [p.unlink() for p in folder.glob("*token*")]
                + [(folder / "sentencepiece.bpe.model").unlink()]
            ),
            r"none of sentencepiece\.bpe\.model, .* nobody knows which row is whose",
        ),
    ],
)
def test_folders_that_do_not_fit_are_refused_in_the_driver(
    copy: tuple[Store, Path, MaskedLanguageModel], change: Callable[[Path], None], message: str
) -> None:
    store, folder, _ = copy
    change(folder)
    with pytest.raises(ConfigError, match=message) as error:
        xlmr_job(store, folder)
    assert str(error.value).startswith(f"pretraining.start_from = {str(folder)!r}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", r"start_from = 'absent': stage 'pretrain' of run 'absent' has not finished"),
        ("second", r"start_from = 'second': stage 'pretrain' of run 'second' has not finished"),
        ("absent@4", r"start_from = 'absent@4': no run 'absent' in .*; there are: .*tiny"),
        ("tiny@4", r"start_from = 'tiny@4': run 'tiny' in .* has no whole checkpoint"),
        ("tiny", r"start_from = 'tiny' is this run: name another"),
        ("/no/such/folder", r"no config\.json there"),
    ],
)
def test_c44_a_name_that_is_not_there_is_never_a_fresh_start(
    built: tuple[Store, Path, MaskedLanguageModel], name: str, message: str
) -> None:
    store, _, _ = built
    write_config(store, tiny_config(run={"name": "second"}))
    write_config(store, tiny_config(pretraining={"start_from": name}))
    with pytest.raises(ConfigError, match=message):
        pretraining_job(RunInputs(store, "tiny"))


def write_model(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    attempt.write_file("unit/model.safetensors", Path(unit.arguments["path"]), part="model")


def test_a_finished_run_with_another_vocabulary(
    built: tuple[Store, Path, MaskedLanguageModel], tmp_path: Path
) -> None:
    store, _, model = built
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    step = Step("pretrain", 1, "runs/tiny/pretrained", {}, write_model)
    unit = Unit("pretrain", (), {"path": str(tmp_path / "model.safetensors")})
    run_step(step, [unit], store, "tiny", inline=True, quiet=True)
    grown = {"start_from": "tiny", "add_pieces": 20}
    job = job_of(store, run={"name": "grown"}, vocabulary=grown, pretraining={"start_from": "tiny"})
    again, notes = started(job, store)

    assert job.rows == 242
    old, new = model.state_dict(), again.state_dict()
    for name in old.keys() - {"encoder.words.weight", "bias"}:
        assert torch.equal(old[name], new[name])
    for name in ("encoder.words.weight", "bias"):
        assert torch.equal(old[name][:-1], new[name][:221])
        assert torch.equal(old[name][-1], new[name][-1])  # <mask>
    ours, theirs = RunInputs(store, "grown").vocabulary, RunInputs(store, "tiny").vocabulary
    whole = next(i for i in range(221, 241) if ours.token(i).startswith("▁"))
    parts = theirs.encode(ours.token(whole).removeprefix("▁")).tolist()
    expected = old["encoder.words.weight"][parts].mean(dim=0)
    torch.testing.assert_close(new["encoder.words.weight"][whole], expected)
    assert len(parts) > 1
    assert notes == [
        "word embeddings: 222 of 242 rows are copied (1 had another id), 20 are the mean of the "
        "old pieces that spell them"
    ]
    # A wrong kind of vocabulary has no rows in common with it.
    with pytest.raises(ConfigError, match=r"has a unigram vocabulary, and this run a wordp"):
        job_of(
            store,
            run={"name": "other"},
            vocabulary={"kind": "wordpiece"},
            pretraining={"start_from": "tiny"},
        )
    [file] = store.keys("runs/tiny/pretrained/unit")
    content = bytearray(store.read_bytes(file))
    content[-1] ^= 1
    store.publish_bytes(file, bytes(content))
    with pytest.raises(DamagedObject, match=r"model\.safetensors is damaged"):
        started(job, store)


def change_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


LAYER = "roberta.encoder.layer.1.output.dense.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(LAYER), r"the weights lack encoder\.layers\.1\.contract\.weight"),
        (
            lambda t: t.update({LAYER.replace("layer.1", "layer.7"): t[LAYER].clone()}),
            r"have more than this encoder: encoder\.layers\.7\.contract\.weight",
        ),
        (lambda t: t.update({LAYER: t[LAYER][:5].clone()}), r"shape \(5, 64\), and \(32, 64\)"),
        (lambda t: t.update({LAYER: t[LAYER] * float("nan")}), r"contract\.weight holds numbers"),
        (
            lambda t: t.update({"lm_head.decoder.weight": torch.zeros(222, 32)}),
            r"lm_head\.decoder\.weight differs from what it is tied to",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_named(
    copy: tuple[Store, Path, MaskedLanguageModel],
    change: Callable[[dict[str, torch.Tensor]], None],
    message: str,
) -> None:
    store, folder, _ = copy
    change_tensors(folder, change)
    job = xlmr_job(store, folder)
    with pytest.raises(ConfigError, match=message):
        started(job, store)


def test_what_has_no_place_is_left_behind_and_named(
    copy: tuple[Store, Path, MaskedLanguageModel],
) -> None:
    store, folder, _ = copy
    pooler = {"roberta.pooler.dense.weight": torch.zeros(32, 32)}
    buffer = {"roberta.embeddings.position_ids": torch.arange(26)}
    change_tensors(folder, lambda tensors: tensors.update({**pooler, **buffer}))
    _, notes = started(xlmr_job(store, folder), store)
    assert notes == ["left behind, as this model has no such part: roberta.pooler.dense.weight"]


@pytest.mark.parametrize("name", ["model.safetensors", "sentencepiece.bpe.model"])
def test_files_that_changed_after_the_plan_are_refused(
    copy: tuple[Store, Path, MaskedLanguageModel], name: str
) -> None:
    store, folder, _ = copy
    job = xlmr_job(store, folder)
    (folder / name).write_bytes((folder / name).read_bytes() + b"x")
    with pytest.raises(ConfigError, match=rf"{name} is not what it was when the run was planned"):
        started(job, store)


def test_a_bin_file_is_read_as_data_only(copy: tuple[Store, Path, MaskedLanguageModel]) -> None:
    store, folder, _ = copy
    (folder / "model.safetensors").unlink()
    torch.save({"x": print}, folder / "pytorch_model.bin")
    job = xlmr_job(store, folder)
    with pytest.raises(ConfigError, match=r"pytorch_model\.bin is .* holds other things"):
        started(job, store)


def test_an_xlmr_without_a_head(store: Store, tmp_path: Path) -> None:
    first = job_of(store)
    folder = tmp_path / "export"
    exported(store, first, "tiny", folder)
    config = XLMRobertaConfig.from_pretrained(folder)
    torch.manual_seed(3)
    bare = XLMRobertaModel(config).eval()
    bare.save_pretrained(folder)
    model, notes = started(xlmr_job(store, folder), store)
    tokens = torch.randint(4, first.rows - 1, (2, LENGTH))
    with torch.no_grad():
        expected = bare(tokens).last_hidden_state
        torch.testing.assert_close(model.encoder(tokens), expected, atol=1e-5, rtol=0)
    assert any(note.startswith("new, as the weights to start from lack them: ") for note in notes)
