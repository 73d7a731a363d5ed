"""The store on a real S3-compatible server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from pipelines.core.config import ConfigError
from pipelines.core.manifest import FileRef
from pipelines.core.shards import Attempt, StageFailed, Step, Unit, run_step
from pipelines.core.store import Store
from tests.object_store import found_by_environment, s3_server


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with (
        s3_server(tmp_path_factory.mktemp("s3") / "server") as environment,
        found_by_environment(environment),
    ):
        yield Store("s3://corpora/test")


def numbers(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    attempt.write_table(f"part-{attempt.unit_id}", pa.table({"n": list(range(10))}))
    if unit.key == config["fails"]:
        raise OSError("lost after the data, before the manifest")


def test_the_store_is_probed_written_listed_and_read(bucket: Store, tmp_path: Path) -> None:
    bucket.probe()
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 4096 * 12)  # 12 MiB: more than one part of an upload
    bucket.publish_file(large, "a/large")
    bucket.publish_bytes("a/small", b"1")

    assert bucket.size("a/large") == 12 * 2**20
    assert bucket.read_bytes("a/large") == large.read_bytes()
    assert bucket.keys("a") == ["a/large", "a/small"]
    bucket.delete("a")
    assert not bucket.exists("a/large")
    assert bucket.size("a/small") is None


def test_data_without_a_manifest_is_not_believed_and_done_again(bucket: Store) -> None:
    units = [Unit(name, (FileRef(path=name),)) for name in ("one", "two")]
    broken = Step("s3", 1, "numbers", {"fails": "two"}, numbers)
    with pytest.raises(StageFailed, match="shard two"):
        run_step(broken, units, bucket, "r", inline=True, quiet=True)
    assert len(bucket.keys("numbers/_manifests")) == 1

    record = run_step(
        Step("s3", 1, "numbers", {"fails": "nobody"}, numbers),
        units,
        bucket,
        "r",
        inline=True,
        quiet=True,
    )
    again = run_step(
        Step("s3", 1, "numbers", {"fails": "nobody"}, numbers),
        units,
        bucket,
        "r",
        inline=True,
        quiet=True,
    )

    assert (record.reused, again.reused) == (0, 2)
    assert [bucket.read_table(output.path).num_rows for output in record.outputs] == [10, 10]


def test_wrong_credentials_are_refused_before_work(
    bucket: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    fsspec.filesystem("s3").clear_instance_cache()

    with pytest.raises(ConfigError, match=r"store\.url = 's3://corpora/other'"):
        Store("s3://corpora/other").probe()

    monkeypatch.undo()
    fsspec.filesystem("s3").clear_instance_cache()
