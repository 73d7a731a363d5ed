"""Deduplication: planted pairs, speed, memory as the corpus grows, and datatrove's MinHash.

Speeds are per second of processor time on one core; the machine may be shared.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pipelines.core.hashing import generator
from pipelines.core.manifest import Output, read_stage
from pipelines.core.records import DOCUMENT_SCHEMA, documents_to_table
from pipelines.core.shards import Attempt, Failure, do_unit
from pipelines.core.store import Store
from pipelines.deduplicate.clusters import partition_units, refs_of
from pipelines.deduplicate.groups import find_groups
from pipelines.deduplicate.minhash import detection_probability
from pipelines.deduplicate.stage import Steps
from tests.benchmarks.machine import Skipped, bench_python, on_one_core
from tests.peak_memory import peak_megabytes
from tests.pipelines.deduplicate.corpus import (
    config,
    document,
    planted_pair,
    word,
    write_kept,
)
from tests.pipelines.deduplicate.corpus import (
    run as run_deduplication,
)
from tests.pipelines.deduplicate.test_debian_descriptions import descriptions

SIMILARITIES = (0.9, 0.8, 0.6)
PAIRS = 200
ENGLISH_BYTES = 12_000_000
SHARD_DOCUMENTS = 1_250
SHARDS = 4
GROWTH = 10
KEYS_PER_PARTITION = 50_000
ROOT = Path(__file__).resolve().parents[2]


def run(data: Path) -> dict[str, Any]:
    """All figures."""
    return {
        "planted_pairs": planted_pairs(),
        "memory": memory(),
        "debian_descriptions": debian_descriptions(data),
    }


def planted_pairs() -> dict[str, Any]:
    """Share of planted pairs that are found, end to end, against the prediction."""
    figures = {}
    for similarity in SIMILARITIES:
        draw = random.Random(round(similarity * 100))
        planted = [planted_pair(draw, number, similarity) for number in range(PAIRS)]
        corpus = {
            side: [document(pair[at], id=f"{side}{n}") for n, pair in enumerate(planted)]
            for at, side in enumerate("ab")
        }
        with tempfile.TemporaryDirectory() as folder:
            store = Store(folder)
            record = run_deduplication(store, write_kept(store, corpus), config())
        found = record.counters.get("dropped.near_duplicates", 0) / PAIRS
        predicted = float(np.mean([detection_probability(s, 14, 8) for _, _, s in planted]))
        figures[f"jaccard {similarity}"] = {
            "found": found,
            "predicted": round(predicted, 4),
            "points_apart": round(100 * abs(found - predicted), 1),
        }
    return figures


def memory() -> dict[str, Any]:
    """Peak memory of the whole stage in one process, and of one groups unit, at 1x and 10x."""
    figures: dict[str, Any] = {"keys_per_partition": KEYS_PER_PARTITION}
    for name, shards in (("1x", SHARDS), (f"{GROWTH}x", SHARDS * GROWTH)):
        with tempfile.TemporaryDirectory() as folder:
            store = Store(folder)
            for shard in range(shards):
                write_shard(store, shard)
            figures[name] = {
                "stage": worker("stage", folder),
                "groups_unit": worker("groups_unit", folder),
            }
    for part in ("stage", "groups_unit"):
        small, large = figures["1x"][part], figures[f"{GROWTH}x"][part]
        figures[f"{part}_peak_ratio"] = round(large["peak_mb"] / small["peak_mb"], 3)
        figures[f"{part}_ratio_above_imports"] = round(
            (large["peak_mb"] - large["imports_mb"]) / (small["peak_mb"] - small["imports_mb"]), 3
        )
    return figures


def write_shard(store: Store, shard: int) -> None:
    """Write one kept shard of made-up text, one document in ten a near-duplicate; about 2.5 MB."""
    draw = generator("benchmark", shard)
    vocabulary = np.array([word(n) for n in range(30_000)])
    previous = vocabulary[draw.integers(0, len(vocabulary), 300)]
    documents = []
    for number in range(SHARD_DOCUMENTS):
        words = vocabulary[draw.integers(0, len(vocabulary), 300)]
        if number % 10 == 9:
            words = previous.copy()
            words[draw.integers(0, 300, 2)] = "other"
        previous = words
        text = "\n\n".join(" ".join(words[at : at + 100]) for at in range(0, 300, 100))
        documents.append(document(text, id=f"{shard:04d}.{number:06d}"))
    attempt = Attempt(store, "corpus/kept/benchmark", f"{shard:016x}")
    with attempt.tables(DOCUMENT_SCHEMA) as tables:
        tables.write(f"en/part-{shard:016x}", documents_to_table(documents))


def worker(job: str, folder: str) -> dict[str, Any]:
    """Do one of JOBS in a process of its own on one core and read what it measured."""
    command = [sys.executable, "-m", "tests.benchmarks.deduplicate", job, folder]
    done = subprocess.run(
        on_one_core(command),
        cwd=ROOT,
        env={**os.environ, "RAYON_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def kept_files(store: Store) -> list[Output]:
    """The kept files of a store, as the filter stage's record would list them."""
    return [
        Output(
            path=key,
            bytes=size,
            sha256=sha256(store.read_bytes(key)).hexdigest(),
            rows=pq.read_metadata(store.path(key)).num_rows,
            labels={"language": "en", "part": "kept", "shard": key},
        )
        for key, size in sorted(store.sizes("corpus/kept").items())
    ]


def do_stage(folder: str, **settings: Any) -> dict[str, Any]:
    """The whole stage, without Ray."""
    store, imports = Store(folder), peak_megabytes()
    kept = kept_files(store)
    text_bytes = sum(
        len(text.encode())
        for output in kept
        for table in store.iterate_tables(output.path, ["text"])
        for text in table.column("text").to_pylist()
    )
    began, cpu = time.monotonic(), time.process_time()
    settings.setdefault("keys_per_partition", KEYS_PER_PARTITION)
    record = run_deduplication(store, kept, config(**settings))
    cpu = time.process_time() - cpu
    return {
        "text_mb": round(text_bytes / 1e6, 1),
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(cpu, 2),
        "mb_per_cpu_second": round(text_bytes / 1e6 / cpu, 2),
        "imports_mb": round(imports),
        "peak_mb": round(peak_megabytes()),
        "partitions": read_stage(store, "r", "deduplicate-groups").units,
        "near_duplicates": record.counters.get("dropped.near_duplicates", 0),
        "exact_duplicates": record.counters.get("dropped.duplicate_documents", 0),
    }


def do_groups_unit(folder: str) -> dict[str, Any]:
    """One unit of the groups step, after the stage was done."""
    store, imports = Store(folder), peak_megabytes()
    [plan] = refs_of(read_stage(store, "r", "deduplicate-plan"), "plan")
    groups = read_stage(store, "r", "deduplicate-groups")
    step = Steps(config().deduplication).partitioned("groups", find_groups)
    unit = partition_units(groups.units, plan, [])[0]
    result = do_unit(step, unit, store.url)
    if isinstance(result, Failure):
        raise RuntimeError(result.reason)
    return {
        "imports_mb": round(imports),
        "peak_mb": round(peak_megabytes()),
        "partitions": groups.units,
    }


def do_near_only(folder: str) -> dict[str, Any]:
    """The stage without paragraphs: what the peer does."""
    return do_stage(folder, paragraphs=False, keys_per_partition=4_000_000)


def do_everything(folder: str) -> dict[str, Any]:
    """The stage under its defaults."""
    return do_stage(folder, keys_per_partition=4_000_000)


JOBS = {
    "stage": do_stage,
    "groups_unit": do_groups_unit,
    "near_only": do_near_only,
    "everything": do_everything,
}


def texts_of(data: Path) -> Iterator[str]:
    """English descriptions of Debian packages, ENGLISH_BYTES of them."""
    path = data / "text" / "ddtp" / "Translation-en.xz"
    if not path.is_file():
        raise Skipped(f"{path} is not there")
    size = 0
    for text in descriptions(path).values():
        size += len(text.encode())
        if size > ENGLISH_BYTES:
            return
        yield text


def debian_descriptions(data: Path) -> dict[str, Any]:
    """Real short texts, many nearly the same: this stage and datatrove's four MinHash stages."""
    texts = list(texts_of(data))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"{folder}/store")
        quarter = -(-len(texts) // 4)
        shards = [texts[at : at + quarter] for at in range(0, len(texts), quarter)]
        write_kept(store, {str(n): [document(t) for t in part] for n, part in enumerate(shards)})
        figures: dict[str, Any] = {
            "documents": len(texts),
            "everything": worker("everything", store.url),
            "near_only": worker("near_only", store.url),
        }
        try:
            figures["datatrove"] = datatrove(Path(folder), shards)
        except Skipped as reason:
            figures["datatrove"] = f"skipped: {reason}"
            return figures
    figures["times_datatrove_per_cpu_second"] = round(
        figures["datatrove"]["cpu_seconds"] / figures["near_only"]["cpu_seconds"], 1
    )
    return figures


def datatrove(folder: Path, shards: list[list[str]]) -> dict[str, Any]:
    """The peer on the same texts, in the same shards, on one core."""
    python = bench_python()
    (folder / "in").mkdir()
    for number, texts in enumerate(shards):
        lines = (json.dumps({"id": f"{number}/{n}", "text": t}) for n, t in enumerate(texts))
        (folder / "in" / f"{number:05d}.jsonl").write_text("\n".join(lines) + "\n")
    script = Path(__file__).with_name("datatrove_minhash.py")
    command = [python, str(script), str(folder / "in"), str(folder / "out"), str(len(shards))]
    done = subprocess.run(on_one_core(command), capture_output=True, text=True)
    if done.returncode:
        raise Skipped(f"datatrove's MinHash failed: {done.stderr[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](sys.argv[2])))
