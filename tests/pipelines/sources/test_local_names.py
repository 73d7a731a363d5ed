"""Files whose names are no UTF-8, and paths that are no files."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from pipelines.config import LocalFilesSource
from pipelines.core.config import ConfigError
from pipelines.core.records import Shard
from pipelines.sources.fetching.fetch import FetchError
from pipelines.sources.fetching.local_copy import local_copy, local_path
from pipelines.sources.local_files import LocalFiles


def shards_of(*paths: object) -> list[Shard]:
    tree = {"kind": "local_files", "paths": list(map(str, paths))}
    return LocalFiles().list_shards(LocalFilesSource.model_validate(tree), "")


def odd_file(folder: Path, name: bytes, text: str) -> str:
    path = os.path.join(os.fsencode(folder), name)
    try:
        with open(path, "wb") as file:
            file.write(text.encode())
    except OSError:
        pytest.skip("this file system takes no names that are not UTF-8")
    return os.fsdecode(path)


def test_a_name_that_is_no_utf8_can_be_stored_and_opens(tmp_path: Path) -> None:
    odd_file(tmp_path, b"b\xff.txt", "Text eins.")
    odd_file(tmp_path, "ä%C3.txt".encode(), "Text zwei.")
    found = {}
    for shard in shards_of(tmp_path / "*.txt"):
        stored = json.dumps(asdict(shard), ensure_ascii=False).encode("utf-8")  # strict
        shard = Shard(**json.loads(stored))
        with local_copy(shard.url) as path:
            [page] = LocalFiles().read_pages(path, shard, Counter(), [], 10**6)
        assert page.url.isascii()
        found[Path(shard.name).name] = page.content.decode()
    assert found == {"b%FF.txt": "Text eins.", "ä%C3.txt": "Text zwei."}


def test_two_files_never_share_a_name(tmp_path: Path) -> None:
    odd_file(tmp_path, b"b\xff.txt", "eins")
    (tmp_path / "b%FF.txt").write_text("zwei")
    with pytest.raises(ConfigError, match=r"b%FF\.txt: two files go by this name.*rename one"):
        shards_of(tmp_path / "*.txt")
    assert local_path(str(tmp_path / "b%FF.txt")) == tmp_path / "b%FF.txt"


def test_percent_signs_stand_for_themselves_where_a_file_is_called_so(tmp_path: Path) -> None:
    for name in ("100%.txt", "a%20b.txt", "c%41.txt"):
        (tmp_path / name).write_text("x")
        with local_copy(str(tmp_path / name)) as path:
            assert path.name == name
    for absent in ("a b%FF.txt", "A.txt", "%00.txt", "x%FF.txt"):
        with pytest.raises(FetchError, match="no such file"), local_copy(str(tmp_path / absent)):
            pass


def test_what_is_no_file_is_called_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "gone")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s.jsonl"))
    for name, what in (
        ("pipe.jsonl", "is a named pipe.*write it to a file first"),
        ("folder.jsonl", "is a folder"),
        ("s.jsonl", "is a socket"),
    ):
        with pytest.raises(ConfigError, match=rf"{name}.*{what}"):
            shards_of(tmp_path / name)
    for name, what in (
        ("pipe.jsonl", "is a named pipe"),
        ("folder.jsonl", "is a folder"),
        ("link.jsonl", "a link to .*gone, which is not there"),
        ("absent", "no such file"),
    ):
        with (
            pytest.raises(FetchError, match=rf"{name}.*{what}"),
            local_copy(str(tmp_path / name)),
        ):
            pass
    listener.close()
