"""RunConfig: every section in one place, from a preset, a person's file and single settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field, model_validator

from model.config import ModelConfig, PretrainingSection
from model.schedules import check_schedule
from pipelines.config import (
    DATASET_FORMATS,
    SAMPLE_MIRROR,
    CommonCrawlSource,
    DataConfig,
    HuggingFaceSource,
    LocalFilesSource,
    VocabularySection,
    WikipediaSource,
)
from pipelines.core.config import (
    Config,
    ConfigError,
    merge,
    parse_setting,
    read_toml,
    set_path,
    validate,
)
from pipelines.core.run_file import is_folder

PROJECT = Path(__file__).resolve().parent.parent
PRESETS = Path(__file__).resolve().parent / "runs"


class ReportSection(Config):
    """The page a run ends with ([report])."""

    title: str = "Run report"
    max_languages_in_picture: Annotated[int, Field(ge=1)] = 100
    """The picture of language shares shows the largest so many."""


class RunConfig(DataConfig, ModelConfig):
    """One run, whole. Presets are TOML files in flows/runs."""

    report: ReportSection = ReportSection()

    @model_validator(mode="after")
    def _every_worker_has_work(self) -> RunConfig:
        self.pretraining.check_workers(self.cluster.most_workers)
        return self

    @model_validator(mode="after")
    def _next_sentence_needs_pairs(self) -> RunConfig:
        if self.encoder.next_sentence and self.packing.mode != "pairs":
            raise ValueError(
                "encoder.next_sentence needs packing.mode = 'pairs', not "
                f"{self.packing.mode!r}; or set encoder.next_sentence = false"
            )
        return self

    @model_validator(mode="after")
    def _lengths_divide_sequences(self) -> RunConfig:
        self.pretraining.check_lengths(self.packing.length, self.packing.mode)
        return self

    @model_validator(mode="after")
    def _schedule_fits_the_training(self) -> RunConfig:
        check_schedule(self.pretraining, self.packing.length)
        return self


def preset_names() -> list[str]:
    """Names of the presets, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def resolve(
    preset: str, file: Path | None = None, settings: Sequence[str] | Mapping[str, Any] = ()
) -> RunConfig:
    """Resolve a run: preset, then the person's file, then single settings.

    Args:
        settings: `section.setting=value` lines, or a mapping of dotted paths to values.

    Raises:
        ConfigError: a preset, key or value is wrong; it is named with what would be right.
    """
    if preset not in preset_names():
        raise ConfigError(
            f"preset = {preset!r}: no such preset; known: {', '.join(preset_names())}"
        )
    tree = overlay(read_toml(PRESETS / f"{preset}.toml"), file, settings)
    config = validate(RunConfig, tree, origin=f"preset {preset!r}")
    here = {
        "store": absolute_store(config),
        "sources": absolute_sources(config),
        "vocabulary": absolute_vocabulary(config),
        "pretraining": absolute_pretraining(config),
    }
    return config.model_copy(update=here)


def overlay(
    tree: Mapping[str, Any], file: Path | None, settings: Sequence[str] | Mapping[str, Any]
) -> dict[str, Any]:
    """Lay a person's file and then single settings over a configuration's plain tree.

    Raises:
        ConfigError: the file cannot be read, or a setting names no place of the tree.
    """
    changed = dict(tree) if file is None else merge(tree, read_toml(file))
    pairs = settings.items() if isinstance(settings, Mapping) else map(parse_setting, settings)
    for path, value in pairs:
        changed = set_path(changed, path, value)
    return changed


def absolute_store(config: RunConfig) -> Any:
    """The store section with a plain path made absolute below the checkout."""
    url = config.store.url
    if "://" in url:
        return config.store
    return config.store.model_copy(
        update={"url": str((PROJECT / Path(url).expanduser()).resolve())}
    )


def absolute_vocabulary(config: RunConfig) -> Any:
    """The vocabulary section, with plain paths of models made absolute below the checkout."""
    section, update = config.vocabulary, {"start_from": _absolute_start(config.vocabulary)}
    if section.compare_with is not None:
        update["compare_with"] = _absolute_path(section.compare_with)
    return section.model_copy(update=update)


def absolute_pretraining(config: RunConfig) -> Any:
    """The pretraining section, with the plain path of a folder to start from made absolute."""
    return config.pretraining.model_copy(update={"start_from": _absolute_start(config.pretraining)})


def _absolute_start(section: VocabularySection | PretrainingSection) -> str | None:
    """What a section starts from: a folder, which has a slash in it, or a name of the store."""
    start = section.start_from
    return _absolute_path(start) if start is not None and is_folder(start) else start


def absolute_sources(config: RunConfig) -> list[Any]:
    """The sources, with plain paths made absolute below the checkout."""
    return [_absolute_source(source) for source in config.sources]


def _absolute_source(source: Any) -> Any:
    update: dict[str, Any] = {}
    match source:
        case CommonCrawlSource():
            update = {"server": _absolute_path(source.server)}
            if source.paths is not None:
                update["paths"] = _absolute_path(source.paths)
        case WikipediaSource():
            update = {"server": _absolute_path(source.server)}
        case LocalFilesSource():
            update = {"paths": [_absolute_path(path) for path in source.paths]}
        case HuggingFaceSource() if source.dataset in DATASET_FORMATS:
            update = {"data_files": [_absolute_path(path) for path in source.data_files]}
    return source.model_copy(update=update)


def _absolute_path(path: str) -> str:
    if "://" in path or path == SAMPLE_MIRROR:
        return path
    return str((PROJECT / Path(path).expanduser()).resolve())


def to_toml(config: RunConfig) -> bytes:
    """Write the resolved configuration as TOML; unset optional values are left out."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True)).encode("utf-8")
