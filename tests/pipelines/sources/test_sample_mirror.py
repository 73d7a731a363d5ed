"""The mirror: stable, whole, and read like the real servers."""

from __future__ import annotations

import hashlib
import importlib.metadata
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from pipelines.core.config import ConfigError
from pipelines.sources.sample_catalogues import installed_versions, read_pages
from pipelines.sources.sample_mirror import mirror_folder, serve, split_pages


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_two_builds_give_the_same_bytes_and_a_folder_is_reused(tmp_path: Path) -> None:
    one, other = mirror_folder(tmp_path / "a"), mirror_folder(tmp_path / "b")
    assert digests(one) == digests(other)
    before = one.stat().st_ino
    assert mirror_folder(tmp_path / "a").stat().st_ino == before
    assert [path.name for path in (tmp_path / "a").iterdir()] == [one.name]


def test_pages_hold_much_text_in_many_locales() -> None:
    pages = read_pages()
    assert len({page.locale for page in pages}) >= 100
    assert sum(len(message) for page in pages for message in page.messages) > 4_000_000
    assert len({page.url for page in pages}) == len(pages)
    assert max(len(page.messages) for page in pages) < 50


def test_a_third_of_the_old_snapshot_is_in_the_new_one_and_wikis_in_neither() -> None:
    new, old, wikis = split_pages(read_pages())
    shared = {page.url for page in new} & {page.url for page in old}
    assert 0.28 < len(shared) / len(old) < 0.39
    in_wikis = {page.url for pages in wikis.values() for page in pages}
    assert not in_wikis & {page.url for page in [*new, *old]}
    assert all(wikis.values())


def test_the_server_gives_ranges_and_stable_version_marks(tmp_path: Path) -> None:
    path = "crawl-data/CC-MAIN-2026-44/warc.paths.gz"
    folder = mirror_folder(tmp_path)
    marks = set()
    for _ in range(2):
        with serve(folder) as address:
            request = urllib.request.Request(f"{address}/{path}", headers={"Range": "bytes=2-5"})
            with urllib.request.urlopen(request) as answer:
                assert answer.status == 206
                assert answer.read() == (folder / path).read_bytes()[2:6]
                marks.add(answer.headers["ETag"])
    assert len(marks) == 1


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "wagtail":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(ConfigError, match=r"wagtail is not installed.*babelmill\[sample\]"):
        installed_versions()


def test_labels_have_enough_pages_to_learn_from() -> None:
    sections = Counter(page.section for page in read_pages())
    assert sum(count > 100 for count in sections.values()) >= 8
