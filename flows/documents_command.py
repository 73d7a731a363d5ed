"""`babelmill documents`: the stages of a run on some files, in this process, without a cluster.

What a person uses to look at one file. It runs extract, filter, deduplicate and, where it is asked
for, perplexity themselves (document_stages.py) on a store in a temporary folder, and puts what they
leave back into the order of the input (document_order.py): equal settings give equal documents.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from flows.check import check_languages, check_parts
from flows.config import RunConfig, resolve
from flows.document_files import (
    STANDARD_OUTPUT,
    DocumentFile,
    Format,
    check_output,
    document_file,
    format_of,
)
from flows.document_inputs import TRIES, UnreadableInput, list_inputs, section_of
from flows.document_order import Dropped, InOrder
from flows.document_stages import Extraction, damage_of, run_stages, shown_live
from flows.document_stats import Stats, drops_of, show_stats
from flows.stages import DEFAULT_DEPLOYMENT
from pipelines.core.config import ConfigError, parse_setting, read_toml
from pipelines.core.manifest import StageRecord
from pipelines.core.records import Shard
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.identify_language import known_languages

__all__ = ["Stats", "UnreadableInput", "Wanted", "run_documents"]


@dataclass(frozen=True)
class Wanted:
    """What a person asked for."""

    output: str
    """A local file, or "-"."""
    format: Format | None = None
    """None goes by the output's ending."""
    rejects: str | None = None
    """A local file for the documents that filters, deduplication and perplexity drop."""
    limit: int | None = None
    """Stop the reading of each input after so many extracted documents."""
    overwrite: bool = False


def run_documents(
    inputs: Sequence[str],
    wanted: Wanted,
    *,
    languages: Sequence[str] = (),
    preset: str = DEFAULT_DEPLOYMENT,
    file: Path | None = None,
    settings: Sequence[str] = (),
) -> Stats:
    """Do it and print the stats (to standard error when the documents go to standard output).

    Args:
        inputs: local files, globs, URLs, or "-".
        languages: BCP 47 tags to keep; none keeps what the configuration says.
        preset: whose sections extraction, language_identification, filters, deduplication and
            perplexity are taken; perplexity is off unless `file` or `settings` speak of it.
        file: the person's TOML file, laid over the preset.
        settings: `section.setting=value` lines.

    Raises:
        ConfigError: a setting or the output is wrong; nothing was written.
        UnreadableInput: an input is missing or nothing in it can be read; nothing was written.
        StageFailed: a stage could not be finished; nothing was written.
    """
    stats, began = Stats(), time.monotonic()
    config = _configuration(languages, preset, file, settings, stats.notes)
    formats = _formats(wanted)
    with TemporaryDirectory(prefix="babelmill-") as name:
        folder = Path(name)
        store, extraction = Store(str(folder / "store")), Extraction(folder, wanted.limit)
        check_parts(config, store)
        stats.notes += check_languages(config, known_languages(config.language_identification))
        with shown_live(lambda: str(extraction)):
            shards = list_inputs(inputs, folder)
            config = config.model_copy(
                update={"sources": [section_of([shard.url for shard in shards])]}
            )
            stage = StageRun(store, config.run.name, inline=True, quiet=True)
            stages = run_stages(stage, config, extraction, shards)
            extraction.doing = "writing"
            records = {record.stage: record for record in stage.inner}
            _write(store, config, records, (shards, extraction), (wanted, formats), stats)
        stats.damage = damage_of(stage, stages["extract"])
    stats.counters = Counter(stages["extract"].counters)
    stats.drops = drops_of(stages)
    stats.notes += [note for record in stages.values() for note in record.notes]
    stats.stopped = extraction.stopped
    stats.seconds = time.monotonic() - began
    to_terminal = wanted.output == STANDARD_OUTPUT
    shown = "standard output" if to_terminal else wanted.output
    show_stats(stats, shown, Console(stderr=to_terminal))
    return stats


def _configuration(
    languages: Sequence[str],
    preset: str,
    file: Path | None,
    settings: Sequence[str],
    notes: list[str],
) -> RunConfig:
    """The resolved configuration; what is otherwise here than in a run is noted."""
    given = list(settings)
    if languages:
        given.append(f"run.languages={json.dumps(list(languages))}")
    config = resolve(preset, file, given)
    changes: dict[str, object] = {}
    spoken_of = {parse_setting(line)[0].split(".")[0] for line in settings}
    if file is not None:
        spoken_of |= {*read_toml(file)}
    if "fetching" not in spoken_of:
        changes["fetching"] = config.fetching.model_copy(update={"tries": TRIES})
    if config.perplexity.enabled and "perplexity" not in spoken_of:
        changes["perplexity"] = config.perplexity.model_copy(update={"enabled": False})
        notes.append("perplexity is off here; turn it on with --set perplexity.enabled=true")
    elif config.perplexity.enabled and config.perplexity.train_on == "wikipedia":
        notes.append(
            'perplexity.train_on = "wikipedia", and plain files are not known to be Wikipedia: no '
            "document is scored; --set perplexity.train_on=all trains on the files themselves"
        )
    if config.deduplication.base_run is not None:
        changes["deduplication"] = config.deduplication.model_copy(update={"base_run": None})
        notes.append(
            f"deduplication.base_run = {config.deduplication.base_run!r} is a run of another "
            "store: the files are compared with themselves only"
        )
    return config.model_copy(update=changes)


def _formats(wanted: Wanted) -> tuple[Format, Format | None]:
    """The formats of documents and rejects.

    Raises:
        ConfigError: a file cannot be written, or has no format.
    """
    targets = [wanted.output, *([wanted.rejects] if wanted.rejects else [])]
    for target in targets:
        check_output(target, wanted.overwrite)
    if len({Path(target).absolute() for target in targets}) < len(targets):
        raise ConfigError(f"{wanted.output}: documents and rejects need two files")
    output = format_of(wanted.output, wanted.format)
    return output, format_of(wanted.rejects, wanted.format) if wanted.rejects else None


def _write(
    store: Store,
    config: RunConfig,
    records: Mapping[str, StageRecord],
    read: tuple[Sequence[Shard], Extraction],
    asked: tuple[Wanted, tuple[Format, Format | None]],
    stats: Stats,
) -> None:
    (shards, extraction), (wanted, (format_out, format_rejects)) = read, asked
    with ExitStack() as files:
        output = files.enter_context(document_file(wanted.output, format_out))
        rejects: DocumentFile | None = None
        if wanted.rejects and format_rejects:
            rejects = files.enter_context(
                document_file(wanted.rejects, format_rejects, rejects=True)
            )
        found = InOrder(store, records, rejects is not None, config.deduplication.min_characters)
        for shard in shards:
            for document in found.of_shard(shard.name, extraction.order_of(shard.name)):
                if isinstance(document, Dropped):
                    if rejects is not None:
                        rejects.write(document.document, document.reason)
                    continue
                output.write(document)
                stats.languages[document.language] += 1
                stats.characters[document.language] += len(document.text)
