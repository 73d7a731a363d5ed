"""What pretraining starts from, as plain JSON: part of the job, and so bound to the result."""

from __future__ import annotations

from typing import Literal

from pipelines.core.config import Config
from pipelines.core.manifest import FileRef, sha256_of
from pipelines.core.store import Store

SETTING = "pretraining.start_from"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Files of a Hugging Face folder that hold weights, the first that there is; each may be in parts
that an index beside it names (`.index.json`)."""


class StartPoint(Config):
    """Weights to start from, and the vocabulary that they were trained with."""

    name: str
    """pretraining.start_from; a checkpoint as RUN/UNIT@STEP."""
    folder: str | None = None
    """The Hugging Face folder; None where the files are of the store."""
    layout: Literal["xlm-roberta", "bert", "modernbert"] | None = None
    """Names of the tensors; None for our own."""
    weights: list[FileRef]
    """By key of the store, or by name in the folder."""
    vocabulary: dict[str, FileRef]
    """Files of its vocabulary, by part as on the store or by name in the folder."""
    rows: int | None = None
    """Rows of its tables of words, where a config.json says them (vocab_size)."""
    notes: list[str] = []
    """What a person should know of it."""


def identified(place: Store, name: str) -> FileRef:
    """A file of a folder and what its bytes are: a digest where the folder is on this machine,
    what the server says of it otherwise."""
    if place.is_local:
        with place.on_disk(name) as path:
            return FileRef(path=name, size=path.stat().st_size, checksum=sha256_of(path))
    info = place.filesystem.info(place.path(name))
    tag = next((info[key] for key in ("ETag", "etag", "md5Hash") if info.get(key)), None)
    return FileRef(path=name, size=info.get("size"), checksum=None if tag is None else str(tag))
