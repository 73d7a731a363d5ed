"""What every entry of SOURCES keeps to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from pipelines.config import DataConfig, SourceConfig
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Counters
from pipelines.sources import SAMPLE_MIRROR_VARIABLE, SOURCES, list_shards
from pipelines.sources.fetch import fetch
from pipelines.sources.sample_mirror import mirror_folder, serve

EXAMPLES = {
    "common_crawl": {"snapshot": "CC-MAIN-2026-44", "max_shards": 2},
    "wikipedia": {"wikis": ["sw", "hi"], "date": "20261101"},
}
ABSENT = {
    "common_crawl": {"snapshot": "CC-MAIN-1999-01"},
    "wikipedia": {"wikis": ["sw"], "date": "19990101"},
}


def config(kind: str, settings: dict[str, object], server: str = "sample-mirror") -> DataConfig:
    source = {"kind": kind, "server": server, **settings}
    return DataConfig.model_validate({"run": {"name": "t"}, "sources": [source]})


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(mirror_folder(tmp_path_factory.mktemp("mirror"))) as address:
        yield address


@pytest.fixture
def address(mirror: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(SAMPLE_MIRROR_VARIABLE, mirror)
    return mirror


def test_every_kind_of_the_configuration_has_a_source_and_an_example() -> None:
    kinds = {
        get_args(model.model_fields["kind"].annotation)[0]
        for model in get_args(get_args(SourceConfig)[0])
    }
    assert kinds == set(SOURCES) == set(EXAMPLES) == set(ABSENT)


@pytest.mark.parametrize("kind", SOURCES)
def test_shards_have_names_free_of_addresses_and_pages_in_order(
    kind: str, address: str, tmp_path: Path
) -> None:
    shards = list_shards(config(kind, dict(EXAMPLES[kind])))
    assert shards == list_shards(config(kind, dict(EXAMPLES[kind]), address + "/"))
    host = address.removeprefix("http://")
    for shard in shards:
        assert shard.kind == kind and shard.size and shard.etag
        assert host not in shard.name and shard.url == f"{address}/{shard.name}"
        fetch(shard.url, tmp_path / "shard")
        assert (tmp_path / "shard").stat().st_size == shard.size
        counters: Counters = Counter()
        notes: list[str] = []
        reads = [
            list(SOURCES[kind].read_pages(tmp_path / "shard", shard, counters, notes, 10**7))
            for _ in range(2)
        ]
        assert reads[0] == reads[1] and reads[0] and notes == []
        offsets = [page.offset for page in reads[0]]
        assert offsets == sorted(set(offsets))
        assert all(page.url.startswith("https://") and page.content for page in reads[0])
        content = (tmp_path / "shard").read_bytes()
        (tmp_path / "shard").write_bytes(content[: len(content) * 2 // 3])
        some = list(SOURCES[kind].read_pages(tmp_path / "shard", shard, counters, notes, 10**7))
        assert some == reads[0][: len(some)] and len(some) < len(reads[0])
        assert notes and all(shard.name in note for note in notes)
        assert any(name.startswith("dropped.truncated") for name in counters)


@pytest.mark.parametrize("kind", SOURCES)
def test_what_a_server_does_not_have_is_named(kind: str, address: str) -> None:
    with pytest.raises(ConfigError, match=rf"sources\.0.*{kind}.*{address}.*404.*no such"):
        list_shards(config(kind, dict(ABSENT[kind])))


@pytest.mark.parametrize("kind", SOURCES)
def test_a_mirror_without_an_address_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SAMPLE_MIRROR_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=rf"sources\.0\.server.*{SAMPLE_MIRROR_VARIABLE}"):
        list_shards(config(kind, dict(EXAMPLES[kind])))
