"""The filter that masks e-mail addresses, public IP addresses and phone numbers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

import phonenumbers
import regex

from pipelines.config import PersonalDataFilter
from pipelines.core.manifest import Counters
from pipelines.core.records import Document
from pipelines.core.words import UNSPACED_SCRIPTS

_UNSPACED = "".join(rf"\p{{sc={script}}}" for script in UNSPACED_SCRIPTS)
_LETTERS = rf"[[\p{{L}}\p{{M}}\p{{Nd}}]--[{_UNSPACED}]]"
_LOCAL = rf"[[\p{{L}}\p{{M}}\p{{Nd}}._%+'-]--[{_UNSPACED}]]"

# Every run has a longest length (RFC 5321) and begins where none is running: linear in the text.
EMAIL = regex.compile(
    rf"(?<!{_LOCAL}){_LOCAL}{{1,64}}@"
    rf"(?:{_LETTERS}(?:[{_LETTERS}-]{{0,61}}{_LETTERS})?\.){{1,8}}"
    rf"(?:xn--[a-z0-9-]{{2,59}}|[[\p{{L}}]--[{_UNSPACED}]]{{2,24}})(?![{_LETTERS}@])",
    flags=regex.V1,
)
FILE_ENDINGS = frozenset({"png", "jpg", "jpeg", "gif", "svg", "webp", "avif", "css", "html", "php"})
"""`logo@2x.png` is no address; none of these is a top-level domain."""

IPV4 = re.compile(r"(?<![\w.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\w|\.\d)", re.ASCII)
IPV4_MARK = re.compile(r"\.\d{1,3}\.\d")
IPV6_MARK = re.compile(r":[0-9A-Fa-f]{0,4}:")
"""What every address holds; a search from a fixed character is many times faster."""
VERSION_BEFORE = re.compile(
    r"(?:\bv|\bver|\bversions?|\bversión|\bversão|\bверси[яию]|\breleases?|\bfirmware|\bbuild"
    r"|\brev|\brevision|\bsection|\bchapter|\bkapitel|§|版本)[.:]?\s*$",
    re.IGNORECASE,
)
BEFORE = 16
"""Characters before an IPv4 address that may say it is a version or section number."""
IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{1,4}:[0-9A-Fa-f:]{2,38}(?![\w:]|\.\d)", re.ASCII)
IPV6_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
DOCUMENTATION = ipaddress.IPv6Network("2001:db8::/32")

PHONE = re.compile(
    r"(?<![\w+])(?:\([+＋][1-9]\d{0,2}\)|[+＋]\(?[1-9])"
    r"(?:[ \u00a0().\-–/]{0,2}\d){6,16}(?!\w)"
)
PHONE_MARK = re.compile(r"\+\(?[1-9][ \u00a0().\-–/\d]|＋")
LAST_GROUP = re.compile(r"[ \u00a0().\-–/]+\d+$")


def mask_personal_data(
    document: Document, config: PersonalDataFilter, count: Counters
) -> str | None:
    """Put placeholders for addresses and numbers; never drops a document.

    Changes the text: each address or number that is found becomes its placeholder, all else stays.
    Counts `masked.email`, `masked.ip`, `masked.phone` by language.
    """
    text, language = document.text, document.language

    def mask(found: int, what: str) -> None:
        if found:
            count[f"masked.{what}"] += found
            count[f"masked.{what}/{language}"] += found

    if config.email and "@" in text:
        text, found = replace(EMAIL, text, lambda match: _email(match, config.email_placeholder))
        mask(found, "email")
    if config.ip and IPV4_MARK.search(text):
        text, found = replace(IPV4, text, lambda match: _ipv4(match, config.ipv4_placeholder))
        mask(found, "ip")
    if config.ip and IPV6_MARK.search(text):
        text, found = replace(IPV6, text, lambda match: _ipv6(match, config.ipv6_placeholder))
        mask(found, "ip")
    if config.phone and ("+" in text or "＋" in text) and PHONE_MARK.search(text):
        text, found = replace(PHONE, text, lambda match: _phone(match, config.phone_placeholder))
        mask(found, "phone")
    if text != document.text:
        document.text = text
    return None


def replace(
    pattern: re.Pattern[str], text: str, masked: Callable[[re.Match[str]], str | None]
) -> tuple[str, int]:
    """Replace matches by what `masked` says; None leaves one as it is. Returns text and count."""
    found = 0

    def put(match: re.Match[str]) -> str:
        nonlocal found
        new = masked(match)
        if new is None or new == match.group():
            return match.group()
        found += 1
        return new

    return pattern.sub(put, text), found


def _email(match: re.Match[str], placeholder: str) -> str | None:
    return None if match.group().rpartition(".")[2].lower() in FILE_ENDINGS else placeholder


def _ipv4(match: re.Match[str], placeholder: str) -> str | None:
    """Mask public addresses; not versions, section numbers, or four numbers of one digit."""
    found = match.group()
    try:
        address = ipaddress.IPv4Address(found)
    except ValueError:  # a number over 255, or with a leading zero
        return None
    before = match.string[max(0, match.start() - BEFORE) : match.start()]
    if len(found) == len("1.2.3.4") or VERSION_BEFORE.search(before):
        return None
    return placeholder if address.is_global and not address.is_multicast else None


def _ipv6(match: re.Match[str], placeholder: str) -> str | None:
    """Mask global unicast addresses of at least three groups; not times or C++ names."""
    found = match.group()
    try:
        address = ipaddress.IPv6Address(found)
    except ValueError:
        return None
    if len([group for group in found.split(":") if group]) < 3:
        return None
    public = address in IPV6_GLOBAL_UNICAST and address not in DOCUMENTATION
    return placeholder if public else None


def _phone(match: re.Match[str], placeholder: str) -> str | None:
    """Mask the longest beginning that is a number of its country's plan (libphonenumber)."""
    found = number = match.group()
    while True:
        try:
            if phonenumbers.is_valid_number(phonenumbers.parse(number, None)):
                return placeholder + found[len(number) :]
        except phonenumbers.NumberParseException:
            pass  # too short, or a country code that none has
        shorter = LAST_GROUP.sub("", number)
        if shorter == number:
            return None
        number = shorter
