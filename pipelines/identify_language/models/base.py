"""What a language identification model is, and how its labels become tags."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import langcodes

from pipelines.core.config import ConfigError
from pipelines.identify_language.labels import Label, parse_label


class Model(Protocol):
    """A loaded model. Pure: a line's result depends on that line alone."""

    def labels(self) -> Collection[str]:
        """All labels that `predict` can give, as the model writes them."""

    def predict(self, lines: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """For each clean line at most `k` labels with scores in [0, 1], best first."""


@dataclass(frozen=True)
class LoadedModel:
    """A model and the meaning of its labels."""

    name: str
    """How messages call it."""
    model: Model
    aliases: dict[str, str]
    """Labels of this model that are not what ISO 639 and BCP 47 say -> what they stand for."""

    @cached_property
    def meaning(self) -> dict[str, Label]:
        """Every label's language, and the script it names.

        Raises:
            ConfigError: the labels are not those of languages; it is a model for something else.
        """
        try:
            meaning = {
                label: parse_label(self.aliases.get(label, label)) for label in self.model.labels()
            }
        except ValueError as error:
            raise ConfigError(f"{self.name} is no language identifier: {error}") from None
        strange = [
            label
            for label, known in meaning.items()
            if not langcodes.tag_is_valid(known.language.partition("-")[0])
        ]
        if 2 * len(strange) > len(meaning):
            raise ConfigError(
                f"{self.name} is no language identifier: {len(strange)} of its {len(meaning)} "
                f"labels are not language codes, {strange[0]!r} for one"
            )
        return meaning


def optional_package(module: str, package: str) -> Any:
    """Import what an extra of this project installs.

    Raises:
        ConfigError: it is not installed; the message says what to install.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ConfigError(
            f"language_identification.model = {package!r}: the package {package} is not "
            f"installed; pip install 'babelmill[{package}]'"
        ) from None
