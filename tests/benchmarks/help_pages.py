"""87,000 real pages in 34 languages: the help of LibreOffice, from Debian's packages.

The packages are downloaded by apt-get once, into .babelmill/bench; nothing of them is kept in the
project. The body of each page stands in one element, so the text that should come out is known.
"""

from __future__ import annotations

import html
import io
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from pipelines.core.hashing import stable_uint64
from tests.benchmarks.machine import Skipped

CACHE = Path(__file__).resolve().parents[2] / ".babelmill" / "bench"
LANGUAGES = [
    "ca",
    "cs",
    "da",
    "de",
    "dz",
    "el",
    "en-gb",
    "en-us",
    "es",
    "et",
    "eu",
    "fi",
    "fr",
    "gl",
    "hi",
    "hu",
    "id",
    "it",
    "ja",
    "km",
    "ko",
    "nl",
    "om",
    "pl",
    "pt",
    "pt-br",
    "ru",
    "sk",
    "sl",
    "sv",
    "tr",
    "vi",
    "zh-cn",
    "zh-tw",
]
BODY = re.compile(r'<div id="DisplayArea"[^>]*>(.*?)<(?:footer|div id="DonationFrame")', re.DOTALL)
HIDDEN = re.compile(r"<(script|style|button)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
TAG = re.compile(r"<[^>]+>")


@dataclass(frozen=True)
class HelpPage:
    """One page."""

    language: str
    """Debian's name of it: `pt-br`."""
    url: str
    content: bytes

    @property
    def body(self) -> str | None:
        """The text of the article, known from the markup; None where the page has none."""
        found = BODY.search(self.content.decode("utf-8"))
        if found is None:
            return None
        return html.unescape(TAG.sub(" ", HIDDEN.sub(" ", found[1])))


def help_pages(languages: list[str] = LANGUAGES) -> Iterator[HelpPage]:
    """All pages, sorted by language and path.

    Raises:
        Skipped: the packages cannot be had on this system.
    """
    for language in languages:
        folder = _unpacked(language)
        for path in sorted(folder.glob("*/text/**/*.html")):
            name = path.relative_to(folder).as_posix()
            yield HelpPage(language, f"https://help.example/{language}/{name}", path.read_bytes())


def sample_warc(count: int) -> Path:
    """A WARC file (gzip, one member a record) of `count` pages drawn from all languages."""
    target = CACHE / f"help-{count}.warc.gz"
    if target.is_file():
        return target
    pages = sorted(help_pages(), key=lambda page: stable_uint64("bench", page.url))[:count]
    write_warc(pages, target)
    return target


def write_warc(pages: list[HelpPage], target: Path) -> None:
    """Write pages as response records."""
    target.parent.mkdir(parents=True, exist_ok=True)
    attempt = target.with_suffix(".attempt")
    with attempt.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for page in pages:
            headers = StatusAndHeaders(
                "200 OK", [("Content-Type", "text/html; charset=utf-8")], protocol="HTTP/1.1"
            )
            writer.write_record(
                writer.create_warc_record(
                    page.url, "response", payload=io.BytesIO(page.content), http_headers=headers
                )
            )
    attempt.rename(target)


def _unpacked(language: str) -> Path:
    folder = CACHE / "pages" / language
    if folder.is_dir():
        return folder
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Skipped(f"the pages come from Debian packages, and {tool} is not here")
    work = CACHE / "packages" / language
    work.mkdir(parents=True, exist_ok=True)
    package = f"libreoffice-help-{language}"
    try:
        subprocess.run(
            ["apt-get", "download", "-qq", package], cwd=work, check=True, capture_output=True
        )
        [archive] = work.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, work / "tree"], check=True)
    except (subprocess.CalledProcessError, ValueError) as error:
        raise Skipped(f"Debian's package {package} cannot be had: {error}") from error
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(work / "tree/usr/share/libreoffice/help", folder)
    shutil.rmtree(work)
    return folder
