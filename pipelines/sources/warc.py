"""Pages of WARC and WET files: which records are pages, and whether they are whole.

Records by type (ISO 28500, section 6): `response` with HTTP status 200 and HTML, and `resource`
with HTML, are pages; `conversion` is text that the crawler took out (WET files). An archive may
hold all three, whatever its name says. `revisit` says that a page was met before and holds none;
`request`, `metadata`, `warcinfo` and `continuation` hold none either. All are counted as
`records.TYPE`.

Digests are checked on pages (`dropped.wrong_digest`). The block digest decides, where there is one.
What a payload digest covers is read differently by writers (the body as stored, without chunks, or
decoded as well), so it is asked only where no block digest vouches for the bytes, and it is wrong
only if it fits none of the three. So a page whose bytes are those that the crawler wrote is never
dropped. Digests of an algorithm or a form that is not known decide nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines.core.manifest import Counters
from pipelines.sources.archives.damage import FileNotes
from pipelines.sources.archives.digests import matches
from pipelines.sources.archives.http_body import (
    BadBody,
    Body,
    BodyTooLarge,
    HttpResponse,
    decode_body,
    media_type,
    parse_response,
    remove_chunks,
)
from pipelines.sources.archives.warc_record import Record
from pipelines.sources.archives.warc_records import MAX_MEMBER_BYTES, read_records
from pipelines.sources.base import RawPage

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
HTML_STARTS = (b"<!doctype html", b"<html")
OPT_OUT_HEADERS = {"x-robots-tag": "robots", "tdm-reservation": "tdm_reservation"}
"""Headers about what may be done with a page, and their names in RawPage.metadata."""


def read_warc_pages(
    path: Path,
    name: str,
    counters: Counters,
    notes: list[str],
    max_page_bytes: int,
    max_member_bytes: int = MAX_MEMBER_BYTES,
) -> Iterator[RawPage]:
    """Pages of a WARC or WET file, each by its record's type; see `read_records` for damage.

    `records` = pages + every `dropped.REASON` + `records.TYPE` of the types that hold no page. A
    file without a page gets a note that says which types it has.

    Left out and counted as `dropped.REASON`: `http_status` (not 200), `content_type`, `not_http`,
    `bad_http` (no HTTP message, broken chunks or compression), `page_too_large`, `segmented`,
    `wrong_digest`. Given and counted: `truncated.crawler` (WARC-Truncated) and `truncated.short`
    (less than Content-Length or the chunks say), both with `metadata["truncated"]`;
    `odd.stored_decoded`.

    Metadata: `truncated`, and as found, joined with ", ": `robots` (X-Robots-Tag),
    `tdm_reservation` (TDM-Reservation).
    """
    kinds: Counters = Counter()
    wrong, pages = FileNotes(name, notes), 0
    for record in read_records(path, counters, notes, name, max_member_bytes):
        kinds[record.kind] += 1
        counters[f"records.{record.kind}"] += 1
        read = READERS.get(record.kind)
        if read is None:
            continue
        try:
            page = read(record, max_page_bytes, counters)
        except _Dropped as dropped:
            reason = str(dropped)
            counters[f"dropped.{reason}"] += 1
            if reason == "wrong_digest":
                wrong.add(f": record at {record.offset} is not what its digest says")
        else:
            pages += 1
            yield page
    wrong.close("more records that are not what their digests say")
    if kinds and not pages:
        met = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        notes.append(f"{name}: no page in it: {met}")


read_wet_pages = read_warc_pages
"""The same: an archive may hold texts and pages side by side."""


class _Dropped(Exception):
    """A record that gives no page; the reason is the counter's name."""


def _response_page(record: Record, limit: int, counters: Counters) -> RawPage:
    kind, _ = media_type([record.headers.get("content-type", "application/http")])
    if kind != "application/http":
        raise _Dropped("not_http")
    response = parse_response(record.block)
    if response is None:
        raise _Dropped("bad_http")
    if response.status != 200:
        raise _Dropped("http_status")
    kind, charset = media_type(response.values("content-type"))
    if kind not in HTML_TYPES and (kind or not _looks_like_html(record, response)):
        raise _Dropped("content_type")
    body = _whole_body(record, response, limit)
    _check_digests(record, lambda: _payloads(response, body))
    if body.stored_decoded:
        counters["odd.stored_decoded"] += 1
    page = _page(record, body.content, counters)
    page.charset = charset
    if body.short and "truncated" not in page.metadata:
        counters["truncated.short"] += 1
        page.metadata["truncated"] = "short"
    for header, key in OPT_OUT_HEADERS.items():
        if values := response.values(header):
            page.metadata[key] = ", ".join(values)
    return page


def _whole_body(record: Record, response: HttpResponse, limit: int) -> Body:
    if "warc-segment-number" in record.headers:
        raise _Dropped("segmented")
    try:
        body = decode_body(response, limit)
    except BodyTooLarge as error:
        raise _Dropped("page_too_large") from error
    except BadBody as error:
        raise _Dropped("bad_http") from error
    # A crawler that cut a compressed body says so; without that it was not all there.
    if body.cut and "warc-truncated" not in record.headers:
        raise _Dropped("bad_http")
    return body


def _resource_page(record: Record, limit: int, counters: Counters) -> RawPage:
    """A resource record holds the bytes of a page, with no HTTP message around them."""
    kind, charset = media_type([record.headers.get("content-type", "")])
    if kind not in HTML_TYPES:
        raise _Dropped("content_type")
    page = _block_page(record, limit, counters)
    page.charset = charset
    return page


def _conversion_page(record: Record, limit: int, counters: Counters) -> RawPage:
    """A text, or what the record says that it was converted to."""
    kind, charset = media_type([record.headers.get("content-type", "text/plain")])
    if kind and not kind.startswith("text/") and kind not in HTML_TYPES:
        raise _Dropped("content_type")
    page = _block_page(record, limit, counters)
    if kind in HTML_TYPES:
        page.charset = charset
    else:
        page.content_kind = "text"
    return page


def _block_page(record: Record, limit: int, counters: Counters) -> RawPage:
    if "warc-segment-number" in record.headers:
        raise _Dropped("segmented")
    if len(record.block) > limit:
        raise _Dropped("page_too_large")
    _check_digests(record, lambda: iter((record.block,)))
    return _page(record, record.block, counters)


READERS: dict[str, Callable[[Record, int, Counters], RawPage]] = {
    "response": _response_page,
    "resource": _resource_page,
    "conversion": _conversion_page,
}
"""Types of records that are pages; the others are counted alone."""


def _looks_like_html(record: Record, response: HttpResponse) -> bool:
    """For a response without a type: what the crawler found, or how the body begins."""
    found = record.headers.get("warc-identified-payload-type", "").lower()
    start = response.stored[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return found in HTML_TYPES or start.startswith(HTML_STARTS)


def _payloads(response: HttpResponse, body: Body) -> Iterator[bytes]:
    """What a payload digest may cover."""
    yield response.stored
    if "chunked" in response.items("transfer-encoding"):
        content, _ = remove_chunks(response.stored)
        yield content or b""
    yield body.content


def _check_digests(record: Record, payloads: Callable[[], Iterator[bytes]]) -> None:
    """Drop a record that is not what its digests say; the module's docstring has the policy."""
    block = record.headers.get("warc-block-digest")
    vouched = matches(block, (record.block,)) if block is not None else None
    if vouched is None and (payload := record.headers.get("warc-payload-digest")):
        vouched = matches(payload, payloads())
    if vouched is False:
        raise _Dropped("wrong_digest")


def _page(record: Record, content: bytes, counters: Counters) -> RawPage:
    page = RawPage(
        url=record.headers.get("warc-target-uri", "").strip("<>"),
        offset=record.offset,
        content=content,
        content_kind="html",
        date=record.headers.get("warc-date"),
    )
    if truncated := record.headers.get("warc-truncated"):
        counters["truncated.crawler"] += 1
        page.metadata["truncated"] = truncated
    return page
