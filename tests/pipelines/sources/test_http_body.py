"""HTTP messages as crawlers store them."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipelines.sources.archives.http_body import (
    BadBody,
    BodyTooLarge,
    HttpResponse,
    decode_body,
    media_type,
    parse_response,
    remove_chunks,
)

HTML = "<html><body>Grüße, 東京</body></html>".encode() * 20


def raw_deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


PACKERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate ": raw_deflate,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "identity": bytes,
    "UTF-8": bytes,
}


def chunks(content: bytes, size: int = 100, last: bytes = b"0\r\n\r\n") -> bytes:
    parts = [content[i : i + size] for i in range(0, len(content), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + last


def message(body: bytes, **headers: str) -> HttpResponse:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    parsed = parse_response(b"HTTP/1.1 200 OK\r\n" + lines.encode("latin-1") + b"\r\n" + body)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize("coding", PACKERS)
@pytest.mark.parametrize("chunked", [True, False])
def test_codings_are_taken_off(coding: str, chunked: bool) -> None:
    body = PACKERS[coding](HTML)
    headers = {"Content_Encoding": coding}
    if chunked:
        body, headers["Transfer_Encoding"] = chunks(body), "Chunked"
    found = decode_body(message(body, **headers), 10**6)
    assert found.content == HTML
    assert not (found.short or found.cut or found.stored_decoded)


def test_codings_are_taken_off_in_reverse_order() -> None:
    body = brotli.compress(gzip.compress(HTML))
    assert decode_body(message(body, Content_Encoding="gzip, br"), 10**6).content == HTML


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "of-my-own"])
def test_a_body_stored_decoded_is_taken_as_it_stands(coding: str) -> None:
    found = decode_body(message(HTML, Content_Encoding=coding), 10**6)
    assert found.content == HTML and found.stored_decoded


def test_a_body_without_its_chunks_is_taken_as_it_stands() -> None:
    found = decode_body(message(HTML, Transfer_Encoding="chunked"), 10**6)
    assert found.content == HTML and found.stored_decoded and not found.short
    text = b"add\nsome sugar"  # begins like a chunk of 0xadd bytes
    assert remove_chunks(b"c\n" + text)[0] is None


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "of-my-own"])
def test_a_body_that_is_neither_packed_nor_markup_is_bad(coding: str) -> None:
    with pytest.raises(BadBody, match=coding):
        decode_body(message(b"\xff\xfe\xfd" * 20, Content_Encoding=coding), 10**6)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_packed_body_without_its_end_is_marked(coding: str) -> None:
    noise = bytes((i * i * 7 + i // 3) % 256 for i in range(5000))
    packed = PACKERS[coding](noise)
    found = decode_body(message(packed[: len(packed) - 30], Content_Encoding=coding), 10**6)
    assert found.cut and noise.startswith(found.content) and len(found.content) < len(noise) + 1


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity"])
def test_unpacking_stops_at_the_limit(coding: str) -> None:
    for size, limit in ((1000, 1000), (1001, 1000)):
        response = message(PACKERS[coding](b"a" * size), Content_Encoding=coding)
        if size <= limit:
            assert decode_body(response, limit).content == b"a" * size
        else:
            with pytest.raises(BodyTooLarge):
                decode_body(response, limit)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_takes_no_memory(coding: str) -> None:
    response = message(PACKERS[coding](b"\0" * 60_000_000), Content_Encoding=coding)
    tracemalloc.start()
    with pytest.raises(BodyTooLarge):
        decode_body(response, 1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


def test_broken_chunks_are_bad_and_missing_ends_are_marked() -> None:
    whole = chunks(HTML)
    assert remove_chunks(whole) == (HTML, True)
    assert remove_chunks(whole + b"trailer") == (HTML, True)
    assert remove_chunks(whole[:-5]) == (HTML, False)
    content, ended = remove_chunks(whole[:-60])
    assert content is not None and HTML.startswith(content) and not ended
    with pytest.raises(BadBody, match="does not end"):
        remove_chunks(b"4\r\nabcd\r\n3\r\nefghi\r\n0\r\n\r\n")
    with pytest.raises(BadBody, match="no chunk size at byte 9"):
        remove_chunks(b"4\r\nabcd\r\nzzz\r\nefg")
    assert decode_body(message(whole[:-5], Transfer_Encoding="chunked"), 10**6).short


@given(st.binary(max_size=300), st.integers(1, 50), st.sampled_from(["", ";name=value", "  "]))
def test_chunks_of_any_size_join_to_the_body(body: bytes, size: int, extension: str) -> None:
    framed = chunks(body, size).replace(b"\r\n", extension.encode() + b"\r\n", 1)
    assert remove_chunks(framed) == (body, True)


def test_a_short_body_is_marked_and_a_long_one_kept() -> None:
    assert decode_body(message(HTML, Content_Length=str(len(HTML) + 1)), 10**6).short
    for length in (len(HTML), len(HTML) - 1, ""):
        found = decode_body(message(HTML, Content_Length=str(length)), 10**6)
        assert found.content == HTML and not found.short


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1 200 OK\r\n", 200),
        (b"HTTP/1.0 302 \r\n", 302),
        (b"HTTP/1.1 404\r\n", 404),
        (b"HTTP/2 200\r\n", 200),
        (b"HTTP/1.1 200 \xe4\xf6\xfc\n", 200),
    ],
)
def test_status_lines(head: bytes, status: int) -> None:
    for end in (b"\r\n", b"A: b\r\n\r\n"):
        parsed = parse_response(head + end + b"body")
        assert parsed is not None and (parsed.status, parsed.stored) == (status, b"body")


@pytest.mark.parametrize("block", [b"", b"<html>", b"HTTP/1.1 2000\r\n\r\n", b"GET / HTTP/1.1\r\n"])
def test_what_is_no_response(block: bytes) -> None:
    assert parse_response(block) is None


def test_headers_repeated_folded_and_in_latin_1() -> None:
    block = b"HTTP/1.1 200 OK\r\nX: a\r\nx : b\r\n\tc\r\nName: caf\xe9\r\nno colon\r\n\r\n"
    parsed = parse_response(block)
    assert parsed is not None
    assert parsed.values("x") == ["a", "b c"] and parsed.values("name") == ["café"]
    assert parsed.items("x") == ["a", "b c"]
    bare = parse_response(b"HTTP/1.1 200 OK\nA: b\n\nbody\r\n\r\nmore")
    assert bare is not None and bare.stored == b"body\r\n\r\nmore"
    cut = parse_response(b"HTTP/1.1 200 OK\r\nA: b")
    assert cut is not None and cut.values("a") == ["b"] and cut.stored == b""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["text/html"], ("text/html", None)),
        (['Text/HTML; Charset="windows-1251"'], ("text/html", "windows-1251")),
        (["text/html;charset = gbk; x=y"], ("text/html", "gbk")),
        (["text/plain; charset=a", "text/html; charset=b"], ("text/html", "b")),
        (["text/html; charset=a", "text/html"], ("text/html", "a")),
        (["text/html; charset=a", "nonsense"], ("text/html", "a")),
        (["text/html; charset="], ("text/html", None)),
        ([], ("", None)),
    ],
)
def test_media_types(values: list[str], expected: tuple[str, str | None]) -> None:
    assert media_type(values) == expected
