"""What every entry of SOURCES keeps to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from pipelines.config import DataConfig, SourceConfig
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources import SAMPLE_MIRROR_VARIABLE, SOURCES, list_shards
from pipelines.sources.base import RawPage
from pipelines.sources.fetching.local_copy import local_copy
from pipelines.sources.sample_mirror import mirror_folder, serve

ROWS = [{"text": f"Row {n} has a text.", "url": f"https://x.test/{n}"} for n in range(200)]
MIRRORED = ("common_crawl", "wikipedia")


@dataclass(frozen=True)
class Example:
    """A source as a person configures it, and one that is not there."""

    settings: Callable[[Path], dict[str, object]]
    absent: Callable[[Path], dict[str, object]]


def rows_file(folder: Path) -> str:
    path = folder / "rows.jsonl"
    if not path.exists():
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return str(path)


EXAMPLES = {
    "common_crawl": Example(
        lambda folder: {"snapshot": "CC-MAIN-2026-44", "max_shards": 2, "server": "sample-mirror"},
        lambda folder: {"snapshot": "CC-MAIN-1999-01", "server": "sample-mirror"},
    ),
    "wikipedia": Example(
        lambda folder: {"wikis": ["sw", "hi"], "date": "20261101", "server": "sample-mirror"},
        lambda folder: {"wikis": ["sw"], "date": "19990101", "server": "sample-mirror"},
    ),
    "hugging_face": Example(
        lambda folder: {"dataset": "json", "data_files": [rows_file(folder)]},
        lambda folder: {"dataset": "json", "data_files": [str(folder / "absent.jsonl")]},
    ),
    "local_files": Example(
        lambda folder: {"paths": [rows_file(folder)]},
        lambda folder: {"paths": [str(folder / "absent.jsonl")]},
    ),
}


def config(kind: str, settings: dict[str, object], **more: object) -> DataConfig:
    source = {"kind": kind, **settings, **more}
    return DataConfig.model_validate({"run": {"name": "t"}, "sources": [source]})


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(mirror_folder(tmp_path_factory.mktemp("mirror"))) as address:
        yield address


@pytest.fixture
def address(mirror: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(SAMPLE_MIRROR_VARIABLE, mirror)
    return mirror


def read(path: Path | None, shard: Shard, counters: Counters, notes: list[str]) -> list[RawPage]:
    return list(SOURCES[shard.kind].read_pages(path, shard, counters, notes, 10**7))


def test_every_kind_of_the_configuration_has_a_source_and_an_example() -> None:
    kinds = {
        get_args(model.model_fields["kind"].annotation)[0]
        for model in get_args(get_args(SourceConfig)[0])
    }
    assert kinds == set(SOURCES) == set(EXAMPLES)


@pytest.mark.parametrize("kind", SOURCES)
def test_shards_are_listed_and_read_the_same_each_time_in_order(
    kind: str, address: str, tmp_path: Path
) -> None:
    source = config(kind, EXAMPLES[kind].settings(tmp_path))
    shards = list_shards(source)
    assert shards and shards == list_shards(source)
    for shard in shards:
        assert shard.kind == kind and address.removeprefix("http://") not in shard.name
        # A crawl's path is the identity of its file; others are told by size and mark.
        assert (shard.etag is None) == (kind == "common_crawl")
        if not SOURCES[kind].downloads:
            check_pages(None, shard)
            continue
        with local_copy(shard.url) as path:
            assert shard.size in (None, path.stat().st_size)
            check_pages(path, shard)
            check_cut(path, shard, tmp_path / f"cut{path.suffix}")


def check_pages(path: Path | None, shard: Shard) -> None:
    counters: Counters = Counter()
    notes: list[str] = []
    pages = read(path, shard, counters, notes)
    assert pages and notes == [] and counters["records"] >= len(pages)
    assert pages == read(path, shard, Counter(), [])
    places = [(page.offset, page.metadata.get("page_id", "")) for page in pages]
    assert [place[0] for place in places] == sorted(place[0] for place in places)
    assert len(set(places)) == len(places)
    assert all(page.url.startswith("https://") and page.content for page in pages)


def check_cut(path: Path, shard: Shard, cut: Path) -> None:
    """A file that ends early gives what is whole, counted and noted; never a short page."""
    content = path.read_bytes()
    cut.write_bytes(content[: len(content) * 2 // 3])
    counters: Counters = Counter()
    notes: list[str] = []
    some, whole = read(cut, shard, counters, notes), read(path, shard, Counter(), [])
    assert some == whole[: len(some)] and len(some) < len(whole)
    assert notes and all(shard.name in note for note in notes)
    assert any(name.startswith(("dropped.", "lost.")) for name in counters)


@pytest.mark.parametrize("kind", MIRRORED)
def test_the_address_of_a_mirror_is_no_part_of_a_shards_name(
    kind: str, address: str, tmp_path: Path
) -> None:
    settings = EXAMPLES[kind].settings(tmp_path)
    shards = list_shards(config(kind, settings))
    assert shards == list_shards(config(kind, settings, server=address + "/"))
    assert all(shard.url == f"{address}/{shard.name}" for shard in shards)


@pytest.mark.parametrize("kind", SOURCES)
def test_what_is_not_there_is_named(kind: str, address: str, tmp_path: Path) -> None:
    wrong = EXAMPLES[kind].absent(tmp_path)
    pattern = rf"{address}.*404.*no such" if kind in MIRRORED else r"absent\.jsonl"
    with pytest.raises(ConfigError, match=rf"sources\.0 \({kind}\).*{pattern}"):
        list_shards(config(kind, wrong))


@pytest.mark.parametrize("kind", MIRRORED)
def test_a_mirror_without_an_address_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SAMPLE_MIRROR_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=rf"sources\.0\.server.*{SAMPLE_MIRROR_VARIABLE}"):
        list_shards(config(kind, EXAMPLES[kind].settings(tmp_path)))


def test_one_file_listed_for_two_readings_is_refused(tmp_path: Path) -> None:
    path = rows_file(tmp_path)
    sources = [
        {"kind": "local_files", "paths": [path]},
        {"kind": "local_files", "paths": [path], "text_column": "url"},
    ]
    twice = {"run": {"name": "t"}, "sources": [sources[0], sources[0]]}
    assert len(list_shards(DataConfig.model_validate(twice))) == 1
    other = {"run": {"name": "t"}, "sources": sources}
    with pytest.raises(ConfigError, match=r"sources\.1 .*rows\.jsonl is listed twice"):
        list_shards(DataConfig.model_validate(other))
