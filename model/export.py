"""Export to the Hugging Face format, proven on every export.

The layouts are those of transformers (`xlm-roberta`, `bert`, `modernbert`), so export is a
renaming; the vocabulary matrix is stored once, the tie to the decoder declared in config.json.
Before a folder counts, transformers loads it again and its logits and ids are compared with ours.
The tokenizer's files are those of pipelines/core/tokenizer_file.py, whatever the layout.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, processors
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils.logging import disable_progress_bar

from model.heads import MaskedLanguageModel, SequenceClassifier
from model.hugging_face.configs import CLASSIFIER_CLASSES, config_of, longest_input, masked_class
from model.hugging_face.folder import read_model, read_tokenizer
from model.hugging_face.names import Head, to_hugging_face
from pipelines.core.config import ConfigError
from pipelines.core.tokenizer_file import tokenizer_files
from pipelines.core.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary, without_surrogates
from pipelines.core.wordpiece import WordPieceVocabulary

MAX_LOGIT_DIFFERENCE = 1e-5
AnyVocabulary = Vocabulary | WordPieceVocabulary
LITERAL_NAMES = (
    "a </s> b<s>c <pad> <unk>, </s>",
    "</s>",
    "[CLS] a [SEP] b[PAD]c [UNK]",
)
"""Text that holds names of special tokens; none of them may become the token."""


class ExportMismatch(RuntimeError):
    """What transformers loads is not the model that was exported."""


def write_tokenizer(
    folder: Path, vocabulary: AnyVocabulary, length: int, segments: int = 1
) -> None:
    """Write what AutoTokenizer reads, and the SentencePiece model where there is one.

    Args:
        segments: of the encoder. With two, a pair is written as it was trained on: one </s> between
            its parts, and the second is of segment 1.
    """
    files = tokenizer_files(vocabulary, length)
    if segments > 1:
        tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode("utf-8"))
        bos, eos = vocabulary.token(BOS_ID), vocabulary.token(EOS_ID)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A {eos}",
            pair=f"{bos}:0 $A:0 {eos}:0 $B:1 {eos}:1",
            special_tokens=[(bos, BOS_ID), (eos, EOS_ID)],
        )
        settings = json.loads(files["tokenizer_config.json"])
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
        files["tokenizer.json"] = tokenizer.to_str(pretty=False).encode("utf-8")
        files["tokenizer_config.json"] = json.dumps(settings, indent=1, ensure_ascii=False).encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if isinstance(vocabulary, Vocabulary):
        (folder / "sentencepiece.bpe.model").write_bytes(vocabulary.model)


def write_model(
    folder: Path, model: MaskedLanguageModel | SequenceClassifier, labels: Sequence[str] = ()
) -> None:
    """Write config.json and model.safetensors, as `verify_model` reads them.

    Args:
        labels: of a classifier; their own names go into config.json.
    """
    encoder = model.encoder
    section = encoder.section
    head: Head = "masked" if isinstance(model, MaskedLanguageModel) else "classifier"
    if head == "masked":
        names: dict[str, Any] = {"architectures": [masked_class(section)]}
    else:
        names = {
            "architectures": [CLASSIFIER_CLASSES[section.layout]],
            "id2label": dict(enumerate(labels)),
            "label2id": {label: i for i, label in enumerate(labels)},
            "problem_type": "single_label_classification",
        }
    config_of(section, encoder.rows, encoder.length, **names).save_pretrained(folder)
    tensors = to_hugging_face(model.state_dict(), section.layout, head)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def export_masked_model(
    folder: Path, model: MaskedLanguageModel, vocabulary: AnyVocabulary, card: str
) -> None:
    """Write the whole folder of a pretrained model.

    `verify_model` and `verify_tokenizer` prove it.
    """
    write_model(folder, model)
    write_tokenizer(folder, vocabulary, model.encoder.length, model.encoder.section.segments)
    (folder / "README.md").write_text(card, encoding="utf-8")


def export_classifier(
    folder: Path,
    model: SequenceClassifier,
    labels: Sequence[str],
    vocabulary: AnyVocabulary,
) -> None:
    """Write the whole folder of a classifier, with the labels' own names in config.json."""
    write_model(folder, model, labels)
    write_tokenizer(folder, vocabulary, model.encoder.length, model.encoder.section.segments)


def verify_model(
    folder: Path, model: MaskedLanguageModel | SequenceClassifier, rows: Sequence[Sequence[int]]
) -> float:
    """Load the folder in transformers and compare logits on real rows of ids.

    Where the encoder knows two segments, what follows the first </s> of a row is the second one,
    and the logits of the next-sentence head are compared too.

    Returns:
        The largest difference.

    Raises:
        ExportMismatch: weights are missing, left over or newly made, or logits differ.
    """
    tokens = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD_ID
    )
    ends = (tokens == EOS_ID).long()
    segments = ((ends.cumsum(dim=1) - ends) > 0).long()
    kind = AutoModelForSequenceClassification
    if isinstance(model, MaskedLanguageModel):
        pairs = model.next_sentence is not None
        kind = AutoModelForPreTraining if pairs else AutoModelForMaskedLM
    disable_progress_bar()
    loaded, info = kind.from_pretrained(folder, output_loading_info=True, local_files_only=True)
    wrong = {name: sorted(map(str, found)) for name, found in info.items() if found}
    if wrong:
        raise ExportMismatch(f"{folder.name}: transformers reports {wrong}")
    inputs = {"input_ids": tokens, "attention_mask": (tokens != PAD_ID).long()}
    if model.encoder.section.segments > 1:
        inputs["token_type_ids"] = segments
    model.eval()
    loaded.eval()
    with torch.no_grad():
        theirs = list(loaded(**inputs).values())
        own = own_logits(model, tokens, segments)
    real = tokens != PAD_ID
    differences = [
        (mine - other)[real] if mine.ndim == 3 else mine - other
        for mine, other in zip(own, theirs, strict=True)
    ]
    largest = max(float(difference.abs().max()) for difference in differences)
    if not largest <= MAX_LOGIT_DIFFERENCE:
        raise ExportMismatch(
            f"{folder.name}: logits differ by {largest:.2e}, allowed {MAX_LOGIT_DIFFERENCE:.0e}"
        )
    return largest


def own_logits(
    model: MaskedLanguageModel | SequenceClassifier, tokens: torch.Tensor, segments: torch.Tensor
) -> list[torch.Tensor]:
    """All logits of a model, in the order in which transformers gives them."""
    if isinstance(model, SequenceClassifier):
        return [model(tokens, segments)]
    logits = [model.logits(tokens, segments)]
    if model.next_sentence is not None:
        logits.append(model.pair_logits(model.encoder(tokens, segments=segments)))
    return logits


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

    The tokenizer looks for the mask after normalisation, so fullwidth `＜mask＞` is one too. A lone
    surrogate is read as U+FFFD.

    Returns:
        The `top` most probable tokens: (token, probability, the text with it put in). Rows of the
        model that no token has are left out.

    Raises:
        ConfigError: the folder is damaged, or has no head that guesses words.
        ValueError: the text has no mask, several, or is too long for the model.
    """
    model = read_model(folder, AutoModelForMaskedLM)
    tokenizer = read_tokenizer(folder, int(model.config.vocab_size))
    if tokenizer.mask_token_id is None:
        raise ConfigError(f"{folder}: the tokenizer has no mask")
    tokens = tokenizer(without_surrogates(text), return_tensors="pt", verbose=False)["input_ids"]
    places = torch.nonzero(tokens[0] == tokenizer.mask_token_id).flatten().tolist()
    if len(places) != 1:
        raise ValueError(f"write one {tokenizer.mask_token} into the text; it has {len(places)}")
    length = longest_input(model.config)
    if tokens.shape[1] > length:
        raise ValueError(f"the text has {tokens.shape[1]} tokens; the model reads {length}")
    [place] = places
    with torch.no_grad():
        probabilities = model(input_ids=tokens).logits[0, place].softmax(dim=0)
    if not bool(probabilities.isfinite().all()):
        raise ConfigError(f"{folder}: the logits are not finite; the weights are damaged")
    known = torch.tensor(sorted(set(tokenizer.get_vocab().values())))
    best = probabilities[known].topk(min(top, len(known)))
    answers = []
    for probability, token_id in zip(
        best.values.tolist(), known[best.indices].tolist(), strict=True
    ):
        filled = tokens[0].clone()
        filled[place] = token_id
        sentence = tokenizer.decode(filled, skip_special_tokens=True)
        answers.append((tokenizer.convert_ids_to_tokens(token_id), probability, sentence))
    return answers
