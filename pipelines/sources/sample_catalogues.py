"""Real multilingual text that is on the machine anyway: translation catalogues of packages.

Django, Sphinx and Wagtail (BSD licences) carry some hundred locales of translated messages. They
are read as files; the packages are not imported. Compiled catalogues (`.mo`) hold finished
translations only: msgfmt leaves fuzzy and empty ones out.
"""

from __future__ import annotations

import importlib.metadata
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from babel.messages.mofile import read_mo

from pipelines.core.config import ConfigError
from pipelines.core.hashing import stable_uint64

PACKAGES = ("django", "sphinx", "wagtail")
INSTALL = "pip install 'babelmill[sample]'"
LEAST_MESSAGES, MOST_MESSAGES = 10, 40
CATALOGUE = re.compile(r"(?P<section>.*?)/?locale/(?P<locale>[^/]+)/LC_MESSAGES/[^/]+\.mo$")
MARKUP = re.compile(r"<[^<>]*>")
LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Page:
    """Some consecutive messages of one section in one locale: the text of one made page."""

    package: str
    locale: str
    """As the package writes it: pt_BR."""
    section: str
    """The part of the package that the messages belong to: django-admin."""
    number: int
    messages: tuple[str, ...]

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"https://{self.package}.example/{self.locale}/{self.section}/{self.number}.html"

    @property
    def title(self) -> str:
        """The page's first message, or its start."""
        return self.messages[0][:60].strip()


def installed_versions() -> dict[str, str]:
    """Versions of the packages that the text comes from.

    Raises:
        ConfigError: one is missing; says what to install.
    """
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise ConfigError(
                f"the sample mirror takes its text from {', '.join(PACKAGES)}, and {package} is "
                f"not installed: {INSTALL}"
            ) from None
    return versions


def read_pages() -> list[Page]:
    """All pages, sorted by address; the same packages give the same pages.

    Raises:
        ConfigError: a package is missing, or holds no compiled catalogue.
    """
    installed_versions()
    pages: dict[str, Page] = {}
    for package in PACKAGES:
        sections: dict[tuple[str, str], dict[str, None]] = {}
        for section, locale, path in _catalogues(package):
            messages = sections.setdefault((section, locale), {})
            # English pages are made of the message ids, which every catalogue carries.
            english = sections.setdefault((section, "en"), {})
            for source, translated in _messages(path):
                english.setdefault(source)
                if translated != source and not locale.startswith("en"):
                    messages.setdefault(translated)
        if not sections:
            raise ConfigError(f"{package} is installed without its translations: {INSTALL}")
        for (section, locale), messages in sections.items():
            for page in _pages_of(package, locale, section, list(messages)):
                pages[page.url] = page
    return [pages[url] for url in sorted(pages)]


def _catalogues(package: str) -> Iterator[tuple[str, str, Path]]:
    """(section, locale, path) of each compiled catalogue, sorted by path."""
    files = importlib.metadata.files(package) or []
    for file in sorted(files, key=str):
        parts = file.as_posix().split("/", 1)
        match = CATALOGUE.match(parts[-1]) if len(parts) == 2 else None
        if parts[0] != package or match is None:
            continue
        section = match["section"].replace("contrib/", "").replace("conf", "core")
        names = [package, *(part for part in section.split("/") if part)]
        yield "-".join(names[:2]).replace("_", "-"), match["locale"], Path(str(file.locate()))


def _messages(path: Path) -> Iterator[tuple[str, str]]:
    """(source, translation) pairs of a catalogue; plural forms come one by one."""
    try:
        with path.open("rb") as file:
            catalogue = read_mo(file)
    except (OSError, ValueError, LookupError, struct.error) as error:
        raise ConfigError(f"{path} is not a compiled catalogue ({error}): {INSTALL}") from error
    for message in catalogue:
        if not message.id:
            continue  # the header
        sources = message.id if isinstance(message.id, tuple | list) else (message.id,)
        strings = message.string if isinstance(message.string, tuple | list) else (message.string,)
        for index, string in enumerate(strings):
            source = _plain(sources[min(index, len(sources) - 1)])
            translated = _plain(string or "")
            if LETTER.search(source) and LETTER.search(translated):
                yield source, translated


def _plain(message: str) -> str:
    """A message as one line without tags."""
    return " ".join(MARKUP.sub("", message).split())


def _pages_of(package: str, locale: str, section: str, messages: list[str]) -> Iterator[Page]:
    start = number = 0
    while start < len(messages):
        spread = MOST_MESSAGES - LEAST_MESSAGES + 1
        size = LEAST_MESSAGES + stable_uint64(package, locale, section, number) % spread
        # What is left over would make a page that is too short: it joins the last one.
        if len(messages) - start - size < LEAST_MESSAGES:
            size = len(messages) - start
        yield Page(package, locale, section, number, tuple(messages[start : start + size]))
        start += size
        number += 1
