"""Export to the Hugging Face format (model type `xlm-roberta`), proven on every export.

The layout is RoBERTa's, so export is a renaming; the vocabulary matrix is stored once, the tie to
the decoder declared in config.json. Before a folder counts, transformers loads it again and its
logits and ids are compared with ours. The tokenizer's files are those of
pipelines/core/tokenizer_file.py; the layout is the same whatever kind the vocabulary is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    XLMRobertaConfig,
)
from transformers.utils.logging import disable_progress_bar

from model.config import EncoderSection
from model.encoder import FIRST_POSITION, LAYER_NORM_EPSILON
from model.heads import MaskedLanguageModel, SequenceClassifier
from pipelines.core.tokenizer_file import tokenizer_files
from pipelines.core.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary

MAX_LOGIT_DIFFERENCE = 1e-5
Tensors = dict[str, torch.Tensor]
AnyVocabulary = Vocabulary | WordPieceVocabulary
LITERAL_NAMES = (
    "a </s> b<s>c <pad> <unk>, </s>",
    "</s>",
    "[CLS] a [SEP] b[PAD]c [UNK]",
)
"""Text that holds names of special tokens; none of them may become the token."""

ENCODER_NAMES = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "token_type": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
}
LAYER_NAMES = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "output_norm": "output.LayerNorm",
}
MASKED_HEAD_NAMES = {"dense": "lm_head.dense", "norm": "lm_head.layer_norm"}
CLASSIFIER_NAMES = {"dense": "classifier.dense", "output": "classifier.out_proj"}


class ExportMismatch(RuntimeError):
    """What transformers loads is not the model that was exported."""


def hugging_face_name(name: str, head: Mapping[str, str]) -> str:
    """The name of one of our tensors in transformers.

    Raises:
        KeyError: the tensor is none of this model's.
    """
    if name == "bias":
        return "lm_head.bias"
    module, _, kind = name.rpartition(".")
    layer = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)", module)
    if layer:
        return f"roberta.encoder.layer.{layer[1]}.{LAYER_NAMES[layer[2]]}.{kind}"
    if module.startswith("encoder."):
        return f"roberta.{ENCODER_NAMES[module.removeprefix('encoder.')]}.{kind}"
    return f"{head[module]}.{kind}"


def renamed(tensors: Mapping[str, torch.Tensor], head: Mapping[str, str]) -> Tensors:
    """Our tensors under the names transformers gives them; the vocabulary matrix occurs once.

    Raises:
        ExportMismatch: there is a decoder matrix of its own, which the tied format would drop.
    """
    if "decoder.weight" in tensors:
        tied = torch.equal(tensors["decoder.weight"], tensors["encoder.words.weight"])
        if not tied:
            raise ExportMismatch(
                "decoder.weight differs from encoder.words.weight: the exported format ties them, "
                "so the decoder would be lost"
            )
        tensors = {name: t for name, t in tensors.items() if name != "decoder.weight"}
    return {hugging_face_name(name, head): t.contiguous() for name, t in tensors.items()}


def config_of(encoder: EncoderSection, rows: int, length: int, **more: Any) -> XLMRobertaConfig:
    """The configuration transformers needs; the position table has `length` + 2 rows."""
    return XLMRobertaConfig(
        vocab_size=rows,
        hidden_size=encoder.hidden_size,
        num_hidden_layers=encoder.layers,
        num_attention_heads=encoder.heads,
        intermediate_size=encoder.feed_forward_size,
        hidden_act="gelu",
        hidden_dropout_prob=encoder.dropout,
        attention_probs_dropout_prob=encoder.dropout,
        max_position_embeddings=length + FIRST_POSITION,
        type_vocab_size=1,
        initializer_range=encoder.initializer_std,
        layer_norm_eps=LAYER_NORM_EPSILON,
        bos_token_id=BOS_ID,
        pad_token_id=PAD_ID,
        eos_token_id=EOS_ID,
        tie_word_embeddings=True,
        **more,
    )


def write_tokenizer(folder: Path, vocabulary: AnyVocabulary, length: int) -> None:
    """Write what AutoTokenizer reads, and the SentencePiece model where there is one."""
    for name, content in tokenizer_files(vocabulary, length).items():
        (folder / name).write_bytes(content)
    if isinstance(vocabulary, Vocabulary):
        (folder / "sentencepiece.bpe.model").write_bytes(vocabulary.model)


def export_masked_model(
    folder: Path, model: MaskedLanguageModel, vocabulary: AnyVocabulary, card: str
) -> None:
    """Write the whole folder of a pretrained model.

    `verify_model` and `verify_tokenizer` prove it.
    """
    encoder = model.encoder
    config = config_of(
        encoder.section, encoder.rows, encoder.length, architectures=["XLMRobertaForMaskedLM"]
    )
    config.save_pretrained(folder)
    tensors = renamed(model.state_dict(), MASKED_HEAD_NAMES)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(folder, vocabulary, encoder.length)
    (folder / "README.md").write_text(card, encoding="utf-8")


def export_classifier(
    folder: Path,
    model: SequenceClassifier,
    labels: Sequence[str],
    vocabulary: AnyVocabulary,
) -> None:
    """Write the whole folder of a classifier, with the labels' own names in config.json."""
    encoder = model.encoder
    config = config_of(
        encoder.section,
        encoder.rows,
        encoder.length,
        architectures=["XLMRobertaForSequenceClassification"],
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
        problem_type="single_label_classification",
    )
    config.save_pretrained(folder)
    tensors = renamed(model.state_dict(), CLASSIFIER_NAMES)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(folder, vocabulary, encoder.length)


def verify_model(
    folder: Path, model: MaskedLanguageModel | SequenceClassifier, rows: Sequence[Sequence[int]]
) -> float:
    """Load the folder in transformers and compare logits on real rows of ids.

    Returns:
        The largest difference.

    Raises:
        ExportMismatch: weights are missing, left over or newly made, or logits differ.
    """
    masked = isinstance(model, MaskedLanguageModel)
    kind = AutoModelForMaskedLM if masked else AutoModelForSequenceClassification
    disable_progress_bar()
    loaded, info = kind.from_pretrained(folder, output_loading_info=True, local_files_only=True)
    wrong = {name: sorted(map(str, found)) for name, found in info.items() if found}
    if wrong:
        raise ExportMismatch(f"{folder.name}: transformers reports {wrong}")
    longest = max(len(row) for row in rows)
    tokens = torch.full((len(rows), longest), PAD_ID)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = torch.tensor(row)
    model.eval()
    loaded.eval()
    with torch.no_grad():
        own = model.logits(tokens) if isinstance(model, MaskedLanguageModel) else model(tokens)
        theirs = loaded(input_ids=tokens, attention_mask=(tokens != PAD_ID).long()).logits
    difference = (own - theirs).abs()
    if masked:
        difference = difference[tokens != PAD_ID]
    largest = float(difference.max())
    if not largest <= MAX_LOGIT_DIFFERENCE:
        raise ExportMismatch(
            f"{folder.name}: logits differ by {largest:.2e}, allowed {MAX_LOGIT_DIFFERENCE:.0e}"
        )
    return largest


def verify_tokenizer(folder: Path, vocabulary: AnyVocabulary, lines: Sequence[str]) -> int:
    """Compare ids of AutoTokenizer with the vocabulary's own, on lines and on LITERAL_NAMES.

    A line that holds the name of the mask is the one exception: there AutoTokenizer reads a mask.
    Such a line must give one mask for each name and no other special id.

    Returns:
        How many lines were such exceptions.

    Raises:
        ExportMismatch: a line gets other ids; it is quoted.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    mask = vocabulary.token(vocabulary.mask_id)
    if (tokenizer.mask_token, tokenizer.mask_token_id) != (mask, vocabulary.mask_id):
        raise ExportMismatch(
            f"{folder.name}: the mask is {tokenizer.mask_token!r} with id "
            f"{tokenizer.mask_token_id}, not {mask!r} with id {vocabulary.mask_id}"
        )
    compared = [*lines, *LITERAL_NAMES, f"a {mask}.", mask]
    for line, own in zip(compared, vocabulary.encode_batch(compared), strict=True):
        got = tokenizer(line, verbose=False)["input_ids"]
        wanted = [BOS_ID, *own.tolist(), EOS_ID]
        masks = masks_read(vocabulary, line)
        if masks:
            right = got.count(vocabulary.mask_id) == masks
            right = right and not {BOS_ID, PAD_ID, EOS_ID} & set(got[1:-1])
        else:
            right = got == wanted
        if not right:
            raise ExportMismatch(
                f"{folder.name}: ids of {line[:80]!r} are {got[:20]}, wanted "
                + (f"{masks} mask(s), id {vocabulary.mask_id}" if masks else str(wanted[:20]))
            )
    return sum(masks_read(vocabulary, line) > 0 for line in lines)


def masks_read(vocabulary: AnyVocabulary, line: str) -> int:
    """How many masks an exported tokenizer reads in a line: it looks after normalisation."""
    name = vocabulary.normalize(vocabulary.token(vocabulary.mask_id))
    return vocabulary.normalize(line).count(name)


def fill_mask(folder: Path, text: str, top: int = 5) -> list[tuple[str, float, str]]:
    """Predict the mask (`<mask>`, or `[MASK]` of a WordPiece vocabulary) of a text.

    Returns:
        The `top` most probable tokens: (token, probability, the text with it put in).

    Raises:
        ValueError: the text has no mask, several, or is too long for the model.
    """
    disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    tokens = tokenizer(text, return_tensors="pt", verbose=False)["input_ids"]
    places = torch.nonzero(tokens[0] == tokenizer.mask_token_id).flatten().tolist()
    if len(places) != 1:
        raise ValueError(f"write one {tokenizer.mask_token} into the text; it has {len(places)}")
    model = AutoModelForMaskedLM.from_pretrained(folder, local_files_only=True).eval()
    length = model.config.max_position_embeddings - FIRST_POSITION
    if tokens.shape[1] > length:
        raise ValueError(f"the text has {tokens.shape[1]} tokens; the model reads {length}")
    [place] = places
    with torch.no_grad():
        probabilities = model(input_ids=tokens).logits[0, place].softmax(dim=0)
    best = probabilities.topk(min(top, len(probabilities)))
    answers = []
    for probability, token_id in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        filled = tokens[0].clone()
        filled[place] = token_id
        sentence = tokenizer.decode(filled, skip_special_tokens=True)
        answers.append((tokenizer.convert_ids_to_tokens(token_id), probability, sentence))
    return answers
