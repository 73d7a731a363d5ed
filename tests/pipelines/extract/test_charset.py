"""Which charset a page is in, and what its bytes mean there."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from pipelines.core.manifest import Counters
from pipelines.extract.charset import charset_named, decode_page, decode_plain
from pipelines.sources.warc import read_warc_pages

RUSSIAN = "Это предложение написано по-русски и говорит о погоде."
JAPANESE = "これは日本語の文章です。文字化けしてはいけません。"


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("UTF8", "utf-8"),
        (" utf-8 ", "utf-8"),
        ("gb2312", "gbk"),
        ("GB_2312-80", "gbk"),
        ("gb18030", "gb18030"),
        ("x-sjis", "shift_jis"),
        ("Windows-31J", "shift_jis"),
        ("euc-jp", "euc-jp"),
        ("iso-2022-jp", "iso-2022-jp"),
        ("ks_c_5601-1987", "euc-kr"),
        ("big5-hkscs", "big5"),
        ("latin1", "windows-1252"),
        ("us-ascii", "windows-1252"),
        ("iso-8859-9", "windows-1254"),
        ("iso-8859-11", "windows-874"),
        ("tis-620", "windows-874"),
        ("iso-8859-2", "iso-8859-2"),
        ("koi8-ru", "koi8-u"),
        ("x-cp1251", "windows-1251"),
        ("win-1251", "windows-1251"),  # no label of the standard, and cannot mean anything else
        ("macintosh", "macintosh"),
        ("x-mac-cyrillic", "x-mac-cyrillic"),
        ("utf-7", None),
        ("none", None),
        ("utf-8lias", None),
    ],
)
def test_labels_mean_what_the_standard_says(label: str, name: str | None) -> None:
    assert charset_named(label) == name


@pytest.mark.parametrize(
    ("content", "header", "charset"),
    [
        (b"\xef\xbb\xbf<p>x", "koi8-r", "utf-8"),
        (b"\xff\xfe<\0p\0>\0", "koi8-r", "utf-16le"),
        (b'<meta charset="big5">x', "KOI8-R", "koi8-r"),
        (b'<meta charset="shift_jis">\x83\x65', None, "shift_jis"),
        (b'<meta charset="shift_jis">\x83\x65', "no-such-charset", "shift_jis"),
        (
            b'<META http-equiv=Content-Type content="text/html; charset=euc-kr">\xb0\xa1',
            None,
            "euc-kr",
        ),
        (b'<?xml version="1.0" encoding="iso-8859-2"?><html>\xb1', None, "iso-8859-2"),
        (b'<meta charset="utf-16">' + RUSSIAN.encode(), None, "utf-8"),
        (b'<meta charset="x-user-defined">' + RUSSIAN.encode(), "bogus", "utf-8"),
        (RUSSIAN.encode("cp1251"), None, "windows-1251"),
        (RUSSIAN.encode(), "iso-8859-1", "utf-8"),
        (RUSSIAN.encode("cp1251"), "utf-8", "windows-1251"),
        (b"caf\xe9", "iso-8859-1", "windows-1252"),
        (b"caf\xc3\xa9", "iso-8859-1", "windows-1252"),  # too little to say anything against it
    ],
)
def test_order_is_mark_header_page_detector_and_bytes_have_the_last_word(
    content: bytes, header: str | None, charset: str
) -> None:
    if content == b'<meta charset="big5">x':
        content += b"\xc1"
    assert decode_page(content, header, Counter()).charset == charset


def test_labels_that_are_wrong_or_unknown_are_counted() -> None:
    counters: Counters = Counter()
    assert decode_page(RUSSIAN.encode(), "iso-8859-1", counters).text == RUSSIAN
    assert counters == {"charset.wrong_label": 1}
    decode_page(b'<meta charset="nonsense">x', "bogus", counters)
    assert counters == {"charset.wrong_label": 1, "charset.unknown_label": 2}


@pytest.mark.parametrize(
    ("text", "codec", "label"),
    [
        ("①㈱髙", "cp932", "shift_jis"),
        ("똠방각하", "cp949", "euc-kr"),
        ("嘅咗", "big5hkscs", "big5"),
        ("朱镕基㐀€", "gb18030", "gb2312"),
        (JAPANESE, "euc_jp", "euc-jp"),
        ("①" + JAPANESE, "euc_jis_2004", "euc-jp"),
        (JAPANESE, "iso2022_jp", "iso-2022-jp"),
        ("“€”", "cp1252", "iso-8859-1"),
        ("ğışİ€", "cp1254", "iso-8859-9"),
        ("ที่นี่€", "cp874", "tis-620"),
        (RUSSIAN, "koi8_r", "koi8-r"),
        ("ґєїі", "koi8_u", "koi8-u"),
        (RUSSIAN, "mac_cyrillic", "x-mac-cyrillic"),
    ],
)
def test_the_webs_charsets_are_larger_than_their_names_say(
    text: str, codec: str, label: str
) -> None:
    assert decode_page(text.encode(codec), label, Counter()).text == text


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp949", "오늘은 날씨가 맑고 바람이 조금 붑니다. 우리는 강가를 걸었습니다."),
        ("cp932", JAPANESE),
        ("euc_jp", JAPANESE),
        ("iso2022_jp", JAPANESE),
        ("gb18030", "今天天气很好，我们一起去公园散步，看见很多人在那里唱歌。"),
        ("big5", "今天天氣很好，我們一起去公園散步，看見很多人在那裡唱歌。"),
        ("cp1251", RUSSIAN),
        ("koi8_r", RUSSIAN),
        ("cp866", RUSSIAN * 3),
        ("cp1253", "Σήμερα ο καιρός είναι καλός και πηγαίνουμε όλοι μαζί στη θάλασσα."),
        ("cp1255", "היום מזג האוויר יפה ואנחנו הולכים יחד אל הים הגדול"),
    ],
)
def test_text_without_a_declaration_is_detected(codec: str, text: str) -> None:
    page = f"<html><body><p>{text}</p><p>{text}</p></body></html>".encode(codec)
    assert text in decode_page(page, None, Counter()).text


def test_one_wrong_byte_costs_one_character() -> None:
    content = JAPANESE.encode("cp932") + b"\x81" + b" ok"
    decoded = decode_page(content, "shift_jis", Counter())
    assert decoded.text == JAPANESE + "\ufffd ok"


def test_plain_text_needs_no_declaration() -> None:
    for codec in ("utf-8", "utf-8-sig", "utf-16", "cp1251"):
        assert decode_plain((RUSSIAN * 3).encode(codec), None, Counter()).text == RUSSIAN * 3
    assert decode_plain(b"\xe4\xf6\xfc", "latin1", Counter()).text == "äöü"


def test_real_pages_in_other_charsets(shared_data: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_data / "crawl" / "edge" / "encodings.tar.xz") as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4; Debian 12 has 3.11.2
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(tmp_path)
    [definition] = tmp_path.rglob("definition.json")
    checked = 0
    for entry in json.loads(definition.read_text())["files"]:
        path = definition.parent / entry["filename"]
        if not path.exists() or not entry.get("expected_strings"):
            continue
        checked += 1
        decoded = decode_page(path.read_bytes(), entry.get("known_charset"), Counter())
        for expected in entry["expected_strings"]:
            assert expected in decoded.text, (path.name, decoded.charset)
    assert checked >= 3


def test_real_crawl_pages_decode_with_hardly_a_wrong_byte(shared_data: Path) -> None:
    crawl = shared_data / "crawl"
    charsets: Counters = Counter()
    [head] = crawl.glob("commoncrawl/*head50.warc.gz")
    for path in (head, crawl / "edge" / "qsl.net-encoding-alias.warc.gz"):
        for page in read_warc_pages(path, path.name, Counter(), [], 10**7):
            decoded = decode_page(page.content, page.charset, Counter())
            charsets[decoded.charset] += 1
            assert decoded.text.count("\ufffd") <= len(decoded.text) / 1000, page.url
    assert {"gbk", "utf-8", "windows-1251"} <= set(charsets)


def test_the_module_needs_no_other_part_of_the_stage() -> None:
    """A child process starts in a fraction of a second because of it."""
    code = "import sys, pipelines.extract.html; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
