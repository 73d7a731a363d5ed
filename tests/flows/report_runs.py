"""A small run on a store, as the stages leave it: nine languages, four capped, one left out."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from flows.report.summary import run_table
from pipelines.config import BalanceSection
from pipelines.core.manifest import FileRef, StageRecord
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.store import Store, local_file
from pipelines.rebalance import balance_table as table_of_shares

SENTENCES = {"en": 60_000, "de": 24_000, "ru": 9_000, "zh-Hans": 8_000, "ar": 3_000, "hi": 900,
             "ja": 700, "th": 400, "sw": 60}  # fmt: skip
ALPHA, MAX_REPEATS = 0.3, 8.0
TITLE = 'A run of <script>alert("x")</script> & more'
ROWS = 12_002
EVERYTHING = ("extract", "filter", "deduplicate", "balance", "vocabulary", "pack", "pretrain",
              "export", "finetune")  # fmt: skip


def do(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    if config.get("fails"):
        raise OSError("the disk went away")
    for place, (labels, content) in enumerate(config["files"]):
        with local_file() as path:
            path.write_text(json.dumps(content), encoding="utf-8")
            attempt.write_file(f"{attempt.unit_id}-{place}.json", path, **labels)
    attempt.counters.update(config["counters"])
    attempt.notes.extend(config["notes"])


def stage(
    store: Store,
    name: str,
    *files: tuple[dict[str, str], Any],
    counters: Mapping[str, int] | None = None,
    notes: tuple[str, ...] = (),
    reads: tuple[FileRef, ...] = (),
    **extra: Any,
) -> StageRecord:
    config = {"files": files, "counters": counters or {}, "notes": notes, **extra}
    step = Step(name, 1, f"runs/r/{name}", json.loads(json.dumps(config)), do)
    return run_step(step, [Unit("all", reads)], store, "r", inline=True, quiet=True)


def each(measure: str, factor: float) -> dict[str, int]:
    return {f"{measure}/{tag}": int(n * factor) for tag, n in SENTENCES.items()}


def balance_table(**settings: Any) -> dict[str, Any]:
    sizes = {
        tag: {"documents": n // 10, "sentences": n, "characters": n * 80, "bytes": n * 100}
        for tag, n in {**SENTENCES, "yo": 7}.items()
    }
    section = BalanceSection(alpha=ALPHA, max_repeats=MAX_REPEATS, **settings)
    return table_of_shares(section, sizes)


def sums(mean: float, step: float = 0.1) -> dict[str, dict[str, float]]:
    return {
        tag: {"loss_sum": (mean + step * place) * n, "tokens": n}
        for place, (tag, n) in enumerate(SENTENCES.items())
    }


METRICS = {
    "rows": ROWS, "steps": 400, "tokens_seen": 3_276_800, "final_loss": 5.1,
    "log": [{"step": step, "loss": 5 + 4.4 * math.exp(-step / 120) + 0.05 * math.sin(step),
             "learning_rate": 1e-3, "gradient_norm": 0.9, "consumed_tokens": step * 8192}
            for step in range(0, 401, 10)],
    "evaluations": [{"step": 0, "languages": sums(9.3, 0.01)}, {"step": 200, "languages": sums(6)},
                    {"step": 400, "languages": sums(5)}],
    "unigram": sums(6.4),
}  # fmt: skip
SPEED = {
    "speed": [{"step": step, "tokens_per_second/real": 8123.4 + step, "loader_idle_share": 0.004,
               "tokens_per_second/padded": 12.5, "tokens_per_second/masked": 1218.0,
               "memory_peak_bytes": 1.5e9 + step, "mfu": 0.41} for step in range(0, 401, 10)],
}  # fmt: skip
LABELS = ("admin", "auth", "docs", "forms", "news", "日本")
SCORES: dict[str, Any] = {
    "task": "topic", "labels": LABELS, "counts": {"train": 2000, "dev": 300, "test": 310},
    "dropped": {"label_too_small": 12},
    "dev": [{"epoch": 1, "accuracy": 0.5, "macro_f1": 0.4}],
    "test": {"accuracy": 0.72, "macro_f1": 0.61, "majority_accuracy": 0.25,
             "per_label": {label: {"precision": 0.7, "recall": 0.6, "f1": 0.3 + i / 10, "count": 50}
                           for i, label in enumerate(LABELS)},
             "per_language": {tag: {"accuracy": 0.5 + i / 25, "count": 90 - i}
                              for i, tag in enumerate(SENTENCES)}},
}  # fmt: skip
LINES = dict.fromkeys(SENTENCES, 2000) | {"th": 80, "sw": 12}
VOCABULARY = {
    "pieces": 12_000, "rows": ROWS,
    "training": {"kind": "unigram", "train_on": "words", "normalization": "nmt_nfkc",
                 "character_coverage": 0.9995, "words": 41_000, "distinct_words": 42_500},
    "languages": {tag: {"lines": n, "tokens": n * 20, "characters": n * 80, "words": n * 14,
                        "unknown": n // 99, "unknown_characters": n // 80,
                        "written_with_blanks": tag not in ("zh-Hans", "ja", "th"),
                        "compared": {"tokens": n * (18 if tag == "en" else 25), "unknown": 0,
                                     "unknown_characters": 0},
                        "ratio": 20 / (18 if tag == "en" else 25)} for tag, n in LINES.items()},
    "totals": {"languages": len(LINES), "lines": sum(LINES.values()), "words": 196_168,
               "characters": sum(LINES.values()) * 80, "tokens": sum(LINES.values()) * 20,
               "unknown": 140, "unknown_characters": 175, "tokens_per_word": 1.4286,
               "tokens_per_character": 0.25, "ratio": 0.8457, "mean_ratio": 0.829,
               "languages_with_fewer_tokens": 8,
               "compared": {"tokens": 333_100, "unknown": 0, "unknown_characters": 0}},
    "pieces_by": {
        "script": [{"script": script, "name": name, "pieces": n, "share": n / 12_000,
                    "used": n // 3} for script, name, n in
                   (("Latn", "Latin", 7000), ("Cyrl", "Cyrillic", 3000), ("Hani", "Han", 1500),
                    ("punctuation", "punctuation, symbols", 497))],
        "length": {str(n): 12_000 // (n + 1) ** 2 for n in range(1, 17)},
        "kind": {"normal": 11_997, "used_on_held_out_text": 4000, "unused_share": 0.6666,
                 "one_character": 3000, "begins_a_word": 6100, "mixed_scripts": 1,
                 "repeated_character": 2}},
    "examples": {"longest": ["▁Donaudampfschiff"], "mixed_scripts": ["<b>ж"],
                 "repeated_character": ["----", "▁aaaa"]},
    "coverage": {"characters": 6_000_000, "distinct": 2100, "covered_share": 0.999_96,
                 "covered_distinct": 2050,
                 "missing": [{"character": "U+16A0", "shown": "ᚠ", "count": 17}],
                 "languages": {tag: {"characters": n * 100, "distinct": 90, "covered_share": 1.0,
                                     "covered_distinct": 90} for tag, n in SENTENCES.items()}},
}  # fmt: skip
CONFIG = f"[run]\nname = 'r'\n\n[report]\ntitle = '{TITLE}'\nmax_languages_in_picture = 8\n"


def build_run(store: Store, stages: tuple[str, ...] = EVERYTHING) -> None:
    damage = "part-1.warc.gz: <broken gzip member> at byte 9,131; 812 bytes lost"
    contents: dict[str, Any] = {
        "extract": {"counters": {**each("documents", 0.2), **each("bytes", 200), "bytes_lost": 812,
                                 "dropped.too_short": 5000, "dropped.not_text": 31},
                    "notes": (damage,)},
        "filter": {"counters": {**each("kept", 0.15), **each("kept_bytes", 150),
                                "rejected.length": 4000, "rejected.script": 90,
                                "rejected.script/ru": 90}},
        "deduplicate": {"counters": {**each("documents", 0.1), **each("bytes", 100),
                                     "dropped.duplicate_documents": 800,
                                     "dropped_characters.nothing_new": 5500}},
        "pack": {"counters": {**each("tokens", 20), **each("sequences", 0.2),
                              **each("row_tokens", 24), **each("slots", 25),
                              **each("held_out_row_tokens", 2),
                              **each("held_out_tokens", 1), **each("held_out_sequences", 0.01)}},
        "export": {},
    }  # fmt: skip
    files: dict[str, Any] = {
        "balance": ({"part": "balance"}, balance_table()),
        "vocabulary": ({"part": "report"}, VOCABULARY),
        "pretrain": ({"part": "metrics"}, METRICS),
        "finetune": ({"part": "scores", "task": "topic"}, SCORES),
    }
    store.publish_bytes("runs/r/config.toml", CONFIG.encode())
    for name in stages:
        own = (files[name],) if name in files else ()
        own += (({"part": "speed"}, SPEED),) if name == "pretrain" else ()
        stage(store, name, *own, **contents.get(name, {}))


def printed(store: Store, width: int, **options: Any) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(run_table(store, "r", **options))
    return console.export_text()
