"""Pack documents into sequences of fixed length and choose their masks.

Source: FULL-SENTENCES in Liu et al. 2019 (RoBERTa), section 4.2: contiguous text, `</s>` between
documents, `<s>` first and `</s>` last. One sequence never mixes languages.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.config import DataConfig
from pipelines.core.hashing import stable_fraction
from pipelines.core.manifest import FileRef, Output
from pipelines.core.masking import Ids, MaskingRule, UnigramSampler, choose_and_replace
from pipelines.core.records import PARAGRAPH_BREAK, sequence_schema
from pipelines.core.shards import Attempt, Step, Unit
from pipelines.core.store import Store
from pipelines.core.vocabulary import BOS_ID, EOS_ID, Vocabulary, check_ids, id_dtype

HELD_OUT_MASK_RATE = 0.15
"""Held-out text is always masked at this rate, so that losses of different runs compare."""


@dataclass(slots=True)
class PackedSequence:
    """One packed sequence. `tokens` holds <s> first, </s> last and </s> between documents."""

    id: str
    tokens: Ids
    document_starts: list[int]
    """Positions of the first token of each document (or of the piece of it that is here)."""
    document_ids: list[str]


def pack(documents: Iterable[tuple[str, Ids]], length: int) -> Iterator[PackedSequence]:
    """Cut a stream of documents into sequences of `length` tokens.

    Nothing is dropped or padded: ordinary tokens in = ordinary tokens out, and the last sequence
    may be shorter. A sequence never begins or ends with the separator of a document that lies
    wholly outside it.

    Args:
        documents: (document id, ids without special tokens, shape (tokens,)).
        length: tokens per sequence, <s> and </s> included, at least 3.

    Yields:
        Sequences whose id is the first document's id and the token it starts at.
    """
    room = length - 2
    body: list[Ids] = []
    starts: list[int] = []
    names: list[str] = []
    used, first = 0, ""
    separator = np.array([EOS_ID], dtype=np.uint32)

    def close() -> PackedSequence:
        nonlocal used
        ends = (np.array([BOS_ID], np.uint32), separator)
        sequence = PackedSequence(
            first, np.concatenate([ends[0], *body, ends[1]]), list(starts), list(names)
        )
        body.clear()
        starts.clear()
        names.clear()
        used = 0
        return sequence

    for name, ids in documents:
        taken = 0
        # A separator needs a token behind it, or it would only repeat the closing </s>.
        if used and len(ids):
            if room - used < 2:
                yield close()
            else:
                body.append(separator)
                used += 1
        while taken < len(ids):
            if not used:
                first = f"{name}:{taken}"
            piece = ids[taken : taken + room - used]
            starts.append(used + 1)
            names.append(name)
            body.append(piece)
            used += len(piece)
            taken += len(piece)
            if used == room:
                yield close()
    if used:
        yield close()


def is_held_out(document_id: str, share: float, seed: int) -> bool:
    """Whether a document is kept for evaluation: a function of its id alone."""
    return stable_fraction(seed, "held-out", document_id) < share


def split_held_out(ids: Sequence[str], share: float, seed: int) -> set[str]:
    """The ids of a file that are held out; never all of them."""
    held_out = {name for name in ids if is_held_out(name, share, seed)}
    return set() if len(held_out) == len(set(ids)) else held_out


def sequences_to_table(
    sequences: Sequence[PackedSequence],
    language: str,
    masks: Sequence[list[tuple[Any, Any]]],
    rows: int,
) -> pa.Table:
    """Lay sequences and their masks out in the sequence schema; masks[i] holds one pair a view.

    Raises:
        ValueError: an id is not below `rows`.
    """
    dtype = id_dtype(rows)
    for sequence in sequences:
        check_ids(sequence.tokens, rows, f"sequence {sequence.id}")
    schema = sequence_schema(pa.from_numpy_dtype(dtype))
    columns = {
        "sequence_id": [sequence.id for sequence in sequences],
        "language": [language] * len(sequences),
        "tokens": [sequence.tokens.astype(dtype) for sequence in sequences],
        "document_starts": [sequence.document_starts for sequence in sequences],
        "mask_positions": [[positions for positions, _ in views] for views in masks],
        "mask_tokens": [[ids.astype(dtype) for _, ids in views] for views in masks],
        "document_ids": [sequence.document_ids for sequence in sequences],
    }
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def load_vocabulary(store: Store, refs: Mapping[str, str]) -> tuple[Vocabulary, UnigramSampler]:
    """Read the model and the unigram counts of a vocabulary stage."""
    vocabulary = Vocabulary(store.read_bytes(refs["spm.model"]))
    counts = np.load(io.BytesIO(store.read_bytes(refs["unigram"])))
    return vocabulary, UnigramSampler(counts, vocabulary.special_ids)


def pack_file(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Tokenise, pack and mask one file of deduplicated documents of one language."""
    vocabulary, sampler = load_vocabulary(attempt.store, config["vocabulary"])
    seed, masking, language = config["seed"], config["masking"], config["languages"][unit.key]
    table = attempt.store.read_table(unit.inputs[0].path, columns=["id", "text"])
    names, texts = table["id"].to_pylist(), table["text"].to_pylist()
    encoded = [
        np.concatenate(vocabulary.encode_batch(text.split(PARAGRAPH_BREAK))) for text in texts
    ]
    held_out = split_held_out(names, config["held_out"][language], seed)
    rule = MaskingRule(
        masking["rate"],
        masking["mask_probability"],
        masking["random_probability"],
        vocabulary.mask_id,
        vocabulary.special_ids,
    )
    held_out_rule = MaskingRule(
        HELD_OUT_MASK_RATE,
        rule.mask_probability,
        rule.random_probability,
        rule.mask_id,
        rule.special_ids,
    )
    for part, prefix, views, use in (
        ("train", "", masking["views"], rule),
        ("held-out", "held_out_", 1, held_out_rule),
    ):
        chosen = [
            (name, ids)
            for name, ids in zip(names, encoded, strict=True)
            if (name in held_out) == (part == "held-out")
        ]
        sequences = list(pack(chosen, config["length"]))
        attempt.counters[f"{prefix}documents/{language}"] += len(chosen)
        attempt.counters[f"{prefix}empty_documents"] += sum(not len(ids) for _, ids in chosen)
        if not sequences:
            continue
        masks = [
            [choose_and_replace(s.tokens, use, sampler, seed, view, s.id) for view in range(views)]
            for s in sequences
        ]
        attempt.counters[f"{prefix}sequences/{language}"] += len(sequences)
        attempt.counters[f"{prefix}tokens/{language}"] += sum(len(ids) for _, ids in chosen)
        attempt.counters[f"{prefix}masked_tokens/{language}"] += sum(len(v[0][0]) for v in masks)
        attempt.write_table(
            f"{language}/{part}-{attempt.unit_id}",
            sequences_to_table(sequences, language, masks, vocabulary.rows),
            part=part,
            language=language,
        )


def pack_step(
    config: DataConfig,
    balance: Mapping[str, Any],
    vocabulary: Sequence[Output],
    unique: Sequence[Output],
) -> Step:
    """The packing stage under a configuration, a balance table and a vocabulary."""
    packing = config.packing
    documents = {row["language"]: row["documents"] for row in balance["rows"]}
    read = {
        "length": packing.length,
        "masking": config.masking.model_dump(mode="json"),
        "seed": config.run.seed,
        "vocabulary": {
            output.labels["part"]: output.path
            for output in vocabulary
            if output.labels["part"] in ("spm.model", "unigram")
        },
        "languages": {
            output.path: output.labels["language"]
            for output in unique
            if output.labels["language"] in documents
        },
        "held_out": {
            language: min(packing.held_out_share, packing.max_held_out_documents / count)
            for language, count in documents.items()
        },
    }
    return Step("pack", 1, f"runs/{config.run.name}/packed", read, pack_file, "file")


def pack_units(
    balance: Mapping[str, Any], vocabulary: Sequence[Output], unique: Sequence[Output]
) -> list[Unit]:
    """One unit for each file of a language that is in the balance."""
    languages = {row["language"] for row in balance["rows"]}
    shared: list[FileRef] = [
        output.ref for output in vocabulary if output.labels["part"] in ("spm.model", "unigram")
    ]
    return [
        Unit(output.path, (output.ref, *shared))
        for output in unique
        if output.labels["language"] in languages
    ]
