"""What the sections of all filters have."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ValidationError, model_validator

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
            try:
                type(self).model_validate({**kept, **settings})
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                place = ".".join(["by_language", tag, *map(str, first["loc"])])
                raise ValueError(f"{place}: {first['msg']} (it is {first['input']!r})") from None
        return self

    @model_validator(mode="after")
    def _least_is_below_most(self) -> FilterBase:
        for name in type(self).model_fields:
            if not name.startswith("min_"):
                continue
            other = f"max_{name.removeprefix('min_')}"
            least, most = getattr(self, name), getattr(self, other, None)
            if None not in (least, most) and least > most:
                raise ValueError(
                    f"{name} = {least} is above {other} = {most}: every document would be dropped"
                )
        return self

    def for_language(self, tag: str) -> FilterBase:
        """This section as it is for a language: the tag's own entry, else its language's."""
        own = {normalise(given): settings for given, settings in self.by_language.items()}
        settings = own.get(tag, own.get(tag.split("-")[0]))
        if settings is None:
            return self
        kept = self.model_dump(exclude={"by_language"})
        return type(self).model_validate({**kept, **settings})
