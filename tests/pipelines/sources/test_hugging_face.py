"""Datasets: local files through `datasets`, a dataset folder, parts, identity, errors."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.config import HuggingFaceSource
from pipelines.core.config import ConfigError
from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.base import RawPage
from pipelines.sources.fetching.fetch import FetchError
from pipelines.sources.hugging_face import HuggingFace


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for part in range(3):
        rows = [{"text": f"Row {part}-{n}", "url": f"https://x.test/{n}"} for n in range(5)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"part-{part}.jsonl").write_text(lines)
    return tmp_path


def shards_of(dataset: object, **settings: object) -> list[Shard]:
    tree = {"kind": "hugging_face", "dataset": str(dataset), **settings}
    return HuggingFace().list_shards(HuggingFaceSource.model_validate(tree), "")


def pages_of(shard: Shard, counters: Counters | None = None) -> list[RawPage]:
    counters = Counter() if counters is None else counters
    return list(HuggingFace().read_pages(None, shard, counters, [], 10**6))


def texts(shards: list[Shard]) -> list[str]:
    return [page.content.decode() for shard in shards for page in pages_of(shard)]


RIGHT = [f"Row {part}-{n}" for part in range(3) for n in range(5)]


def test_a_dataset_folder_and_files_in_a_format_are_read_in_order(folder: Path) -> None:
    for shards in (
        shards_of(folder),
        shards_of("json", data_files=[str(folder / "*.jsonl")]),
    ):
        assert texts(shards) == RIGHT
        assert [page.offset for page in pages_of(shards[0])] == list(range(15))
        assert shards[0].size == sum(p.stat().st_size for p in folder.glob("*.jsonl"))
        assert pages_of(shards[0])[7].url == "https://x.test/2"


def test_other_formats(folder: Path) -> None:
    pq.write_table(pa.table({"text": ["eins", "zwei"]}), folder / "a.parquet")
    (folder / "a.txt").write_text("eins\nzwei\n")
    (folder / "a.csv").write_text("id,text\n1,eins\n2,zwei\n")
    for kind, name in (("parquet", "a.parquet"), ("text", "a.txt"), ("csv", "a.csv")):
        assert texts(shards_of(kind, data_files=[str(folder / name)])) == ["eins", "zwei"], kind


def test_parts_share_the_files_and_leave_none_out(folder: Path) -> None:
    shards = shards_of(folder, shards=3)
    assert len({shard.name for shard in shards}) == 3
    assert sorted(texts(shards)) == sorted(RIGHT)
    assert all(len(pages_of(shard)) == 5 for shard in shards)
    with pytest.raises(ConfigError, match=r"shards = 4.*3 file"):
        shards_of(folder, shards=4)


def test_a_limit_of_rows_counts_for_each_part(folder: Path) -> None:
    assert [len(pages_of(shard)) for shard in shards_of(folder, shards=3, max_rows=2)] == [2, 2, 2]


def test_what_identifies_a_part(folder: Path) -> None:
    def mark(**settings: object) -> tuple[str, str | None]:
        [shard] = shards_of(folder, **settings)
        return shard.name, shard.etag

    before = mark()
    assert mark() == before
    assert mark(data_files=["part-0.jsonl", "part-1.jsonl"]) != before
    assert mark(max_rows=3)[1] != before[1] and mark(text_column="url")[1] != before[1]
    path = folder / "part-1.jsonl"
    content = path.read_text()
    path.write_text(content.replace("1-1", "1-9"))
    os.utime(path, ns=(1, 1))
    assert mark() != before


def test_files_that_changed_since_they_were_listed_are_refused(folder: Path) -> None:
    [shard] = shards_of(folder)
    (folder / "part-2.jsonl").write_text('{"text": "other", "url": "u"}\n')
    with pytest.raises(FetchError, match="changed since they were listed"):
        pages_of(shard)


def test_rows_without_text_are_counted(folder: Path) -> None:
    (folder / "part-1.jsonl").write_text('{"text": null, "url": "u"}\n{"text": "x", "url": "u"}\n')
    [shard] = shards_of(folder)
    counters: Counters = Counter()
    assert len(pages_of(shard, counters)) == 11
    assert counters["dropped.bad_line"] == 1 and counters["records"] == 12


def test_damage_in_the_middle_names_the_dataset_and_the_row(folder: Path) -> None:
    [shard] = shards_of(folder)
    stamp = (folder / "part-2.jsonl").stat()
    (folder / "part-2.jsonl").write_bytes(b"\x00" * stamp.st_size)
    os.utime(folder / "part-2.jsonl", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(FetchError, match=r"cannot be read after row 10"):
        pages_of(shard)


@pytest.mark.parametrize(
    ("dataset", "settings", "problem"),
    [
        ("{folder}", {"split": "test"}, r"split = 'test'.*Available splits"),
        ("{folder}", {"text_column": "body"}, r"no column text_column = 'body'.*text, url"),
        ("{folder}/absent", {}, r"absent.*cannot be opened"),
        ("json", {}, r"dataset = 'json' is a format: name its files in data_files"),
        ("json", {"data_files": ["{folder}/no*.jsonl"]}, r"cannot be opened|no file"),
        ("somebody/some-dataset", {}, r"somebody/some-dataset.*cannot be opened"),
    ],
)
def test_what_cannot_be_opened_is_one_message(
    folder: Path, dataset: str, settings: dict[str, object], problem: str
) -> None:
    text = json.dumps(settings).replace("{folder}", str(folder))
    with pytest.raises(ConfigError, match=problem) as caught:
        shards_of(dataset.replace("{folder}", str(folder)), **json.loads(text))
    assert "\n" not in str(caught.value)


def test_half_a_surrogate_pair_is_no_crash_without_a_name(folder: Path) -> None:
    """Case C37: `datasets` reads JSON with its own parser; whatever it does must not be silent."""
    path = folder / "part-1.jsonl"
    path.write_text('{"text":"bad \\ud83d end","url":"u"}\n')
    try:
        [shard] = shards_of("json", data_files=[str(path)])
        [page] = pages_of(shard)
    except (ConfigError, FetchError) as error:
        assert "json" in str(error)
    else:
        assert page.content.decode().startswith("bad ")
