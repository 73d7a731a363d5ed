from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipelines.core.manifest import StageRecord, read_manifests
from pipelines.core.records import Document, documents_to_table, table_to_documents
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import ROWS_PER_GROUP, Store
from pipelines.filters import filter_shard, filter_units
from tests.pipelines.filters.pages import document


def extracted(store: Store, documents: Sequence[Document]) -> list[Unit]:
    """Lay documents out as the extract stage does: a table a language, and a file beside them."""

    def lay_out(unit: Unit, config: Any, attempt: Attempt) -> None:
        for language in sorted({page.language for page in documents}):
            own = [page for page in documents if page.language == language]
            name = f"{language}/part-{attempt.unit_id}"
            attempt.write_table(name, documents_to_table(own), part="documents", language=language)
        with store.on_disk("runs/r/config.toml") as path:
            attempt.write_file("scores/part.json", path, part="scores")

    store.publish_bytes("runs/r/config.toml", b"{}")
    record = run_step(
        Step("extract", 1, "in", {}, lay_out), [Unit("a", ())], store, "r", inline=True, quiet=True
    )
    return filter_units(read_manifests(store, record))


def filtered(store: Store, units: list[Unit], sections: list[dict[str, Any]]) -> StageRecord:
    step = Step("filter", 1, "out", {"filters": sections}, filter_shard)
    return run_step(step, units, store, "r", inline=True, quiet=True)


def rows(store: Store, record: StageRecord, **labels: str) -> list[Document]:
    found = []
    for output in record.outputs_of(**labels):
        found += table_to_documents(store.read_table(output.path))
    return found


def test_every_document_is_kept_or_kept_with_a_reason(store: Store) -> None:
    documents = [
        document("A good long sentence stands here.", number=1),
        document("short", number=2),
        document("-- 42 .. 17 -- 99 ..... ---", number=3),
        document("Ein guter langer Satz steht hier.", "de", number=4),
        document("nobody knows which language", "und", number=5),
    ]
    sections = [{"kind": "length", "min_characters": 10}, {"kind": "letters"}]
    record = filtered(store, extracted(store, documents), sections)

    assert rows(store, record, part="kept", language="en") == documents[:1]
    assert rows(store, record, part="kept", language="de") == documents[3:4]
    [output] = record.outputs_of(part="rejects")
    table = store.read_table(output.path)
    assert table["reason"].to_pylist() == ["too_short", "few_letters", "unknown_language"]
    rejects = table_to_documents(table)
    assert [page.metadata for page in rejects] == [
        {"rejected_because": "characters 5 < 10"},
        {"rejected_because": "share of words with a letter 0 < 0.7"},
        {},
    ]
    assert [replace(page, metadata={}) for page in rejects] == documents[1:3] + documents[4:]
    counters = record.counters
    assert (
        counters["documents"]
        == 5
        == counters["kept"]
        + sum(counters[f"rejected.{reason}"] for reason in table["reason"].to_pylist())
    )
    assert counters["rejected.too_short/en"] == counters["rejected.unknown_language/und"] == 1
    assert counters["kept_bytes/de"] == 33


def test_what_filters_change_is_written_and_a_reject_is_as_it_was(store: Store) -> None:
    good = "A sentence with some words in it, by a@test.org."
    documents = [
        document(f"Enable javascript.\n{good}", number=1),
        document("Enable javascript.\nb@test.org", number=2, metadata={"robots": "noarchive"}),
    ]
    sections = [
        {"kind": "lines"},
        {"kind": "mask_personal_data"},
        {"kind": "length", "min_characters": 30},
    ]
    record = filtered(store, extracted(store, documents), sections)

    [kept] = rows(store, record, part="kept")
    assert kept.text == "A sentence with some words in it, by email@example.com."
    assert replace(kept, text=documents[0].text) == documents[0]
    [reject] = rows(store, record, part="rejects")
    assert reject.text == documents[1].text
    assert reject.metadata == {"rejected_because": "characters 17 < 30", "robots": "noarchive"}
    counters = record.counters  # of the kept document alone
    assert counters["dropped_lines.boilerplate"] == counters["masked.email"] == 1


def test_many_row_groups_keep_their_order(store: Store) -> None:
    documents = [
        document(f"word {'x' * (number % 7)}", number=number)
        for number in range(2 * ROWS_PER_GROUP + 100)
    ]
    units = extracted(store, documents)
    record = filtered(store, units, [{"kind": "length", "min_characters": 8}])

    kept, rejects = rows(store, record, part="kept"), rows(store, record, part="rejects")
    assert kept == [page for page in documents if page.offset % 7 >= 3]
    assert [page.offset for page in rejects] == [p.offset for p in documents if p.offset % 7 < 3]
    assert len(record.outputs) == 2


def test_a_shard_without_documents_writes_nothing(store: Store) -> None:
    record = filtered(store, extracted(store, []), [{"kind": "letters"}])
    assert record.outputs == [] and record.counters == {}
