"""Against a real server on this machine that refuses, cuts, redirects and lies."""

from __future__ import annotations

import gzip
import random
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from pipelines.sources.fetching.fetch import FetchError, fetch, file_info, own_budget, read_url
from pipelines.sources.fetching.politeness import Politeness
from tests.pipelines.sources.web_server import Answer, Clock, Request, serve, with_ranges

GOOD = gzip.compress(random.Random(1).randbytes(200_000), mtime=0)
SLOW_DOWN = b'<?xml version="1.0"?><Error><Code>SlowDown</Code></Error>'


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.sleep", clock.sleep)
    return clock


@pytest.fixture
def budget(clock: Clock) -> Politeness:
    return Politeness(1000.0, tries=6, first_pause_seconds=1.0, clock=clock)


def test_refused_twice_then_good(clock: Clock, budget: Politeness, tmp_path: Path) -> None:
    """Case C05, its first address; the others are in the tables below."""

    def site(request: Request) -> Answer:
        return Answer(SLOW_DOWN, 503) if request.number < 3 else Answer(GOOD)

    with serve(site) as server:
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget)
    assert (tmp_path / "f").read_bytes() == GOOD
    assert len(server.requests) == 3
    first, second = clock.sleeps
    assert 1.0 <= first <= 1.5 and 2.0 <= second <= 3.0


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_obeyed(
    clock: Clock, budget: Politeness, tmp_path: Path, status: int
) -> None:
    def site(request: Request) -> Answer:
        date = formatdate(time.time() + 3000, usegmt=True)
        asked = {1: "77", 2: date}.get(request.number)
        return Answer(b"", status, {"Retry-After": asked}) if asked else Answer(GOOD)

    with serve(site) as server:
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget)
    assert clock.sleeps[0] == pytest.approx(77)
    assert 2900 < clock.sleeps[1] <= 3000


@pytest.mark.parametrize(
    ("answer", "tries", "reason", "status"),
    [
        (Answer(b"<Error>AccessDenied</Error>", 403), 4, "HTTP status 403", 403),
        (Answer(SLOW_DOWN, 503), 6, "HTTP status 503", 503),
        (Answer(b"", 500), 6, "HTTP status 500", 500),
        (Answer(b"no", 404), 1, "HTTP status 404", 404),
        (Answer(b"gone", 410), 1, "HTTP status 410", 410),
        (Answer(GOOD, sent=100), 6, r"short body.*of \d+ bytes \(HTTP status 200\)", None),
        (Answer(b"<html>come back later</html>"), 6, "markup instead of a .gz file", None),
        (Answer(b"\n <?xml version='1.0'?>"), 6, "markup instead of a .gz file.*200", None),
        (Answer(b""), 6, "instead of a .gz file", None),
        (Answer(GOOD, 206, {"Content-Range": "bytes 5-9/10"}), 6, "wrong range", None),
    ],
)
def test_a_failure_names_url_and_answer_and_leaves_no_file(
    clock: Clock,
    budget: Politeness,
    tmp_path: Path,
    answer: Answer,
    tries: int,
    reason: str,
    status: int | None,
) -> None:
    """Case C05, its second and third addresses."""
    with serve(lambda _: answer) as server:
        url = f"{server.address}/a.warc.gz"
        with pytest.raises(FetchError, match=reason) as failed:
            fetch(url, tmp_path / "f", budget)
    assert url in str(failed.value) and f"after {tries} tr" in str(failed.value)
    assert failed.value.status == status
    assert len(server.requests) == tries
    assert list(tmp_path.iterdir()) == []
    pauses = [seconds for seconds in clock.sleeps if seconds > 0.01]
    assert len(pauses) == tries - 1
    assert all(1.0 * 2**n <= pause <= 1.5 * 2**n for n, pause in enumerate(pauses))


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst", "xz", "lz4", "gz?x=y.txt"])
def test_markup_is_no_archive(budget: Politeness, tmp_path: Path, ending: str) -> None:
    """Case C05: never a page under the name of an archive."""
    with serve(lambda _: Answer(b"<!doctype html>")) as server:
        with pytest.raises(FetchError, match="markup"):
            fetch(f"{server.address}/a.{ending}", tmp_path / "f", budget)
        fetch(f"{server.address}/page.html", tmp_path / "f", budget)


def test_redirects_are_followed_and_the_last_address_is_named(
    budget: Politeness, tmp_path: Path
) -> None:
    """Case C05, its fourth address."""
    moved = {"/a.gz": "/b.gz", "/b.gz": "c.gz", "/bad.gz": "/page", "/loop.gz": "/loop.gz"}

    def site(request: Request) -> Answer:
        if request.path in moved:
            return Answer(b"moved", 302, {"Location": moved[request.path]})
        if request.path == "/out.gz":
            return Answer(b"", 301, {"Location": f"file://{tmp_path}/secret.gz"})
        return Answer(b"<html>") if request.path == "/page" else Answer(GOOD)

    with serve(site) as server:
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget)
        assert (tmp_path / "f").read_bytes() == GOOD
        assert server.paths() == ["/a.gz", "/b.gz", "/c.gz"]
        with pytest.raises(FetchError, match=r"/bad\.gz: a page of markup.*redirected to .*/page"):
            fetch(f"{server.address}/bad.gz", tmp_path / "f", budget)
        with pytest.raises(FetchError, match=r"more than 5 redirects.*/loop\.gz \(after 1 try"):
            fetch(f"{server.address}/loop.gz", tmp_path / "f", budget)
        with pytest.raises(FetchError, match=r"redirected to file://.*no web address"):
            fetch(f"{server.address}/out.gz", tmp_path / "f", budget)
        moved["/gone.gz"] = "/absent"
        moved["/absent"] = ""
        with pytest.raises(
            FetchError, match=rf"/gone\.gz: HTTP status 302, redirected to {server.address}/absent"
        ):
            fetch(f"{server.address}/gone.gz", tmp_path / "f", budget)


def broken_after(count: int, site_of: object, first: int = 1) -> object:
    """The site, but the first answers end early."""
    assert callable(site_of)

    def site(request: Request) -> Answer:
        answer: Answer = site_of(request)
        if request.number <= first:
            answer.sent = count
        return answer

    return site


def test_a_broken_transfer_goes_on_where_it_stopped(budget: Politeness, tmp_path: Path) -> None:
    site = broken_after(60_000, with_ranges(GOOD), first=2)
    with serve(site) as server:  # type: ignore[arg-type]
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget)
    assert (tmp_path / "f").read_bytes() == GOOD
    ranges = [(r.headers.get("range"), r.headers.get("if-range")) for r in server.requests]
    assert ranges == [(None, None), ("bytes=60000-", '"v1"'), ("bytes=120000-", '"v1"')]


def test_a_file_that_changed_meanwhile_is_fetched_anew(budget: Politeness, tmp_path: Path) -> None:
    new = gzip.compress(b"another version" * 5000)
    old_site, new_site = broken_after(60_000, with_ranges(GOOD)), with_ranges(new, '"v2"')
    assert callable(old_site)

    def site(request: Request) -> Answer:
        return old_site(request) if request.number == 1 else new_site(request)  # type: ignore[no-any-return]

    with serve(site) as server:
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget)
    assert (tmp_path / "f").read_bytes() == new
    assert server.requests[1].headers["if-range"] == '"v1"'


@pytest.mark.parametrize(
    "headers", [{"ETag": 'W/"v1"'}, {}, {"ETag": '"v1"', "Accept-Ranges": "none"}]
)
def test_without_a_proof_of_sameness_a_transfer_begins_anew(
    budget: Politeness, tmp_path: Path, headers: dict[str, str]
) -> None:
    site = broken_after(60_000, lambda _: Answer(GOOD, headers=headers))
    with serve(site) as server:  # type: ignore[arg-type]
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget)
    assert (tmp_path / "f").read_bytes() == GOOD
    assert ["range" in request.headers for request in server.requests] == [False, False]


def test_a_server_that_ignores_ranges_or_lies_about_them_does_no_harm(
    budget: Politeness, tmp_path: Path
) -> None:
    lies = [
        Answer(GOOD, headers={"ETag": '"v1"'}, sent=60_000),
        Answer(GOOD[:100], 206, {"Content-Range": f"bytes 0-99/{len(GOOD)}", "ETag": '"v1"'}),
        Answer(GOOD, headers={"ETag": '"v1"'}, sent=60_000),
        Answer(GOOD[60_000:], 206, {"Content-Range": "nonsense", "ETag": '"v1"'}),
        Answer(GOOD, headers={"ETag": '"v1"'}, sent=60_000),
        Answer(GOOD, headers={"ETag": '"v1"'}),  # asked for a range, gives the whole
    ]
    with serve(lambda request: lies[request.number - 1]) as server:
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget)
    assert (tmp_path / "f").read_bytes() == GOOD
    asked = [request.headers.get("range") for request in server.requests]
    assert asked == [None, "bytes=60000-", None, "bytes=60000-", None, "bytes=60000-"]


def test_an_error_page_that_broke_off_is_not_continued(budget: Politeness, tmp_path: Path) -> None:
    page = Answer(b"<html>" * 1000, headers={"ETag": '"v1"'}, sent=3000)

    def site(request: Request) -> Answer:
        return page if request.number == 1 else with_ranges(GOOD)(request)

    with serve(site) as server:
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget)
    assert (tmp_path / "f").read_bytes() == GOOD
    assert "range" not in server.requests[1].headers


@pytest.mark.parametrize("span", [(0, 10), (1, 2), (70_000, 150_000), (len(GOOD) - 1, len(GOOD))])
@pytest.mark.parametrize("kind", ["ranges", "whole files only", "file"])
def test_ranges_are_those_bytes_exactly(
    budget: Politeness, tmp_path: Path, span: tuple[int, int], kind: str
) -> None:
    if kind == "file":
        (tmp_path / "a.gz").write_bytes(GOOD)
        fetch(str(tmp_path / "a.gz"), tmp_path / "f", budget, byte_range=span)
    else:
        site = with_ranges(GOOD) if kind == "ranges" else lambda _: Answer(GOOD)
        with serve(site) as server:
            fetch(f"{server.address}/a.gz", tmp_path / "f", budget, byte_range=span)
        assert server.requests[0].headers["range"] == f"bytes={span[0]}-{span[1] - 1}"
    assert (tmp_path / "f").read_bytes() == GOOD[slice(*span)]


def test_a_range_that_broke_off_goes_on(budget: Politeness, tmp_path: Path) -> None:
    with serve(broken_after(5000, with_ranges(GOOD))) as server:  # type: ignore[arg-type]
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget, byte_range=(1000, 90_000))
    assert (tmp_path / "f").read_bytes() == GOOD[1000:90_000]
    assert server.requests[1].headers["range"] == "bytes=6000-89999"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(GOOD[:10], 206, {"Content-Range": "bytes 0-9/100"}), "wrong range"),
        (Answer(GOOD[:10], 206, {"Content-Range": "bytes 50-59/100"}), "wrong range"),
        (Answer(GOOD[:10], 206), "wrong range"),
        (Answer(GOOD[:10], 206, {"Content-Range": "bytes 50-99/100"}), "short body|10 of 50"),
        (Answer(GOOD[:60]), "has 60 bytes; bytes up to 100"),
        (Answer(b"<html>" + b"x" * 200), "markup"),
        (Answer(b"", 416), "416"),
    ],
)
def test_wrong_ranges_are_refused(
    budget: Politeness, tmp_path: Path, answer: Answer, reason: str
) -> None:
    with serve(lambda _: answer) as server, pytest.raises(FetchError, match=reason):
        fetch(f"{server.address}/a.gz", tmp_path / "f", budget, byte_range=(50, 100))
    assert list(tmp_path.iterdir()) == []


def test_a_range_beyond_a_local_file_is_an_error(budget: Politeness, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(FetchError, match=r"has 5 bytes; bytes up to 6"):
        fetch(str(tmp_path / "a"), tmp_path / "f", budget, byte_range=(0, 6))
    assert not (tmp_path / "f").exists()


def test_local_and_remote_files_tell_their_size(budget: Politeness, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(GOOD)
    assert file_info(str(tmp_path / "a.gz")).size == len(GOOD)
    with serve(with_ranges(GOOD)) as server:
        info = file_info(f"{server.address}/a.gz", budget)
        assert read_url(f"{server.address}/a.gz", budget) == GOOD
    assert (info.size, info.etag) == (len(GOOD), "v1")
    assert [request.method for request in server.requests] == ["HEAD", "GET"]
    fetch(f"file://{tmp_path}/a.gz", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == GOOD
    with pytest.raises(FetchError, match="no such file") as failed:
        fetch(f"{tmp_path}/none.gz", tmp_path / "c", budget)
    assert failed.value.status == 404


def test_no_server_is_an_error_that_names_the_address(budget: Politeness, tmp_path: Path) -> None:
    hopeless = ("http://[bad/a.gz", "s4://bucket/a.gz", "http://127.0.0.1:9/a\nb.gz")
    for address in ("http://127.0.0.1:9/a.gz", *hopeless):
        with pytest.raises(FetchError) as failed:
            fetch(address, tmp_path / "f", budget)
        assert address in str(failed.value)
        assert ("after 1 try" in str(failed.value)) == (address in hopeless)


def test_pauses_depend_on_the_url_alone(clock: Clock, tmp_path: Path) -> None:
    def pauses(url: str) -> list[float]:
        clock.sleeps.clear()
        with pytest.raises(FetchError):
            fetch(url, tmp_path / "f", Politeness(1e6, tries=4, clock=clock))
        return [seconds for seconds in clock.sleeps if seconds > 0.1]

    one, other = "http://127.0.0.1:9/a.gz", "http://127.0.0.1:9/b.gz"
    assert pauses(one) == pauses(one) != pauses(other)


def test_who_is_part_of_no_job_may_be_less_patient(tmp_path: Path) -> None:
    address = "http://127.0.0.1:9/x.txt"  # the discard port: nobody answers there
    with own_budget(Politeness(tries=2, first_pause_seconds=0.01)):
        with pytest.raises(FetchError, match=r"\(after 2 tries\)"):
            fetch(address, tmp_path / "x")
        with pytest.raises(FetchError, match=r"\(after 1 try\)"):
            fetch(address, tmp_path / "x", Politeness(tries=1))
