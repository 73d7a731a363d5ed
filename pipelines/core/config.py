"""Configuration base: a frozen pydantic tree, TOML in, errors a person can act on."""

from __future__ import annotations

import difflib
import json
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError


class ConfigError(ValueError):
    """A setting is wrong. The message names the setting, the value, and what would be right."""


class Config(BaseModel):
    """Base of every section: frozen, unknown keys refused, field docstrings are descriptions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


C = TypeVar("C", bound=Config)


def parse_setting(assignment: str) -> tuple[str, Any]:
    """Split `pretraining.steps=500` into its dotted path and its value.

    The value is read as TOML (so 500 is a number, true a boolean, ["en", "no"] a list); what is
    not TOML stays a string, and the field's own type decides whether it is right.

    Raises:
        ConfigError: there is no `=` or no path before it.
    """
    path, equals, text = assignment.partition("=")
    path = path.strip()
    if not equals or not path:
        raise ConfigError(f"--set {assignment!r}: write section.setting=value")
    try:
        return path, tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return path, text.strip()


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `change` laid over it; tables merge, everything else is replaced."""
    merged = dict(base)
    for key, value in change.items():
        below = merged.get(key)
        both_tables = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = merge(below, value) if both_tables else value  # type: ignore[arg-type]
    return merged


def set_path(tree: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return `tree` with the dotted `path` set; a number in the path indexes a list.

    Raises:
        ConfigError: the path leads through a value that is not a table, or past a list's end.
    """
    return typing.cast(dict[str, Any], _set(tree, path.split("."), value, path))


def _set(node: Any, keys: list[str], value: Any, path: str) -> Any:
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(node, list):
        if not key.isdigit() or int(key) >= len(node):
            raise ConfigError(f"{path}: {key!r} is not an entry; there are {len(node)}, from 0")
        return [_set(v, rest, value, path) if i == int(key) else v for i, v in enumerate(node)]
    if node is None:
        node = {}
    if not isinstance(node, Mapping):
        raise ConfigError(f"{path}: {key!r} lies below a plain value ({node!r})")
    return {**node, key: _set(node.get(key), rest, value, path)}


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: the file is missing or is not TOML (with the line, as tomllib says it).
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from None


def validate(kind: type[C], tree: Mapping[str, Any], origin: str) -> C:
    """Build `kind` from a plain tree.

    Raises:
        ConfigError: one line for each wrong setting: its path, its value, what would be right.
    """
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(explain(kind, error, origin)) from None


def explain(kind: type[Config], error: ValidationError, origin: str) -> str:
    """Put a pydantic error into words: setting, value, what is right, nearest known name."""
    lines = [f"{origin}: {error.error_count()} setting(s) wrong"]
    for item in error.errors(include_url=False):
        path = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            known = _fields_at(kind, item["loc"][:-1])
            near = difflib.get_close_matches(str(item["loc"][-1]), known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
            lines.append(f"  {path}: no such setting; {hint}")
        elif item["type"] == "missing":
            lines.append(f"  {path}: missing; it has no default")
        elif isinstance(item["input"], Mapping) and item["type"] == "value_error":
            # A rule between settings: its message names them, its input is the whole section.
            lines.append(f"  {path + ': ' if path else ''}{item['ctx']['error']}")
        else:
            lines.append(f"  {path} = {_short(item['input'])}: {item['msg']}")
    return "\n".join(lines)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _fields_at(kind: Any, loc: Iterable[Any]) -> list[str]:
    """Names of the fields of the model(s) found at a location of the tree."""
    models = _models_in(kind)
    for part in loc:
        if isinstance(part, int):
            continue
        deeper = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        # A discriminated union puts its tag into the location; that is no field, so stay.
        if deeper:
            models = [model for annotation in deeper for model in _models_in(annotation)]
        else:
            models = [m for m in models if part in _tags(m)] or models
    return sorted({name for model in models for name in model.model_fields})


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [m for part in typing.get_args(annotation) for m in _models_in(part)]


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    field = model.model_fields.get("kind")
    return typing.get_args(field.annotation) if field else ()


def canonical_json(value: Any) -> str:
    """Serialise to the one JSON text that equal values share (sorted keys, no blanks)."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
