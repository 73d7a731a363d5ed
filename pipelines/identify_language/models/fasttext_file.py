"""Any supervised fastText model from a file: GlotLID, OpenLID, NLLB's, lid.176.bin."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import fsspec

from pipelines.config import LanguageIdentificationSection
from pipelines.core.config import ConfigError
from pipelines.identify_language.labels import PREFIX
from pipelines.identify_language.models.base import LoadedModel

MANY = 1 << 16
"""More labels than any identifier has."""
WIKIPEDIA_CODES = {
    "als": "gsw",  # Wikipedia's code for Alemannic; ISO 639-3 `als` is Tosk Albanian
    "bh": "bho",  # a withdrawn group code; its Wikipedia is in Bhojpuri
    "eml": "egl",  # retired, split into Emilian and Romagnol; the Wikipedia is mostly Emilian
    "sh": "sr",  # Serbo-Croatian; the script is found in the text
}
"""Labels of models that were trained on Wikipedias, where they are not what BCP 47 says."""


class FastTextModel:
    """A fastText model (Joulin et al. 2016) behind the protocol."""

    def __init__(self, path: Path) -> None:
        import fasttext  # type: ignore[import-untyped]  # loaded by workers only

        self._model: Any = fasttext.load_model(str(path))

    def labels(self) -> Collection[str]:
        """All labels, without `__label__`."""
        # Threshold below 0, for labels of probability 0 are left out otherwise.
        labels, _ = self._model.predict("a", k=MANY, threshold=-1.0)
        return [label.removeprefix(PREFIX) for label in labels]

    def predict(self, lines: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """See `Model`. The runtime takes one line at a time; the model's softmax costs the time."""
        found = []
        for line in lines:
            labels, scores = self._model.predict(line, k=k)
            found.append(
                [
                    # The softmax can come out a hair above 1.
                    (label.removeprefix(PREFIX), min(float(score), 1.0))
                    for label, score in zip(labels, scores, strict=True)
                ]
            )
        return found


def load(config: LanguageIdentificationSection) -> LoadedModel:
    """Load the file at `config.path`.

    Raises:
        ConfigError: it is not there, has another SHA-256, or is not a fastText classifier.
    """
    url, sha256 = str(config.path), str(config.sha256)
    path = _checked_file(url, sha256)
    try:
        model = FastTextModel(path)
        labels = set(model.labels())
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"language_identification.path = {url!r}: not a fastText classifier ({error})"
        ) from None
    if not labels:
        raise ConfigError(f"language_identification.path = {url!r}: it gives no labels at all")
    return LoadedModel(url, model, aliases_of(labels))


def aliases_of(labels: Collection[str]) -> dict[str, str]:
    """Which labels mean something else: `als` is Alemannic beside `en`, Albanian beside `eng`."""
    return WIKIPEDIA_CODES if "en" in labels else {}


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked_file(url: str, sha256: str) -> Path:
    """A local file with that checksum: the one named, or a copy that all processes here share."""
    local = Path(url.removeprefix("file://"))
    copy = Path(tempfile.gettempdir()) / "babelmill-models" / sha256
    try:
        if "://" not in url or url.startswith("file://"):
            found = sha256_of(local)
        elif copy.is_file() and sha256_of(copy) == sha256:
            return copy
        else:
            local, found = copy, _download(url, copy, sha256)
    except (OSError, ImportError, ValueError) as error:
        raise ConfigError(
            f"language_identification.path = {url!r}: cannot be read: "
            f"{type(error).__name__}: {error}"
        ) from None
    if found != sha256:
        raise ConfigError(
            f"language_identification.path = {url!r}: has SHA-256 {found}, and "
            f"language_identification.sha256 says {sha256}"
        )
    return local


def _download(url: str, copy: Path, sha256: str) -> str:
    """Fetch a file; it gets its name only when it has the right checksum, which is returned."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    attempt = copy.with_name(f"{sha256}.attempt-{uuid.uuid4().hex[:8]}")
    try:
        with fsspec.open(url, "rb") as source, attempt.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        found = sha256_of(attempt)
        if found == sha256:
            os.replace(attempt, copy)
        return found
    finally:
        attempt.unlink(missing_ok=True)
