"""Preflight: everything that must end a run before work starts and money is spent."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flows.config import RunConfig, to_toml
from pipelines.config import WikipediaSource
from pipelines.core.config import ConfigError
from pipelines.core.languages import normalise
from pipelines.core.records import UNKNOWN_LANGUAGE, Shard
from pipelines.core.run_file import config_key
from pipelines.core.store import Store

CHARACTERS_PER_PIECE = 40
"""Least text behind a vocabulary piece. Measured: 4.0 million characters in 86 languages support
76,240 pieces, 52 characters each. The vocabulary stage finds the exact limit; this one only stops
what cannot work before anything is fetched."""

CHARACTERS_PER_BYTE = {"warc": 0.5, "wet": 3.0, "wikipedia": 4.0}
"""Most text behind a compressed byte, by what a shard holds. Common Crawl's own files of 1 GB WARC
give about 180 MB of WET text, 65 MB compressed."""


@dataclass(frozen=True)
class SourceLine:
    """What one source contributes."""

    source: str
    shards: int
    bytes: int | None
    """Compressed bytes, None when the server does not say the size of every shard."""


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

    notes = check_languages(config, known_languages())
    check_tasks(config.finetuning, config.packing.length)
    store = Store(config.store.url)
    store.probe()
    shards = list_shards(config)
    check_vocabulary_size(config.vocabulary.size, shards)
    return CheckResult(summarise(shards), notes)


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


def check_vocabulary_size(size: int, shards: Sequence[Shard]) -> None:
    """Refuse a vocabulary that the listed bytes cannot support.

    Raises:
        ConfigError: with the largest size that the bytes allow. Unknown sizes refuse nothing.
    """
    characters = 0.0
    for shard in shards:
        rate = CHARACTERS_PER_BYTE.get(shard.options.get("format", shard.kind))
        if rate is None or shard.size is None:
            return
        characters += shard.size * rate
    largest = int(characters) // CHARACTERS_PER_PIECE
    if shards and size > largest:
        listed = sum(shard.size or 0 for shard in shards)
        raise ConfigError(
            f"vocabulary.size = {size}: the sources' {listed:,} compressed bytes hold too little "
            f"text for so many pieces; set vocabulary.size below {largest} (the vocabulary stage "
            "finds the exact limit, which is lower), or add sources"
        )


def summarise(shards: Sequence[Shard]) -> list[SourceLine]:
    """Count shards and bytes by source, in the order listed."""
    groups: dict[str, list[Shard]] = {}
    for shard in shards:
        groups.setdefault(shard.source, []).append(shard)
    return [
        SourceLine(
            source,
            len(group),
            None
            if any(shard.size is None for shard in group)
            else sum(shard.size or 0 for shard in group),
        )
        for source, group in groups.items()
    ]
