"""Texts of very unequal amounts in several scripts, and the data stages of a run over them."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.config import RunConfig, to_toml
from pipelines.core.hashing import digest
from pipelines.core.languages import normalise
from pipelines.core.manifest import read_json
from pipelines.core.records import PARAGRAPH_BREAK, Document, documents_to_table
from pipelines.core.run_file import config_key
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.pack_sequences import pack_step, pack_units
from pipelines.rebalance import balance_step, balance_units
from pipelines.train_vocabulary import train_vocabulary

DESCRIPTIONS = {
    **{tag: tag for tag in ("en", "fr", "de", "ja", "uk", "ru", "ko", "es", "nl", "sv", "hu")},
    "zh-Hans": "zh_CN",
}
"""Debian's package descriptions, by the name of their translation: one domain, natural amounts."""
SENTENCES = {"ug": "ug_udt", "hy": "hy_armtdp"}
"""Universal Dependencies, for two more scripts."""
SENTENCES_AT_ONCE = 8
"""Consecutive sentences that make a document."""
LOCALES = ("en", "fr", "ru", "ja", "de", "ar", "es", "ko", "pl")
"""Of the demo's sample, whose languages have about the same amount."""
KEPT = 0.7
"""So much of the language before it is kept of each of these, so that amounts become unequal."""

Texts = dict[str, list[list[str]]]
"""Documents by language, each a list of paragraphs."""


def read_texts(data: Path) -> tuple[str, Texts]:
    """The corpus, and what it is: real public data, or else the demo's sample.

    No paragraph comes twice, so that held-out text is not trained on.
    """
    folder = data / "text"
    if folder.is_dir():
        made = {
            **{tag: _descriptions(folder / "ddtp", name) for tag, name in DESCRIPTIONS.items()},
            **{tag: _sentences(folder / "ud", name) for tag, name in SENTENCES.items()},
        }
        origin = "Debian package descriptions, Universal Dependencies (hy, ug)"
    else:
        made, origin = _pages(), "the demo's sample, cut to sizes"
    texts = {normalise(tag): list(_once(documents)) for tag, documents in made.items()}
    if not folder.is_dir():
        texts = {
            tag: documents[: round(len(documents) * KEPT**number)]
            for number, (tag, documents) in enumerate(texts.items())
        }
    return origin, texts


def _descriptions(folder: Path, name: str) -> Iterator[list[str]]:
    """The long descriptions of packages: lines after a blank, paragraphs parted by ` .`."""
    text = lzma.decompress((folder / f"Translation-{name}.xz").read_bytes()).decode("utf-8")
    for entry in text.split("\n\n"):
        lines = [line[1:].strip() for line in entry.split("\n") if line.startswith(" ")]
        yield [" ".join(part.split()) for part in re.split(r"(?:^|\n)\.(?:\n|$)", "\n".join(lines))]


def _sentences(folder: Path, name: str) -> Iterator[list[str]]:
    lines = lzma.decompress((folder / f"{name}.txt.xz").read_bytes()).decode("utf-8").splitlines()
    for first in range(0, len(lines), SENTENCES_AT_ONCE):
        yield [" ".join(line.split()) for line in lines[first : first + SENTENCES_AT_ONCE]]


def _pages() -> dict[str, Iterator[list[str]]]:
    from pipelines.sources.sample_catalogues import read_pages

    pages: dict[str, list[list[str]]] = {locale: [] for locale in LOCALES}
    for page in read_pages():
        if page.locale in pages:
            pages[page.locale].append(list(page.messages))
    return {locale: iter(documents) for locale, documents in pages.items()}


def _once(documents: Iterator[list[str]]) -> Iterator[list[str]]:
    """Documents without paragraphs that came before, and none that is empty then."""
    seen: set[str] = set()
    for document in documents:
        fresh = [text for text in dict.fromkeys(document) if text and text not in seen]
        seen.update(fresh)
        if fresh:
            yield fresh


def build(store: Store, config: RunConfig, texts: Texts) -> Mapping[str, Mapping[str, int]]:
    """Run the stages that training reads: unique documents, balance, vocabulary, packing.

    Returns:
        Characters and other sizes by language, as the balance stage counts them.
    """
    run = config.run.name
    store.publish_bytes(config_key(run), to_toml(config))

    def write(unit: Unit, _: Mapping[str, Any], attempt: Attempt) -> None:
        made = [_document(unit.key, number, d) for number, d in enumerate(texts[unit.key])]
        attempt.counters[f"documents/{unit.key}"] += len(made)
        attempt.counters[f"sentences/{unit.key}"] += sum(len(d.paragraphs) for d in made)
        attempt.counters[f"characters/{unit.key}"] += sum(len(d.text) for d in made)
        attempt.counters[f"bytes/{unit.key}"] += sum(len(d.text.encode()) for d in made)
        name = f"{unit.key}/part-{attempt.unit_id}"
        table = documents_to_table(made)
        attempt.write_table(name, table, part="unique", language=unit.key)

    def stage(step: Step, units: Sequence[Unit]) -> Any:
        return run_step(step, list(units), store, run, inline=True, quiet=True)

    step = Step("deduplicate", 1, "corpus/unique", {}, write)
    unique = stage(step, [Unit(language, ()) for language in texts])
    record = stage(balance_step(config, unique.counters), balance_units(unique.outputs))
    table = read_json(store, record.outputs[0])
    inline = StageRun(store, run, inline=True, quiet=True)
    vocabulary = train_vocabulary(inline, config, record.outputs[0], unique.outputs).outputs
    stage(pack_step(config, table, vocabulary), pack_units(table, vocabulary, unique.outputs))
    return {row["language"]: row for row in table["rows"]}


def _document(language: str, number: int, paragraphs: list[str]) -> Document:
    return Document(
        id=digest("learning", language, number),
        text=PARAGRAPH_BREAK.join(paragraphs),
        source="local",
        url="",
        shard=language,
        offset=number,
        language=language,
        language_score=1.0,
    )
