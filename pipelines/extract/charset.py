"""Bytes of a page to text: which charset it is in, by the labels of the WHATWG encoding standard.

The order is that of the HTML standard (13.2.3.2): byte order mark, HTTP header, the page's own
declaration, detection. Unlike a browser, a declaration is not believed against the bytes: text that
is whole UTF-8 is UTF-8, and where a declared charset cannot read the bytes the detector is asked.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import cache

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from pipelines.core.manifest import Counters

BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16le"), (b"\xfe\xff", "utf-16be"))
META_CHARSET = re.compile(
    rb"<meta[\s/][^>]{0,300}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([A-Za-z0-9_.:-]{1,40})", re.I
)
XML_ENCODING = re.compile(
    rb"^\s{0,99}<\?xml[^>]{1,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})"
)
META_SEARCH_BYTES = 4096
"""Browsers look at 1,024 bytes; real pages declare later than that."""
SURELY_UTF8 = 8
"""Bytes above 127 from which whole UTF-8 cannot be an accident of another charset."""
MANY_WRONG = 0.05
"""From this share of U+FFFD among the characters above 127, a declaration is taken for wrong."""
HIGH_BYTES = bytes(range(128, 256))

# Python's codecs for WHATWG's names, where Python's codec of that name knows fewer characters.
CODECS = {
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "big5": "big5hkscs",
    "iso-2022-jp": "iso2022_jp_ext",
    "iso-8859-8-i": "iso8859-8",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
    "macintosh": "mac_roman",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}
# WHATWG's names by the names of Python's codecs, as resiliparse gives them.
NAMES = {
    "euc_jp": "euc-jp",
    "euc_kr": "euc-kr",
    "iso2022_jp": "iso-2022-jp",
    "iso8859-11": "windows-874",
    "mac-roman": "macintosh",
    "utf-16-le": "utf-16le",
    "utf-16-be": "utf-16be",
}
# Labels of the standard that resiliparse leaves out, and names that its detector uses.
LABELS = {
    "x-mac-cyrillic": "x-mac-cyrillic",
    "x-mac-ukrainian": "x-mac-cyrillic",
    "mac-cyrillic": "x-mac-cyrillic",
    "cp949": "euc-kr",
    "uhc": "euc-kr",
    "cp932": "shift_jis",
    "cp936": "gbk",
}
# No labels of the standard, but what pages write and can only mean one thing.
MISSPELT = re.compile(r"^(?:win|windows|cp|ansi)[-_ ]?(125\d|874)$")


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text and the charset it was read in."""

    text: str
    charset: str
    """WHATWG's name in lower case."""


@cache
def charset_named(label: str) -> str | None:
    """WHATWG's name, in lower case, of the charset that a label means; None for other labels."""
    label = label.strip(" \t\r\n\f\"';").lower()
    if label in LABELS:
        return LABELS[label]
    known = map_encoding_to_html5(label, fallback_utf8=False)
    if known is None:
        misspelt = MISSPELT.match(label)
        return f"windows-{misspelt[1]}" if misspelt else None
    name = str(known).lower()
    if name in NAMES:
        return NAMES[name]
    return re.sub(r"^cp(?=125)", "windows-", re.sub(r"^iso(?=8859)", "iso-", name))


def decode_page(content: bytes, header: str | None, counters: Counters) -> Decoded:
    """Decode an HTML page; bytes that mean nothing become U+FFFD.

    Args:
        header: the charset that the server declared.

    Counts `charset.unknown_label`, and `charset.wrong_label` where the bytes say otherwise.
    """
    marked = _marked(content)
    if marked is not None:
        return marked
    declared = _declared(content, header, counters)
    if declared in ("utf-16le", "utf-16be"):
        return Decoded(_decode(content, declared), declared)
    whole = _utf8(content)
    if whole is not None and (declared in (None, "utf-8") or _high_bytes(content) >= SURELY_UTF8):
        if declared not in (None, "utf-8"):
            counters["charset.wrong_label"] += 1
        # ASCII alone says nothing against what was declared.
        return Decoded(whole, "utf-8")
    if declared is None:
        return detected(content)
    text = _decode(content, declared)
    wrong = text.count("\ufffd")
    if wrong and wrong >= MANY_WRONG * (len(text) - _ascii_characters(text)):
        other = detected(content)
        if other.text.count("\ufffd") < wrong:
            counters["charset.wrong_label"] += 1
            return other
    return Decoded(text, declared)


def decode_plain(content: bytes, header: str | None, counters: Counters) -> Decoded:
    """Decode a plain text: byte order mark, UTF-8, the declared charset, the detector."""
    marked = _marked(content)
    if marked is not None:
        return marked
    whole = _utf8(content)
    if whole is not None:
        return Decoded(whole, "utf-8")
    name = charset_named(header) if header else None
    if header and name is None:
        counters["charset.unknown_label"] += 1
    if name == "utf-8":
        return Decoded(content.decode("utf-8", errors="replace"), "utf-8")
    return Decoded(_decode(content, name), name) if name else detected(content)


def detected(content: bytes) -> Decoded:
    """Decode by the detector (uchardet), which reads the bytes above 127 and what is near them."""
    found = str(detect_encoding(content, html5_compatible=False) or "utf-8")
    name = charset_named(found) or found.lower()
    try:
        return Decoded(_decode(content, name), name)
    except LookupError:  # a charset that Python has no codec for
        return Decoded(content.decode("utf-8", errors="replace"), "utf-8")


def _marked(content: bytes) -> Decoded | None:
    for mark, name in BOMS:
        if content.startswith(mark):
            return Decoded(_decode(content[len(mark) :], name), name)
    return None


def _declared(content: bytes, header: str | None, counters: Counters) -> str | None:
    if header:
        name = charset_named(header)
        if name is not None:
            return name
        counters["charset.unknown_label"] += 1
    head = content[:META_SEARCH_BYTES]
    meta = META_CHARSET.search(head) or XML_ENCODING.match(head)
    if meta is None:
        return None
    name = charset_named(meta[1].decode("ascii"))
    if name is None:
        counters["charset.unknown_label"] += 1
    # Who could read the declaration as ASCII knows that it is not UTF-16 (HTML, 13.2.3.2).
    return "utf-8" if name in ("utf-16le", "utf-16be") else name


def _utf8(content: bytes) -> str | None:
    if b"\x1b$" in content:  # ISO-2022-JP is made of ASCII bytes
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _high_bytes(content: bytes) -> int:
    return len(content) - len(content.translate(None, HIGH_BYTES))


def _ascii_characters(text: str) -> int:
    return len(text.encode("ascii", errors="ignore"))


def _decode(content: bytes, name: str) -> str:
    codec = CODECS.get(name, name)
    if name == "euc-jp":
        # NEC's extensions are part of the web's EUC-JP and of JIS X 0213's, not of Python's.
        try:
            return content.decode("euc_jp")
        except UnicodeDecodeError:
            codec = "euc_jis_2004"
    return codecs.decode(content, codec, errors="replace")
