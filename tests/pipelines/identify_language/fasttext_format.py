"""Writes a fastText classifier file, format version 12, with weights that can be added up by hand.

Every word has the unit vector of its label, the end of the line (which fastText counts as a word)
has zeros, the output matrix is SCALE times the identity. So a line's hidden vector is, for each
label, its words / (all words + 1), and the probabilities are softmax(SCALE * hidden).
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.config import LanguageIdentificationSection

SCALE = 6.0


def write_model(path: Path, words: Mapping[str, Sequence[str]]) -> str:
    """Write a model of these words by label; returns its SHA-256."""
    labels = list(words)
    vocabulary = [("</s>", -1)] + [
        (word, i) for i, label in enumerate(labels) for word in words[label]
    ]
    size, rows = len(labels), len(vocabulary)
    out = struct.pack("<ii", 793712314, 12)
    # dim ws epoch minCount neg wordNgrams loss=softmax model=supervised bucket minn maxn lrUpdate t
    out += struct.pack("<12id", size, 5, 5, 1, 5, 1, 3, 3, 0, 0, 0, 100, 1e-4)
    out += struct.pack("<iiiqq", rows + size, rows, size, rows, -1)
    for word, _ in vocabulary:
        out += word.encode() + b"\0" + struct.pack("<qb", 9, 0)
    for i, label in enumerate(labels):
        out += f"__label__{label}".encode() + b"\0" + struct.pack("<qb", 9 * size - i, 1)
    out += struct.pack("<?qq", False, rows, size)
    for _, label_number in vocabulary:
        out += struct.pack(f"<{size}f", *(float(i == label_number) for i in range(size)))
    out += struct.pack("<?qq", False, size, size)
    for row in range(size):
        out += struct.pack(f"<{size}f", *(SCALE * (i == row) for i in range(size)))
    path.write_bytes(out)
    return hashlib.sha256(out).hexdigest()


def probabilities(*words: int, labels: int) -> list[float]:
    """What the model gives for labels with so many of a line's words each; the rest have none."""
    hidden = [count / (sum(words) + 1) for count in (*words, *[0] * (labels - len(words)))]
    weights = [math.exp(SCALE * share) for share in hidden]
    return [weight / sum(weights) for weight in weights]


def section(path: Path, sha256: str, **settings: object) -> LanguageIdentificationSection:
    return LanguageIdentificationSection.model_validate(
        {"model": "fasttext_file", "path": str(path), "sha256": sha256, **settings}
    )
