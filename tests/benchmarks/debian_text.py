"""More than 1 GB of real text in some fifty languages, from Debian's packages.

The help of LibreOffice, manual pages, package descriptions, and documentation in HTML. apt-get
downloads the packages once, into .babelmill/bench; nothing of them is kept in the project.
"""

from __future__ import annotations

import gzip
import html
import io
import lzma
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.help_pages import CACHE, help_pages
from tests.benchmarks.machine import Skipped

MANUALS = [
    *("cs", "da", "de", "de-dev", "el", "es", "es-dev", "fi", "fr", "fr-dev", "hu", "id", "it"),
    *("ja", "ja-dev", "nl", "pl", "pl-dev", "pt-br", "ro", "ru", "ru-dev", "sr", "sv", "tr", "uk"),
    *("vi", "zh"),
]
PACKAGES = [
    *(f"manpages-{name}" for name in MANUALS),
    *("gnome-user-docs", "lilypond-doc-html", "debian-handbook", "postgresql-doc-15"),
    *("linux-doc-6.1", "cppreference-doc-en-html", "openjdk-17-doc", "rust-doc", "scala-doc"),
    *("racket-doc", "erlang-doc", "python-pandas-doc", "libboost1.81-doc", "ghc-doc"),
    *("qtbase5-doc-html", "wx3.2-doc", "libfastutil-java-doc", "gnuradio-doc"),
]
FOLDER = CACHE / "documentation"
HIDDEN = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
TAG = re.compile(r"<[^>]*>")
ROFF = re.compile(r'^\.\S+ ?|^[.\']\\".*$|\\f[A-Z]|\\&', re.MULTILINE)
BYTES = 1_050_000_000


def text_file(data: Path) -> Path:
    """A file of lines, as they come, repeated ones too, of a little more than 1 GB.

    Raises:
        Skipped: the packages cannot be had on this system, or are too small.
    """
    target = CACHE / "text-1GB.txt"
    if target.is_file():
        return target
    attempt, size = target.with_suffix(".attempt"), 0
    with attempt.open("w", encoding="utf-8", newline="\n") as file:
        for text in texts(data):
            for line in text.splitlines():
                if line := " ".join(line.split()):
                    file.write(line + "\n")
                    size += len(line.encode("utf-8", "replace")) + 1
            if size >= BYTES:
                break
    if size < BYTES:
        raise Skipped(f"the packages have {size:,} bytes of text; the benchmark needs {BYTES:,}")
    attempt.rename(target)
    return target


def texts(data: Path) -> Iterator[str]:
    """Texts of all sources, those in many languages first."""
    for page in help_pages():
        yield plain(page.content)
    for path in sorted((data / "text" / "ddtp").glob("*.xz")):
        yield lzma.decompress(path.read_bytes()).decode("utf-8")
    for package in PACKAGES:
        yield from texts_of(package)


def texts_of(package: str) -> Iterator[str]:
    """Texts of a package's pages: HTML, and manual pages without their macros."""
    listing = subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", archive_of(package)], stdout=subprocess.PIPE
    )
    if listing.stdout is None:
        raise RuntimeError("no pipe")
    with listing, tarfile.open(fileobj=listing.stdout, mode="r|") as members:
        for member in members:
            name = member.name.removesuffix(".gz")
            manual = "/man/" in name
            reader = members.extractfile(member) if member.isfile() else None
            if reader is None or not (manual or name.endswith((".html", ".rst", ".txt", ".page"))):
                continue
            content = reader.read()
            if member.name.endswith(".gz"):
                content = gzip.GzipFile(fileobj=io.BytesIO(content)).read()
            yield ROFF.sub("", content.decode("utf-8", "replace")) if manual else plain(content)


def plain(content: bytes) -> str:
    """The text of a page of markup."""
    return html.unescape(TAG.sub(" ", HIDDEN.sub(" ", content.decode("utf-8", "replace"))))


def archive_of(package: str) -> Path:
    """The package, downloaded once.

    Raises:
        Skipped: it cannot be had.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not list(FOLDER.glob(f"{package}_*.deb")):
        try:
            subprocess.run(
                ["apt-get", "download", "-qq", package], cwd=FOLDER, check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise Skipped(f"Debian's package {package} cannot be had: {error}") from error
    [archive] = FOLDER.glob(f"{package}_*.deb")
    return archive
