"""Lists of a crawl's files, and choices of them."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.config import CommonCrawlSource
from pipelines.core.config import ConfigError
from pipelines.core.records import Shard
from pipelines.sources.common_crawl import CommonCrawl, choose, format_of, read_list
from tests.pipelines.sources.web_server import Answer, Request, serve

PATHS = [f"crawl-data/CC-MAIN-2024-22/segments/{i % 7}/warc/{i:05d}.warc.gz" for i in range(40)]


def listed(server: str, **settings: object) -> list[Shard]:
    config = CommonCrawlSource.model_validate({"kind": "common_crawl", **settings})
    return CommonCrawl().list_shards(config, server)


def test_a_snapshot_is_one_request_whatever_it_holds() -> None:
    def site(request: Request) -> Answer:
        right = request.path == "/crawl-data/CC-MAIN-2024-22/warc.paths.gz"
        return Answer(gzip.compress("\n".join(PATHS).encode())) if right else Answer(status=404)

    with serve(site) as server:
        shards = listed(server.address, snapshot="CC-MAIN-2024-22")
        assert len(server.requests) == 1
    assert [shard.name for shard in shards] == PATHS
    assert shards[3] == Shard(
        name=PATHS[3],
        url=f"{server.address}/{PATHS[3]}",
        source="commoncrawl",
        kind="common_crawl",
        date="CC-MAIN-2024-22",
        options={"format": "warc"},
    )


@pytest.mark.parametrize("packed", [True, False])
def test_a_list_of_ones_own(tmp_path: Path, packed: bool) -> None:
    lines = [
        "crawl-data/CC-MAIN-2020-34/segments/1/warc/a.warc.gz",
        "",
        " https://data.commoncrawl.org/crawl-data/CC-NEWS/2024/01/b.warc.gz\r",
        "s3://commoncrawl/crawl-data/CC-MAIN-2020-34/segments/1/warc/c.warc.gz",
        "crawl-data/CC-MAIN-2020-34/segments/1/warc/a.warc.gz",
        "/mine/d.warc",
    ]
    content = "\n".join(lines).encode()
    (tmp_path / "list").write_bytes(gzip.compress(content) if packed else content)
    shards = listed("https://mirror.example", paths=str(tmp_path / "list"))
    assert [(shard.name, shard.url, shard.date) for shard in shards] == [
        (lines[0], f"https://mirror.example/{lines[0]}", "CC-MAIN-2020-34"),
        ("crawl-data/CC-NEWS/2024/01/b.warc.gz", lines[2].strip(), "CC-NEWS"),
        (lines[3].removeprefix("s3://commoncrawl/"), lines[3], "CC-MAIN-2020-34"),
        ("mine/d.warc", "https://mirror.example/mine/d.warc", None),
    ]


def test_real_lists(shared_data: Path) -> None:
    folder = shared_data / "crawl" / "commoncrawl"
    assert len(listed("https://x.test", paths=str(folder / "paths-test-100.warc"))) == 100
    wet = listed("https://x.test", paths=str(folder / "paths-test-100.wet"), format="wet")
    assert len(wet) == 100
    assert {shard.date for shard in wet} == {"CC-MAIN-2014-35"}
    for name, advice in (
        ("paths-test-100.wat", "lists wat files .*they hold no pages"),
        ("paths-test-100.wet", 'lists wet files .*set format = "wet"'),
        ("CC-MAIN-2024-22.warc.paths.gz", "lists index files .*they hold no pages"),
    ):
        with pytest.raises(ConfigError, match=advice):
            listed("https://x.test", paths=str(folder / name))


def test_a_seeded_choice_is_the_one_with_the_smallest_hashes_in_the_lists_order() -> None:
    def rank(path: str) -> int:
        text = f'["sample",7,"{path}"]'
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    smallest = sorted(PATHS, key=rank)[:10]
    assert choose(PATHS, 10, 7) == sorted(smallest, key=PATHS.index)
    assert choose(PATHS, 10, 8) != choose(PATHS, 10, 7) != PATHS[:10]


@given(
    paths=st.lists(st.text("abc/", min_size=1, max_size=8), unique=True, min_size=1, max_size=30),
    counts=st.tuples(st.integers(1, 35), st.integers(1, 35)),
    seed=st.one_of(st.none(), st.integers(0, 5)),
)
def test_a_larger_choice_keeps_the_smaller(
    paths: list[str], counts: tuple[int, int], seed: int | None
) -> None:
    small, large = (choose(paths, count, seed) for count in sorted(counts))
    assert set(small) <= set(large) and len(large) == min(max(counts), len(paths))
    assert large == [path for path in paths if path in set(large)]
    reordered = choose(paths[::-1], min(counts), seed)
    assert seed is None or set(reordered) == set(small)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "lists no file"),
        (gzip.compress(b"\n\n", mtime=0), "lists no file"),
        (gzip.compress(b"a" * 1000, mtime=0)[:-9], "cut off"),
        (b"\x1f\x8b\x08 no gzip", "not a list of paths"),
        (b"\xff\xfe\x00", "not a list of paths"),
        (b"<html>refused</html>", "page of markup"),
    ],
)
def test_what_is_no_list_is_named(content: bytes, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"http://x/list.*{reason}"):
        read_list(content, "http://x/list")


def test_a_list_of_many_gzip_members_is_read_whole() -> None:
    assert read_list(gzip.compress(b"a\n") + gzip.compress(b"b\n"), "x") == ["a", "b"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/b.warc.gz", "warc"),
        ("a/b.warc.wet.gz", "wet"),
        ("a/b.warc.wat.gz", "wat"),
        ("a/b.warc", "warc"),
        ("a/b.warc.zst?signature=x", "warc"),
        ("a/b.c000.gz.parquet", "index"),
        ("a/b.arc.gz", "ARC"),
        ("a/b", None),
    ],
)
def test_formats_by_ending(path: str, kind: str | None) -> None:
    assert format_of(path) == kind


def test_a_source_names_a_snapshot_or_a_list() -> None:
    for settings in ({}, {"snapshot": "CC-MAIN-2024-22", "paths": "x"}):
        with pytest.raises(ValidationError, match="either snapshot"):
            CommonCrawlSource.model_validate({"kind": "common_crawl", **settings})
