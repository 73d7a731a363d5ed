"""The stages of a run on some files: in this process, on a store in a temporary folder.

They are the run's own stages, so that equal settings give equal documents. The one thing put in is
what sees the documents between extraction and its tables: it writes down their order, and stops.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flows.document_inputs import STANDARD_INPUT_NAME, UnreadableInput
from pipelines.config import DataConfig
from pipelines.core.attempt import Attempt
from pipelines.core.config import ConfigError
from pipelines.core.hashing import digest
from pipelines.core.manifest import Counters, StageRecord, read_manifests
from pipelines.core.records import Document, Shard
from pipelines.core.shards import StageFailed, Unit
from pipelines.core.stages import StageRun
from pipelines.extract.stage import extract_shard, extract_step, extract_units
from pipelines.run_stage import STAGES
from pipelines.sources.archives.damage import UNREADABLE
from pipelines.sources.fetching.fetch import FetchError

SECONDS_BETWEEN = 1.0

DAMAGE = frozenset(
    {
        "bytes_lost",
        *(f"dropped.{why}" for why in (*UNREADABLE, "bad_line", "broken_page", "cut_page")),
    }
)
"""Counters of the readers that say: not all that the file held, or should hold, could be read.
Those that begin with `lost.` say it as well."""


@dataclass
class Extraction:
    """The extract step, watched."""

    folder: Path
    """Gets a file for each shard: a line for each document, its language and its id."""
    limit: int | None = None
    """Documents after which the reading of a shard stops."""
    doing: str = "looking at the input"
    """For the person who waits."""
    stopped: list[str] = field(default_factory=list)
    """Shards that the limit cut short."""
    unreadable: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _counters: Counters | None = None

    def __str__(self) -> str:
        """What is being done now."""
        pages = "" if self._counters is None else f": {self._counters['pages']:,} pages"
        return f"{self.doing}{pages}"

    def run(self, stage: StageRun, config: DataConfig, shards: Sequence[Shard]) -> StageRecord:
        """Do the step.

        Raises:
            UnreadableInput: there is nothing to read in some shards; they are named.
            ConfigError: a setting cannot be followed.
            StageFailed: anything else went wrong.
        """
        step = replace(extract_step(config), work=self._work)
        try:
            return stage.run(step, extract_units(config, shards))
        except StageFailed:
            if self.wrong:
                raise ConfigError(self.wrong[0]) from None
            if self.unreadable:
                raise UnreadableInput("\n".join(self.unreadable)) from None
            raise
        finally:
            self._counters = None

    def order_of(self, shard: str) -> Path:
        """The file of a shard's order."""
        return self.folder / f"{digest(shard)[:32]}.order"

    def _work(self, unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
        self.doing, self._counters = f"reading {unit.key}", attempt.counters
        url = str(unit.arguments["shard"]["url"])

        def through(documents: Iterator[Document]) -> Iterator[Document]:
            with self.order_of(unit.key).open("w", encoding="utf-8") as order:
                for number, document in enumerate(documents, 1):
                    if unit.key == STANDARD_INPUT_NAME and document.url == Path(url).as_uri():
                        document.url = "-"  # where the copy lies is nobody's business
                    order.write(f"{document.language} {document.id}\n")
                    yield document
                    if number == self.limit:
                        self.stopped.append(unit.key)
                        return

        try:
            extract_shard(unit, config, attempt, through)
            if not has_readable(attempt.counters):
                raise FetchError(url, f"nothing in it can be read: {'; '.join(attempt.notes[-3:])}")
        except FetchError as error:
            what = str(error)
            if unit.key == STANDARD_INPUT_NAME:
                what = what.replace(url, STANDARD_INPUT_NAME)
            self.unreadable.append(what)
            raise
        except ConfigError as error:
            self.wrong.append(str(error))
            raise


def run_stages(
    stage: StageRun, config: DataConfig, extraction: Extraction, shards: Sequence[Shard]
) -> dict[str, StageRecord]:
    """Run extract, filter, deduplicate and, where it is on, perplexity.

    Returns:
        Their records by name. When no document passes the filters, the last is that of `filter`.

    Raises:
        UnreadableInput, ConfigError, StageFailed: see `Extraction.run`.
    """
    records = {"extract": extraction.run(stage, config, shards)}
    extraction.doing = "filtering"
    records["filter"] = STAGES["filter"](stage, config)
    if not records["filter"].outputs_of(part="kept"):
        return records
    later = ["deduplicate", *(["perplexity"] if config.perplexity.enabled else [])]
    for name, words in zip(later, ("looking for duplicates", "perplexity"), strict=False):
        extraction.doing = words
        records[name] = STAGES[name](stage, config)
    return records


def lost_in(counters: Mapping[str, int]) -> Counters:
    """What the readers say was lost, by reason."""
    return Counter(
        {
            name.removeprefix("dropped.").removeprefix("lost."): number
            for name, number in counters.items()
            if number and "/" not in name and (name in DAMAGE or name.startswith("lost."))
        }
    )


def has_readable(counters: Mapping[str, int]) -> bool:
    """Whether a file gave a page, or a whole record that just is none (a request, a redirect)."""
    damaged = sum(counters.get(name, 0) for name in DAMAGE if name.startswith("dropped."))
    return bool(counters.get("pages")) or damaged == 0 or counters.get("records", 0) > damaged


def damage_of(stage: StageRun, extracted: StageRecord) -> dict[str, Counters]:
    """What was lost of each shard, by its name; shards that are whole are not there."""
    found = {
        manifest.binding.key: lost_in(manifest.counters)
        for manifest in read_manifests(stage.store, extracted)
    }
    return {name: lost for name, lost in found.items() if lost}


@contextmanager
def shown_live(what: Callable[[], str]) -> Iterator[None]:
    """Keep one line on standard error up to date, when that is a terminal; else do nothing."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(SECONDS_BETWEEN):
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{what()[-width:]}")
            sys.stderr.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
