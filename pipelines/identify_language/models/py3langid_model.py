"""py3langid: naive Bayes over byte n-grams (Lui and Baldwin 2012), model inside the package."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pipelines.config import LanguageIdentificationSection
from pipelines.identify_language.models.base import LoadedModel, optional_package


class Py3LangId:
    """The package's identifier with scores as probabilities, which it tempers by text length."""

    def __init__(self, package: Any) -> None:
        self._identifier = package.LanguageIdentifier.from_model_file(
            package.MODEL_FILE, norm_probs=True
        )

    def labels(self) -> Collection[str]:
        """Two- and three-letter codes."""
        return list(self._identifier.labels)

    def predict(self, lines: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """See `Model`."""
        return [
            [(str(label), float(score)) for label, score in self._identifier.rank(line)[:k]]
            for line in lines
        ]


def load(config: LanguageIdentificationSection) -> LoadedModel:
    """Load the model of the installed package.

    Raises:
        ConfigError: the package is not installed.
    """
    package = optional_package("py3langid.langid", "py3langid")
    return LoadedModel("py3langid", Py3LangId(package), {})
