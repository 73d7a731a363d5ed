"""How much the sources hold, as far as servers say: what a check shows and refuses by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.core.records import Shard

CHARACTERS_PER_PIECE = 40
"""Least text behind a vocabulary piece. Measured: 4.0 million characters in 86 languages support
76,240 pieces, 52 characters each. The vocabulary stage finds the exact limit; this one only stops
what cannot work before anything is fetched."""

CHARACTERS_PER_BYTE = {"warc": 0.5, "wet": 3.0, "wikipedia": 4.0}
"""Most text behind a compressed byte, by what a shard holds. Common Crawl's own files of 1 GB WARC
give about 180 MB of WET text, 65 MB compressed."""

CHARACTERS_PER_NEW_WORD = 20
"""Least text that brings one more distinct word. Measured: 69 million characters of help
pages in 35 languages hold 589,000 words, one in 118; 1.7 million hold one in 25."""

SIZES_ASKED = 16
"""Of so many files of a kind at most the size is asked: a snapshot lists 90,000."""


@dataclass(frozen=True)
class SourceLine:
    """What one source contributes."""

    source: str
    shards: int
    bytes: int | None
    """Compressed bytes, None when the server does not say them."""
    estimated: bool = False
    """Whether `bytes` is a guess from a few files."""

    @property
    def size(self) -> str:
        """The bytes in words."""
        if self.bytes is None:
            return "unknown"
        return f"{'about ' if self.estimated else ''}{self.bytes:,}"


@dataclass
class Sizes:
    """Asks a server for the sizes of files, each once."""

    ask: Callable[[Shard], int | None]
    known: dict[str, int | None] = field(default_factory=dict)

    def of(self, shard: Shard) -> int | None:
        """The listed size, else what the server says."""
        if shard.size is not None:
            return shard.size
        if shard.name not in self.known:
            self.known[shard.name] = self.ask(shard)
        return self.known[shard.name]


def size_on_server(shard: Shard) -> int | None:
    """Ask for the size of a listed file.

    Raises:
        ConfigError: the server lists it and does not give it.
    """
    from pipelines.sources.fetching.fetch import FetchError, file_info

    try:
        return file_info(shard.url).size
    except FetchError as error:
        raise ConfigError(f"sources: a listed file cannot be read: {error}") from error


def new_pieces(section: VocabularySection) -> int:
    """Pieces that the run's text has to give: all of them, or those added to a vocabulary."""
    return section.size if section.start_from is None else section.add_pieces or 0


def check_vocabulary_size(
    size: int,
    shards: Sequence[Shard],
    sizes: Sizes,
) -> None:
    """Refuse a vocabulary that the listed bytes cannot support.

    Lists of a crawl do not say how large its files are: a few, evenly spread, are asked for, and
    the others taken to be as large as those on average.

    Raises:
        ConfigError: with the largest size that the bytes allow. Unknown sizes refuse nothing.
    """
    found = bytes_by_content(shards, sizes)
    if found is None or not shards:
        return
    largest = most_characters(found) // CHARACTERS_PER_PIECE
    if size > largest:
        guessed = "about " if any(shard.size is None for shard in shards) else ""
        raise ConfigError(
            f"vocabulary.size = {size}: the sources' {guessed}{sum(found.values()):,.0f} "
            "compressed bytes hold too little text for so many pieces; set vocabulary.size below "
            f"{largest} (the vocabulary stage finds the exact limit, which is lower), or add "
            "sources"
        )


def most_characters(found: Mapping[str, float]) -> int:
    """Most text behind compressed bytes, by what shards hold (a key of CHARACTERS_PER_BYTE)."""
    return int(sum(count * CHARACTERS_PER_BYTE[content] for content, count in found.items()))


def training_note(section: VocabularySection, shards: Sequence[Shard], sizes: Sizes) -> str | None:
    """What training the vocabulary will need at most, in a sentence; None for unknown sizes.

    The stage estimates again when it knows the text, and for the machine that it runs on.

    Raises:
        ConfigError: the lines that will be drawn need more than vocabulary.max_memory_gb. Of words
            that nobody has counted yet only the most is known: if it is above the limit, the note
            says so.
    """
    from pipelines.train_vocabulary import estimate as training  # its package is heavy

    found = bytes_by_content(shards, sizes)
    if found is None or not shards or not new_pieces(section):
        return None
    text = most_characters(found)
    if training.method_of(section) == "lines":
        drawn = min(section.sample_characters, text)
        if section.max_memory_gb is not None and drawn == section.sample_characters:
            limit = section.max_memory_gb * 1e9
            training.check_memory(section, drawn, 0, limit, "vocabulary.max_memory_gb")
        return f"{training.estimate(section, drawn).text}, at most"
    words = min(section.max_words, text // CHARACTERS_PER_NEW_WORD)
    characters = int(words * training.CHARACTERS_PER_WORD)
    needed = training.estimate(section, characters)
    note = f"{needed.text}, at most"
    most = None if section.max_memory_gb is None else section.max_memory_gb * training.GB
    if most is not None and needed.memory_bytes > most:
        note += f"; vocabulary.max_memory_gb is {training.gigabytes(most)}, and the stage refuses "
        note += "what needs more: set vocabulary.max_words to be sure"
    return note


def bytes_by_content(shards: Sequence[Shard], sizes: Sizes) -> dict[str, float] | None:
    """Compressed bytes by what shards hold (a key of CHARACTERS_PER_BYTE), None if unknown."""
    groups: dict[str, list[Shard]] = {}
    for shard in shards:
        groups.setdefault(shard.options.get("format", shard.kind), []).append(shard)
    if not groups.keys() <= CHARACTERS_PER_BYTE.keys():
        return None
    found = {content: bytes_of(group, sizes) for content, group in groups.items()}
    known = {content: count for content, count in found.items() if count is not None}
    return known if len(known) == len(found) else None


def bytes_of(shards: Sequence[Shard], sizes: Sizes) -> float | None:
    """Bytes of files; at most SIZES_ASKED are asked for, the others are as large on average."""
    listed = sum(shard.size or 0 for shard in shards)
    missing = [shard for shard in shards if shard.size is None]
    if not missing:
        return float(listed)
    asked = [sizes.of(shard) for shard in evenly_spread(missing, SIZES_ASKED)]
    answers = [size for size in asked if size is not None]
    if len(answers) < len(asked):
        return None
    return listed + sum(answers) / len(answers) * len(missing)


def evenly_spread(shards: Sequence[Shard], count: int) -> list[Shard]:
    """`count` shards (or all, if there are fewer), the first and others at equal distances."""
    count = min(count, len(shards))
    return [shards[number * len(shards) // count] for number in range(count)]


def summarise(shards: Sequence[Shard], sizes: Sizes) -> list[SourceLine]:
    """Count shards and bytes by source, in the order listed."""
    groups: dict[str, list[Shard]] = {}
    for shard in shards:
        groups.setdefault(shard.source, []).append(shard)
    lines = []
    for source, group in groups.items():
        # Files of one source are of one kind, but for those of a crawl: WARC and WET.
        kinds: dict[str, list[Shard]] = {}
        for shard in group:
            kinds.setdefault(shard.options.get("format", ""), []).append(shard)
        parts = [bytes_of(kind, sizes) for kind in kinds.values()]
        known = [part for part in parts if part is not None]
        total = round(sum(known)) if len(known) == len(parts) else None
        guessed = total is not None and any(shard.size is None for shard in group)
        lines.append(SourceLine(source, len(group), total, guessed))
    return lines
