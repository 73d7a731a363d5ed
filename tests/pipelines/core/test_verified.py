"""Files that are no Parquet: what is read is what was written, or an error that names the file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pipelines.core.driver import drive
from pipelines.core.manifest import (
    FileRef,
    Output,
    StageRecord,
    read_json,
    read_manifests,
    read_verified,
)
from pipelines.core.shards import Attempt, Unit
from pipelines.core.store import DamagedObject, Store
from tests.damage import flip

TABLE = {"rows": [{"language": "sw", "q": 0.25}], "alpha": 0.3}


def written(store: Store, folder: Path, content: bytes) -> Output:
    attempt, path = Attempt(store, "runs/r/balance", "unit"), folder / "table.json"
    path.write_bytes(content)
    attempt.write_file("table.json", path, part="balance")
    [output] = attempt.outputs
    return output


def test_a_flipped_bit_anywhere_is_found_and_said(store: Store, tmp_path: Path) -> None:
    whole = json.dumps(TABLE).encode()
    output = written(store, tmp_path, whole)
    assert read_json(store, output) == read_json(store, output.ref) == TABLE
    for position in range(len(whole)):
        flip(store, output.path, position)
        with pytest.raises(DamagedObject) as caught:
            read_json(store, output)
        found = hashlib.sha256(store.read_bytes(output.path)).hexdigest()
        assert str(caught.value) == (
            f"runs/r/balance/table.json is damaged (sha256 {found} of {len(whole)} bytes; "
            f"{hashlib.sha256(whole).hexdigest()} was written); delete it and run again: "
            f"its stage writes it anew"
        )
        store.publish_bytes(output.path, whole)


def test_a_file_that_was_cut_or_exchanged_is_damaged(store: Store, tmp_path: Path) -> None:
    output = written(store, tmp_path, json.dumps(TABLE).encode())
    for content in (b"", b'{"rows": []}'):
        store.publish_bytes(output.path, content)
        with pytest.raises(DamagedObject, match=f"of {len(content)} bytes"):
            read_verified(store, output)


@pytest.mark.parametrize("content", [b'{"rows": [', b"", b'{"rows": "\xff"}'])
def test_broken_json_names_its_file(store: Store, content: bytes) -> None:
    store.publish_bytes("x/table.json", content)
    ref = FileRef(path="x/table.json")
    assert read_verified(store, ref) == content, "a ref without a checksum is read as it is"
    with pytest.raises(DamagedObject, match=r"x/table\.json is damaged \(no JSON: .*delete it"):
        read_json(store, ref)


def test_a_broken_manifest_names_its_file(store: Store) -> None:
    key = "out/_manifests/0123.json"
    record = StageRecord(
        stage="pack", binding_id="", manifests=[key], outputs=[], counters={},
        seconds=0, units=1, reused=0,
    )  # fmt: skip
    with pytest.raises(FileNotFoundError, match=key):
        read_manifests(store, record)
    store.publish_bytes(key, b'{"binding": {}}')
    with pytest.raises(DamagedObject, match=f"{key} is damaged"):
        read_manifests(store, record)


def test_a_unit_knows_what_its_inputs_must_be() -> None:
    refs = (FileRef(path="a", checksum="1"), FileRef(path="b", checksum="2"))
    assert Unit("u", refs).input("b") is refs[1]
    with pytest.raises(KeyError, match="c"):
        Unit("u", refs).input("c")


def test_the_driver_says_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(str(tmp_path / "store"))
    output = written(store, tmp_path, json.dumps(TABLE).encode())
    flip(store, output.path)

    def action(stage: str, store: Store, run: str) -> None:
        read_json(store, output)

    status = drive("test", None, action, ["pack"], ["--store", store.url, "--run", "r"])
    assert status == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: runs/r/balance/table.json is damaged")
