"""The store on a real S3-compatible server that fails one request in ten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.core.attempt import Attempt
from pipelines.core.store import Store, may_pass
from tests.flaky_proxy import FAILURES, flaky_store


@pytest.fixture(scope="module")
def flaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Counter[str]]]:
    with flaky_store(tmp_path_factory.mktemp("s3") / "server") as found:
        yield found


def test_every_operation_gets_through_and_no_byte_is_wrong(
    flaky: tuple[Store, Counter[str]], tmp_path: Path
) -> None:
    store, done = flaky
    contents = {f"small/{n}": f"content {n}".encode() * (n + 1) for n in range(60)}
    for key, content in contents.items():
        store.publish_bytes(key, content)
    assert {key: store.read_bytes(key) for key in contents} == contents
    assert store.read_many([*contents, "small/none"]) == contents
    assert store.sizes("small") == {key: len(content) for key, content in contents.items()}
    assert [store.size(key) for key in contents] == [len(c) for c in contents.values()]
    assert store.size("small/none") is None

    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 4096 * 12)  # several parts of an upload
    for number in range(4):
        store.publish_file(large, f"large/{number}")
        assert store.read_bytes(f"large/{number}") == large.read_bytes()

    table = pa.table({"n": list(range(10_000))})
    attempt = Attempt(store, "tables", "id")
    for number in range(12):
        attempt.write_table(f"part-{number}", table)
        assert store.read_table(f"tables/part-{number}.parquet").equals(table)
        read = pa.concat_tables(store.iterate_tables(f"tables/part-{number}.parquet"))
        assert read.equals(table)

    assert all(done[failure] >= 3 for failure in FAILURES), done
    assert done["passed"] > 8 * sum(done[failure] for failure in FAILURES)


def test_what_cannot_pass_is_not_tried_again() -> None:
    assert may_pass(ConnectionResetError())
    assert may_pass(TimeoutError())
    assert not may_pass(FileNotFoundError())
    assert not may_pass(PermissionError())
    assert not may_pass(OSError(28, "No space left on device"))
