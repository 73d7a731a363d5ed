"""Preflight: everything that must end a run before work starts and money is spent."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
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

SIZES_ASKED = 16
"""Of so many files at most the size is asked: a snapshot lists 90,000."""


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

    notes = check_languages(config, known_languages(config.language_identification))
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


def size_on_server(shard: Shard) -> int | None:
    """Ask for the size of a listed file.

    Raises:
        ConfigError: the server lists it and does not give it.
    """
    from pipelines.sources.fetch import FetchError, file_info

    try:
        return file_info(shard.url).size
    except FetchError as error:
        raise ConfigError(f"sources: a listed file cannot be read: {error}") from error


def check_vocabulary_size(
    size: int,
    shards: Sequence[Shard],
    ask: Callable[[Shard], int | None] = size_on_server,
) -> None:
    """Refuse a vocabulary that the listed bytes cannot support.

    Lists of a crawl do not say how large its files are: a few, evenly spread, are asked for, and
    the others taken to be as large as those on average.

    Raises:
        ConfigError: with the largest size that the bytes allow. Unknown sizes refuse nothing.
    """
    found = bytes_by_content(shards, ask)
    if found is None or not shards:
        return
    characters = sum(count * CHARACTERS_PER_BYTE[content] for content, count in found.items())
    largest = int(characters) // CHARACTERS_PER_PIECE
    if size > largest:
        guessed = "about " if any(shard.size is None for shard in shards) else ""
        raise ConfigError(
            f"vocabulary.size = {size}: the sources' {guessed}{sum(found.values()):,.0f} "
            "compressed bytes hold too little text for so many pieces; set vocabulary.size below "
            f"{largest} (the vocabulary stage finds the exact limit, which is lower), or add "
            "sources"
        )


def bytes_by_content(
    shards: Sequence[Shard], ask: Callable[[Shard], int | None]
) -> dict[str, float] | None:
    """Compressed bytes by what shards hold (a key of CHARACTERS_PER_BYTE), None if unknown.

    At most SIZES_ASKED shards are asked for, however many have no size.
    """
    groups: dict[str, list[Shard]] = {}
    for shard in shards:
        groups.setdefault(shard.options.get("format", shard.kind), []).append(shard)
    if not groups.keys() <= CHARACTERS_PER_BYTE.keys():
        return None
    unknown = {
        content: [shard for shard in group if shard.size is None]
        for content, group in groups.items()
    }
    in_all = sum(map(len, unknown.values()))
    some = sum(bool(group) for group in unknown.values())
    found: dict[str, float] = {}
    for content, group in groups.items():
        found[content] = float(sum(shard.size or 0 for shard in group))
        if missing := unknown[content]:
            share = 1 + (SIZES_ASKED - some) * len(missing) // in_all
            sizes = [ask(shard) for shard in evenly_spread(missing, share)]
            known = [size for size in sizes if size is not None]
            if len(known) < len(sizes):
                return None
            found[content] += sum(known) / len(known) * len(missing)
    return found


def evenly_spread(shards: Sequence[Shard], count: int) -> list[Shard]:
    """`count` shards (or all, if there are fewer), the first and others at equal distances."""
    count = min(count, len(shards))
    return [shards[number * len(shards) // count] for number in range(count)]


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
