"""Text to packed, masked Parquet end to end: tokens per second of one core, and peak memory.

The peer is what a person puts together from `tokenizers`, transformers and `datasets`
(hf_pack.py), on the same text, vocabulary and core. Both count the tokens that they write or read
without the first file, which opens the vocabulary.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipelines.core.store import Store
from tests.benchmarks.crawl import measured
from tests.benchmarks.pack_corpus import LANGUAGES, PAGES, write_documents, write_vocabulary

MANY_COPIES = 8
MODES = ("stream", "document", "pairs")


def python_module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module of this folder."""
    return [sys.executable, "-m", f"tests.benchmarks.{name}", *arguments]


def run(data: Path) -> dict[str, Any]:
    """All figures; each part is a process of its own on one core."""
    with TemporaryDirectory(prefix="babelmill-bench-") as folder:
        store = Store(folder)
        vocabulary = write_vocabulary(store, data)
        for copies in (1, MANY_COPIES):
            listing = {
                "unique": [o.model_dump() for o in write_documents(store, copies)],
                "vocabulary": [o.model_dump() for o in vocabulary],
            }
            store.publish_bytes(f"inputs-{copies}.json", json.dumps(listing).encode())
        ours = {mode: measured(python_module("our_pack", folder, "1", mode)) for mode in MODES}
        peer = measured(python_module("hf_pack", folder, "1"))
        many = {
            mode: measured(python_module("our_pack", folder, str(MANY_COPIES), mode))
            for mode in MODES
        }
    return {
        "pages": PAGES * len(LANGUAGES),
        "ours": ours,
        "tokenizers_transformers_datasets": peer,
        "times_the_peer": {
            mode: figures["tokens_per_cpu_second"] / peer["tokens_per_cpu_second"]
            for mode, figures in ours.items()
        },
        f"ours, {MANY_COPIES} times the text": many,
        "memory_ratio": {
            mode: many[mode]["peak_megabytes"] / ours[mode]["peak_megabytes"] for mode in MODES
        },
    }
