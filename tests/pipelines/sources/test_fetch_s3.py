"""Downloads from S3: a real server, and one that says SlowDown."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import s3fs

from pipelines.config import CommonCrawlSource
from pipelines.sources.common_crawl import CommonCrawl
from pipelines.sources.fetching.fetch import FetchError, fetch, file_info
from pipelines.sources.fetching.politeness import Politeness
from pipelines.sources.fetching.storage_transfer import status_of
from pipelines.sources.warc import read_wet_pages
from tests.object_store import s3_server
from tests.pipelines.sources.warc_samples import members, read, wet_record
from tests.pipelines.sources.web_server import Answer, Clock, Request, serve

GOOD = gzip.compress(random.Random(2).randbytes(300_000), mtime=0)
ERROR = "<Error><Code>{0}</Code><Message>Please reduce your request rate.</Message></Error>"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("s3") / "server") as environment:
        yield environment


@pytest.fixture
def bucket(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> s3fs.S3FileSystem:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    return s3fs.S3FileSystem()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pipelines.sources.fetching.fetch.time.sleep", clock.sleep)
    return clock


def test_files_and_ranges_of_a_real_server(bucket: s3fs.S3FileSystem, tmp_path: Path) -> None:
    bucket.pipe_file("corpora/a.gz", GOOD)
    url = "s3://corpora/a.gz"
    fetch(url, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == GOOD
    for start, end in ((0, 10), (1000, 250_000), (len(GOOD) - 1, len(GOOD))):
        fetch(url, tmp_path / "f", byte_range=(start, end))
        assert (tmp_path / "f").read_bytes() == GOOD[start:end]
    info = file_info(url)
    assert info.size == len(GOOD) and info.etag
    with pytest.raises(FetchError, match=r"s3://corpora/none\.gz: no such file") as failed:
        fetch("s3://corpora/none.gz", tmp_path / "g")
    assert failed.value.status == 404 and not (tmp_path / "g").exists()
    with pytest.raises(FetchError, match="bytes up to"):
        fetch(url, tmp_path / "g", byte_range=(0, len(GOOD) + 1))


def test_a_crawl_is_listed_and_read_from_s3(bucket: s3fs.S3FileSystem, tmp_path: Path) -> None:
    paths = [f"crawl-data/CC-MAIN-2024-22/segments/1/wet/{i}.warc.wet.gz" for i in range(3)]
    for i, path in enumerate(paths):
        bucket.pipe_file(f"corpora/{path}", members(wet_record(b"text %d" % i)))
    listing = gzip.compress("\n".join(paths).encode())
    bucket.pipe_file("corpora/crawl-data/CC-MAIN-2024-22/wet.paths.gz", listing)
    config = CommonCrawlSource(kind="common_crawl", snapshot="CC-MAIN-2024-22", format="wet")
    shards = CommonCrawl().list_shards(config, "s3://corpora")
    assert [shard.name for shard in shards] == paths
    assert {(shard.size, shard.etag) for shard in shards} == {(None, None)}
    for i, shard in enumerate(shards):
        fetch(shard.url, tmp_path / "f")
        assert read(tmp_path / "f", read_wet_pages).contents == [b"text %d" % i]


@pytest.mark.parametrize(("code", "status"), [("SlowDown", 503), ("AccessDenied", 403)])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_slow_down_pauses_the_bucket_for_everybody(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    clock: Clock,
    method: str,
    code: str,
    status: int,
) -> None:
    """An S3 server that refuses three requests: the library must not try again by itself."""

    def site(request: Request) -> Answer:
        asked = sum(one.method == method for one in server.requests)
        if request.method == method and asked <= 3:
            body = b"" if request.method == "HEAD" else ERROR.format(code).encode()
            return Answer(body, status, {"Content-Type": "application/xml", "Retry-After": "40"})
        return Answer(GOOD, headers={"ETag": '"v1"'})

    budget = Politeness(1e6, tries=8, first_pause_seconds=1.0, clock=clock)
    reports: list[int | None] = []
    report = budget.report

    def recorded(host: str, status: int | None, after: float | None, jitter: float) -> None:
        assert host == "s3://corpora"
        reports.append(status)
        report(host, status, after, jitter)

    monkeypatch.setattr(budget, "report", recorded)
    with serve(site) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        s3fs.S3FileSystem.clear_instance_cache()
        fetch("s3://corpora/a.gz", tmp_path / "f", budget)
    assert (tmp_path / "f").read_bytes() == GOOD
    assert reports.count(status) == 3 and set(reports) == {status, 200}
    assert sum(one.method == method for one in server.requests) == 4
    pauses = [seconds for seconds in clock.sleeps if seconds > 0.1]
    assert pauses == pytest.approx([40, 40, 40], abs=0.01)  # Retry-After, longer than 1, 2, 4


def test_statuses_behind_a_storage_librarys_errors() -> None:
    from botocore.exceptions import ClientError

    def refused(code: str, status: int) -> ClientError:
        meta = {"HTTPStatusCode": status, "HTTPHeaders": {"retry-after": "7"}}
        return ClientError({"Error": {"Code": code}, "ResponseMetadata": meta}, "GetObject")

    translated = OSError(16, "Please reduce your request rate.")
    translated.__cause__ = refused("SlowDown", 200)
    assert status_of(translated) == (503, 7.0)
    assert status_of(refused("InternalError", 500)) == (500, 7.0)
    assert status_of(PermissionError("x")) == (403, None)
    assert status_of(FileNotFoundError("x")) == (404, None)
    assert status_of(OSError("disk full")) == (None, None)
