"""A mirror of Common Crawl and Wikimedia in miniature, built on this machine, with real text.

The text is that of installed packages (see sample_catalogues.py); the files, their formats and
their layout are those of the real servers, and they are read over HTTP like the real ones.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from pipelines.core.hashing import digest, stable_uint64
from pipelines.sources.sample_catalogues import Page, installed_versions, read_pages
from pipelines.sources.sample_formats import SITE, warc_file, wet_file, wiki_dump

VERSION = 2
"""Raised whenever the builder would write other bytes from the same packages."""
WARC_SNAPSHOT, WET_SNAPSHOT = "CC-MAIN-2026-44", "CC-MAIN-2026-40"
WARC_FILES, WET_FILES = 8, 3
WIKI_DATE = "20261101"
WARC_TIME, WET_TIME = "2026-10-26T00:00:00Z", "2026-09-28T00:00:00Z"
FILE_TIME = 1_793_491_200
"""Modification time of all files (2026-11-01): the server makes its version marks from it."""
START_SECONDS = 20.0


def mirror_folder(parent: Path) -> Path:
    """The mirror's folder below `parent`: reused when it is there, else built.

    Its name carries the versions of the builder and of the packages. It is built beside and
    renamed, so a folder of that name is whole.

    Raises:
        ConfigError: a package that the text comes from is missing.
    """
    versions = installed_versions()
    name = "-".join(["mirror", str(VERSION), *(f"{k}{v}" for k, v in versions.items())])
    folder = parent / name
    if folder.is_dir():
        return folder
    parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
    try:
        _build(beside)
        try:
            beside.rename(folder)
        except OSError:
            # Another process built it meanwhile; the same packages gave the same bytes.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def split_pages(pages: Sequence[Page]) -> tuple[list[Page], list[Page], dict[str, list[Page]]]:
    """Deal the pages out: (new snapshot, old snapshot, wikis).

    A third of the pages in a wiki's language go to the wiki. Of the others three quarters are in
    the new snapshot; the old one has the last quarter and as many as half of that again.
    """
    new, old = [], []
    wikis: dict[str, list[Page]] = {wiki: [] for wiki in sorted(SITE)}
    for page in sorted(pages, key=lambda page: digest("order", page.url)):
        if page.locale in wikis and stable_uint64("wiki", page.url) % 3 == 0:
            wikis[page.locale].append(page)
            continue
        place = stable_uint64("snapshot", page.url) % 24
        if place < 18:
            new.append(page)
        if place < 3 or place >= 18:  # 3 of 9 are in both
            old.append(page)
    return new, old, wikis


def _build(root: Path) -> None:
    new, old, wikis = split_pages(read_pages())
    for snapshot, kind, pages, count in (
        (WARC_SNAPSHOT, "warc", new, WARC_FILES),
        (WET_SNAPSHOT, "wet", old, WET_FILES),
    ):
        paths = []
        for number in range(count):
            ending = "warc.gz" if kind == "warc" else "warc.wet.gz"
            name = f"{snapshot}-{number:05d}.{ending}"
            write = warc_file if kind == "warc" else wet_file
            stamp = WARC_TIME if kind == "warc" else WET_TIME
            content = write(pages[number::count], name, stamp)
            # A crawl's path is the identity of its file: other content, another path.
            segment = hashlib.sha256(content).hexdigest()[:16]
            path = f"crawl-data/{snapshot}/segments/{segment}/{kind}/{name}"
            _write(root / path, content)
            paths.append(path)
        listing = gzip.compress(("\n".join(paths) + "\n").encode(), mtime=0)
        _write(root / f"crawl-data/{snapshot}/{kind}.paths.gz", listing)
    for wiki, members in wikis.items():
        _write_wiki(root, wiki, members)


def _write_wiki(root: Path, wiki: str, pages: Sequence[Page]) -> None:
    folder, stem = f"{wiki}wiki/{WIKI_DATE}", f"{wiki}wiki-{WIKI_DATE}-pages-articles-multistream"
    dump, index = wiki_dump(pages, wiki, WIKI_DATE)
    files = {}
    for name, content in ((f"{stem}.xml.bz2", dump), (f"{stem}-index.txt.bz2", index)):
        _write(root / folder / name, content)
        files[name] = {
            "size": len(content),
            "url": f"/{folder}/{name}",
            "md5": hashlib.md5(content).hexdigest(),
            "sha1": hashlib.sha1(content).hexdigest(),
        }
    job = {"status": "done", "updated": "2026-11-01 00:00:00", "files": files}
    status = {"version": "0.8", "jobs": {"articlesmultistreamdump": job}}
    _write(root / folder / "dumpstatus.json", json.dumps(status, sort_keys=True).encode())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (FILE_TIME, FILE_TIME))


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine; yields the address.

    Raises:
        TimeoutError: the server did not come up.
    """
    app = Starlette(routes=[Mount("/", StaticFiles(directory=folder))])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    # Bound here, so that the port is known and taken before the thread starts.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + START_SECONDS
        try:
            while not server.started:
                if time.monotonic() > deadline or not thread.is_alive():
                    raise TimeoutError(f"the mirror's server did not start on {folder}")
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(START_SECONDS)
