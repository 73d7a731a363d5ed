"""Packing to a real S3-compatible server: the same bytes, and nothing half-written is believed."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.inspect_command import inspect
from pipelines.core.manifest import StageRecord, read_manifests, read_stage
from pipelines.core.records import check_packed, check_widths
from pipelines.core.shards import StageFailed
from pipelines.core.store import Store
from tests.object_store import found_by_environment, s3_server
from tests.pipelines.pack_sequences.corpus import make_corpus, model, rows_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("s3") / "server"
    with s3_server(folder) as environment, found_by_environment(environment):
        yield environment


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, StageRecord]:
    store = Store(str(tmp_path_factory.mktemp("undisturbed")))
    return store, make_corpus(store).pack(masking={"views": 2})


def digests(record: StageRecord) -> dict[str, str]:
    return {output.path: output.sha256 for output in record.outputs}


def check_objects(store: Store, record: StageRecord) -> None:
    """Counts and checksums of the manifests are those of the bytes that the server gives."""
    outputs = [o for manifest in read_manifests(store, record) for o in manifest.outputs]
    assert outputs == record.outputs
    for output in outputs:
        content = store.read_bytes(output.path)
        assert len(content) == output.bytes
        assert hashlib.sha256(content).hexdigest() == output.sha256
        with store.open(output.path) as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            stored = check_packed(parquet.schema_arrow.metadata, 302, output.path)
            table = parquet.read()
        check_widths(table, stored, output.path)
        assert table.num_rows == output.rows
        values = [chunk.values for chunk in table["tokens"].chunks]
        assert sum(part.nbytes for part in values) == stored.id_bytes * sum(map(len, values))


def test_what_lies_on_the_server_is_what_lies_on_a_disk(
    server: dict[str, str], undisturbed: tuple[Store, StageRecord], tmp_path: Path
) -> None:
    local, wanted = undisturbed
    store = Store("s3://corpora/same")
    record = make_corpus(store).pack(masking={"views": 2})
    assert digests(record) == digests(wanted)
    assert record.counters == wanted.counters
    check_objects(store, record)
    assert rows_of(store, record) == rows_of(local, wanted)
    assert make_corpus(store).pack(masking={"views": 2}).reused == record.units

    path = tmp_path / "spm.model"
    path.write_bytes(model())
    import typer

    app = typer.Typer()
    app.command()(inspect)
    address = f"s3://corpora/same/{record.outputs[0].path}"
    shown = CliRunner().invoke(app, [address, "--vocabulary", str(path), "--rows", "2"])
    assert shown.exit_code == 0, shown.output
    assert "row 1" in shown.stdout and "<mask>]" in shown.stdout


KILLED = """
import os, signal, sys
from pipelines.core import shards
from pipelines.core.store import Store
from tests.pipelines.pack_sequences.corpus import make_corpus

def die(store, key, record):
    assert record.outputs, "its data are written"
    os.kill(os.getpid(), signal.SIGKILL)

corpus = make_corpus(Store(sys.argv[1]))
manifests, write = [], shards.write_json
def third_dies(store, key, record):
    manifests.append(key)
    (die if len(manifests) == 3 else write)(store, key, record)
shards.write_json = third_dies
corpus.pack(masking={"views": 2})
"""


def test_a_worker_killed_between_data_and_manifest_leaves_nothing_that_is_believed(
    server: dict[str, str], undisturbed: tuple[Store, StageRecord]
) -> None:
    """C35."""
    store = Store("s3://corpora/killed")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, store.url],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    manifests = store.keys("runs/packing/packed/_manifests")
    assert len(manifests) == 2
    # The third file's data are on the server, whole; without a manifest they are nobody's.
    data = [key for key in store.keys("runs/packing/packed") if key.endswith(".parquet")]
    assert len(data) > 4
    with pytest.raises(FileNotFoundError, match="has not finished"):
        read_stage(store, "packing", "pack")

    record = make_corpus(store).pack(masking={"views": 2})
    assert record.reused == 2
    assert digests(record) == digests(undisturbed[1])
    check_objects(store, record)


def test_a_file_damaged_half_way_publishes_no_part_of_itself(server: dict[str, str]) -> None:
    """C35, with the exception inside the writer."""
    store = Store("s3://corpora/damaged")
    corpus = make_corpus(store)
    bad = next(output for output in corpus.unique if "/fi/" in output.path)
    whole = store.read_bytes(bad.path)
    place = len(whole) // 3
    store.publish_bytes(bad.path, whole[:place] + bytes(200) + whole[place + 200 :])
    with pytest.raises(StageFailed) as failed:
        corpus.pack(masking={"views": 2})
    assert bad.path in str(failed.value) and "damaged" in str(failed.value)
    keys = [key for key in store.keys("runs/packing/packed") if "_manifests" not in key]
    assert len([key for key in keys if "/fi/" in key]) == 2  # the good file's two parts
    assert len(store.keys("runs/packing/packed/_manifests")) == len(corpus.unique) - 1
    with pytest.raises(FileNotFoundError):
        read_stage(store, "packing", "pack")

    store.publish_bytes(bad.path, whole)
    record = corpus.pack(masking={"views": 2})
    assert record.reused == len(corpus.unique) - 1
    check_objects(store, record)
