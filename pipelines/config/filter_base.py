"""What the sections of all filters have."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from pipelines.core.config import Config
from pipelines.core.languages import normalise


class FilterBase(Config):
    """What all filters have."""

    reasons: ClassVar[frozenset[str]] = frozenset()
    """Every reason this filter may give. Names of counters and of rows in the rejects."""
    changes_text: ClassVar[bool] = False
    """Whether the filter may change `document.text`; the others leave it as it is."""

    by_language: dict[str, dict[str, Any]] = {}
    """Other settings of this filter for some languages: {"th": {"min_characters": 50}}. A tag
    without a script or region ("zh") stands for all of them that have no entry of their own."""

    @model_validator(mode="after")
    def _overrides_are_settings(self) -> FilterBase:
        for tag, settings in self.by_language.items():
            normalise(tag)
            if {"kind", "by_language"} & settings.keys():
                raise ValueError(f"by_language.{tag} cannot set kind or by_language")
            kept = self.model_dump(exclude={"by_language"})
            type(self).model_validate({**kept, **settings})
        return self

    def for_language(self, tag: str) -> FilterBase:
        """This section as it is for a language: the tag's own entry, else its language's."""
        own = {normalise(given): settings for given, settings in self.by_language.items()}
        settings = own.get(tag, own.get(tag.split("-")[0]))
        if settings is None:
            return self
        kept = self.model_dump(exclude={"by_language"})
        return type(self).model_validate({**kept, **settings})
