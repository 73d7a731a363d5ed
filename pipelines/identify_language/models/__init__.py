"""Language identification models. A new one is one file in this folder and one line in MODELS."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from pipelines.config import LanguageIdentificationSection
from pipelines.identify_language.models import (
    fasttext_file,
    heliport_model,
    lid_176,
    py3langid_model,
)
from pipelines.identify_language.models.base import LoadedModel

MODELS: dict[str, Callable[[LanguageIdentificationSection], LoadedModel]] = {
    "lid.176": lid_176.load,
    "fasttext_file": fasttext_file.load,
    "py3langid": py3langid_model.load,
    "heliport": heliport_model.load,
}


def load_model(config: LanguageIdentificationSection) -> LoadedModel:
    """The model a configuration names, loaded once a process.

    Raises:
        ConfigError: it is not installed, not there, damaged, or another file than was named.
    """
    return _load(config.model, config.path, config.sha256)


@cache
def _load(model: str, path: str | None, sha256: str | None) -> LoadedModel:
    section = LanguageIdentificationSection.model_validate(
        {"model": model, "path": path, "sha256": sha256}
    )
    loaded = MODELS[model](section)
    _ = loaded.meaning  # a model for something else ends here, before any text is read
    return loaded
