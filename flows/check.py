"""Preflight: everything that must end a run before work starts and money is spent."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec

from flows.check_settings import check_settings
from flows.check_sizes import (
    Sizes,
    SourceLine,
    check_vocabulary_size,
    new_pieces,
    size_on_server,
    summarise,
    training_note,
)
from flows.config import RunConfig, to_toml
from pipelines.config import UrlBlocklistFilter, WikipediaSource
from pipelines.core.config import ConfigError
from pipelines.core.languages import normalise
from pipelines.core.manifest import read_stage
from pipelines.core.records import UNKNOWN_LANGUAGE
from pipelines.core.run_file import config_key
from pipelines.core.store import Store


@dataclass(frozen=True)
class CheckResult:
    """What a run would read."""

    sources: list[SourceLine]
    notes: list[str]

    @property
    def shards(self) -> int:
        """Shards of all sources."""
        return sum(line.shards for line in self.sources)


def preflight(config: RunConfig) -> CheckResult:
    """Check a run. Nothing is written but the probe of the store, which goes again.

    The sample mirror, if the run uses it, has to be served already.

    Raises:
        ConfigError: the run cannot work; the setting is named with what would be right.
    """
    from model.tasks import check_tasks
    from pipelines.identify_language import known_languages
    from pipelines.sources import list_shards  # both are heavy: only a check needs them

    notes = check_languages(config, known_languages(config.language_identification))
    notes += check_settings(config)
    check_tasks(config.finetuning, config.packing.length)
    store = Store(config.store.url)
    store.probe()
    check_parts(config, store)
    shards = list_shards(config)
    sizes = Sizes(size_on_server)
    check_vocabulary_size(new_pieces(config.vocabulary), shards, sizes)
    note = training_note(config.vocabulary, shards, sizes)
    notes += [note] if note else []
    return CheckResult(summarise(shards, sizes), notes)


def check_parts(config: RunConfig, store: Store) -> None:
    """Check what other settings than the sources name: packages, files, an earlier run.

    Raises:
        ConfigError: a package is not installed, a file is not there or another than is pinned, or
            the base run has not finished its deduplication; or what the run starts from is not
            there or does not fit.
    """
    from pipelines.filters.addresses import read_list

    wanted = (
        ("extraction.extractor", config.extraction.extractor, "trafilatura", True),
        ("perplexity.scorer", config.perplexity.scorer, "kenlm", config.perplexity.enabled),
    )
    for setting, value, package, used in wanted:
        if used and value == package and find_spec(package) is None:
            raise ConfigError(
                f"{setting} = {value!r}: the package is not installed; "
                f"pip install 'babelmill[{package}]' on every machine of the cluster"
            )
    for section in config.filters:
        if isinstance(section, UrlBlocklistFilter):
            for path, sha256 in (
                (section.domains_file, section.domains_sha256),
                (section.words_file, section.words_sha256),
            ):
                if path and sha256:
                    read_list(path, sha256)
    check_starts(config, store)
    base = config.deduplication.base_run
    if base is not None:
        for stage in ("deduplicate-plan", "deduplicate-clusters", "deduplicate"):
            try:
                read_stage(store, base, stage)
            except FileNotFoundError as error:
                raise ConfigError(f"deduplication.base_run = {base!r}: {error}") from None


def check_starts(config: RunConfig, store: Store) -> None:
    """Check the vocabulary and the weights that the run starts from.

    Raises:
        ConfigError: they are not there, or do not fit.
    """
    pretraining, length = config.pretraining, config.packing.length
    start = pretraining.start_from
    if config.vocabulary.start_from is not None:
        from pipelines.train_vocabulary.adopt import check_start  # its packages are heavy

        check_start(config.vocabulary, store)
    if start is not None:
        from model.start.find_start import Wanted, find_start

        find_start(start, Wanted(store, config.run.name, config.encoder, length, None))
    if pretraining.resume_from is not None:
        from model.checkpoint.made_with import made_with
        from model.start.find_resume import resume_point

        own = made_with(config.encoder, length, None)
        resume_point(store, pretraining, length, own, config.run.name)


def save_config(config: RunConfig) -> None:
    """Save the resolved configuration with the run; the stages' drivers read it from there."""
    Store(config.store.url).publish_bytes(config_key(config.run.name), to_toml(config))


def check_languages(config: RunConfig, known: Collection[str]) -> list[str]:
    """Check the requested languages against the identifier and, where knowable, the sources.

    A Wikipedia says its language; a crawl does not. So languages that no source can hold are an
    error only when every source is a Wikipedia.

    Returns:
        Notes for a person.

    Raises:
        ConfigError: a language is not one the identifier can tell, or no source holds any.
    """
    wanted = config.run.languages
    if isinstance(wanted, str):
        return []
    for tag in wanted:
        if tag not in known and tag != UNKNOWN_LANGUAGE:
            near = difflib.get_close_matches(tag, sorted(known), n=1, cutoff=0.3)
            hint = f"did you mean {near[0]!r}?" if near else f"it tells {len(known)} languages"
            raise ConfigError(
                f"run.languages: {tag!r} is not a language that the identifier "
                f"({config.language_identification.model}) can tell; {hint}"
            )
    if not all(isinstance(source, WikipediaSource) for source in config.sources):
        return []
    offered = {
        language_of_wiki(wiki)
        for source in config.sources
        if isinstance(source, WikipediaSource)
        for wiki in source.wikis
    }
    if None in offered:
        return []  # a wiki whose language its code does not say
    missing = [tag for tag in wanted if tag.split("-")[0] not in offered]
    if len(missing) == len(wanted):
        raise ConfigError(
            f"run.languages = {wanted}: none of them is a language of the sources, which are "
            f"Wikipedias in {', '.join(sorted(filter(None, offered)))}"
        )
    return [f"no source is in {', '.join(missing)}"] if missing else []


WIKIS_NAMED_OTHERWISE = {
    "simple": "en",
    "als": "gsw",
    "no": "nb",
    "bat_smg": "sgs",
    "fiu_vro": "vro",
    "roa_rup": "rup",
    "zh_classical": "lzh",
    "zh_min_nan": "nan",
    "zh_yue": "yue",
}
"""Wikipedia codes that are not the language's own tag."""


def language_of_wiki(wiki: str) -> str | None:
    """The language subtag of a Wikipedia by its code, None when the code does not say it."""
    try:
        return normalise(WIKIS_NAMED_OTHERWISE.get(wiki, wiki)).split("-")[0]
    except ValueError:
        return None
