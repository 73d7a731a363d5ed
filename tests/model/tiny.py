"""A tiny run on a store: invented text in three languages, through the real data stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.config import RunConfig, to_toml
from pipelines.core.config import merge
from pipelines.core.hashing import digest, generator
from pipelines.core.manifest import read_json
from pipelines.core.records import PARAGRAPH_BREAK, Document, documents_to_table
from pipelines.core.run_file import config_key
from pipelines.core.shards import Attempt, Step, Unit, run_step
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.pack_sequences import pack_step, pack_units
from pipelines.rebalance import balance_step, balance_units
from pipelines.train_vocabulary import train_vocabulary

SYLLABLES = {
    "en": ["th", "ing", "er", "on", "st", "ea", "ck", "ble", "ou", "wh"],
    "fi": ["kaa", "nen", "lli", "suo", "tta", "yö", "mää", "ksi", "ä", "pu"],
    "sw": ["wa", "ki", "mbo", "nya", "li", "tu", "sha", "ngo", "ku", "ji"],
}
DOCUMENTS = {"en": 60, "fi": 24, "sw": 12}
TOPICS = ("arts", "news", "sports")

TREE: dict[str, Any] = {
    "run": {"name": "tiny", "seed": 7},
    "sources": [
        {"kind": "wikipedia", "wikis": ["en"], "date": "20261101", "server": "sample-mirror"}
    ],
    "balance": {"min_sentences": 1},
    "vocabulary": {"size": 220, "sample_characters": 100_000, "num_threads": 1},
    "packing": {"length": 24, "held_out_share": 0.1},
    "encoder": {
        "layers": 2,
        "hidden_size": 32,
        "heads": 2,
        "feed_forward_size": 64,
        "dropout": 0.1,
    },
    "pretraining": {
        "steps": 12,
        "sequences_per_step": 8,
        "sequences_per_micro_batch": 2,
        "learning_rate": 3e-3,
        "warmup_steps": 2,
        "log_every_steps": 1,
        "evaluate_every_steps": 5,
        "checkpoint_every_steps": 4,
        "keep_checkpoints": 2,
    },
    "finetuning": [
        {
            "kind": "classification",
            "name": "topic",
            "label_pattern": r"^https://[a-z]+\.example/[^/]+/([^/]+)/",
            "min_characters": 10,
            "min_examples_per_label": 10,
            "max_tokens": 24,
            "epochs": 3,
            "examples_per_step": 16,
            "learning_rate": 3e-3,
        }
    ],
    "cluster": {"num_workers": 1},
}


def tiny_config(**sections: Mapping[str, Any]) -> RunConfig:
    """The configuration of the tiny run, with changes to its sections."""
    return RunConfig.model_validate(merge(TREE, sections))


def write_config(store: Store, config: RunConfig) -> None:
    """Put a run's configuration on the store, as the flow does."""
    store.publish_bytes(config_key(config.run.name), to_toml(config))


def paragraph(language: str, topic: str, *stable_id: Any, domain: str = "tiny") -> str:
    """About twelve invented words; a third of them belong to the topic. Another domain than "tiny"
    uses half of the syllables, in other words."""
    rng = generator(domain, language, topic, *stable_id)
    syllables = SYLLABLES[language]
    if domain != "tiny":
        syllables = [*syllables[5:], *syllables[5:]]
    shift = 3 * TOPICS.index(topic)
    words = []
    for _ in range(int(rng.integers(8, 16))):
        if rng.random() < 0.35:
            words.append(syllables[shift] + syllables[shift + 1] + topic[:2])
        else:
            words.append("".join(rng.choice(syllables, size=int(rng.integers(1, 4)))))
    return " ".join(words).capitalize() + "."


def documents(language: str, domain: str = "tiny") -> list[Document]:
    """The documents of one language; their addresses tell the topic."""
    made = []
    for number in range(DOCUMENTS[language]):
        topic = TOPICS[number % len(TOPICS)]
        parts = (paragraph(language, topic, number, i, domain=domain) for i in range(4))
        text = PARAGRAPH_BREAK.join(parts)
        made.append(
            Document(
                id=digest(domain, language, number),
                text=text,
                source="wikipedia",
                url=f"https://tiny.example/{language}/{topic}/{number}",
                shard=f"{language}.xml",
                offset=number,
                language=language,
                language_score=1.0,
            )
        )
    return made


def write_unique(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the documents of one language as the deduplication stage does."""
    made = documents(unit.key, config.get("domain", "tiny"))
    sizes = {
        "documents": len(made),
        "sentences": sum(len(d.paragraphs) for d in made),
        "characters": sum(len(d.text) for d in made),
        "bytes": sum(len(d.text.encode()) for d in made),
    }
    for name, value in sizes.items():
        attempt.counters[f"{name}/{unit.key}"] += value
    attempt.write_table(
        f"{unit.key}/part-{attempt.unit_id}",
        documents_to_table(made),
        part="unique",
        language=unit.key,
    )


def build(store: Store, config: RunConfig, domain: str = "tiny") -> None:
    """Run the stages that the model path reads: unique documents, balance, vocabulary, packing."""
    write_config(store, config)
    run = config.run.name
    read = {} if domain == "tiny" else {"domain": domain}
    step = Step("deduplicate", 1, f"corpus/unique/{domain}", read, write_unique)
    units = [Unit(language, ()) for language in DOCUMENTS]
    unique = run_step(step, units, store, run, inline=True, quiet=True)
    record = run_step(
        balance_step(config, unique.counters),
        balance_units(unique.outputs),
        store,
        run,
        inline=True,
        quiet=True,
    )
    [balance] = record.outputs
    stage = StageRun(store, run, inline=True, quiet=True)
    vocabulary = train_vocabulary(stage, config, balance, unique.outputs).outputs
    table = read_json(store, balance)
    run_step(
        pack_step(config, table, vocabulary),
        pack_units(table, vocabulary, unique.outputs),
        store,
        run,
        inline=True,
        quiet=True,
    )
