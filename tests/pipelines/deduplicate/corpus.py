"""Small corpora on a store, and a reference that deduplicates them in one loop."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from pipelines.config import DataConfig, DeduplicationSection
from pipelines.core.manifest import Output, StageRecord
from pipelines.core.records import Document, documents_to_table, table_to_documents
from pipelines.core.shards import Attempt
from pipelines.core.stages import StageRun
from pipelines.core.store import Store
from pipelines.deduplicate.minhash import WordHashes, bands_of, shingle_hashes, signatures
from pipelines.deduplicate.normalise import normalise, words
from pipelines.deduplicate.stage import deduplicate

Corpus = Mapping[str, Sequence[Document]]
"""Documents by shard; a shard's are sorted by language, as its files are."""


def word(number: int) -> str:
    """A word of its own for every number, whether digits are ignored or not."""
    return "w" + "".join(chr(97 + int(digit)) for digit in str(number))


NEAR = " ".join(word(n) for n in range(60))
"""A text long enough that a word more makes a near-duplicate of it."""


def document(text: str, language: str = "en", score: float = 0.5, **fields: Any) -> Document:
    """A document whose identity is made from its text and place."""
    name = hashlib.sha256(repr((text, language, sorted(fields.items()))).encode()).hexdigest()[:32]
    return Document(
        id=fields.pop("id", name),
        text=text,
        source="test",
        url="http://x.test/",
        shard="s",
        offset=0,
        language=language,
        language_score=score,
        **fields,
    )


def config(run: str = "r", **settings: Any) -> DataConfig:
    """A configuration with these settings of deduplication."""
    return DataConfig.model_validate(
        {
            "run": {"name": run},
            "sources": [{"kind": "local_files", "paths": ["x"]}],
            "deduplication": settings,
        }
    )


def write_kept(store: Store, corpus: Corpus) -> list[Output]:
    """Write what the filter stage would have kept: one file a shard and language."""
    outputs: list[Output] = []
    for number, (shard, documents) in enumerate(corpus.items()):
        attempt = Attempt(store, "corpus/kept/test", f"{number:016x}")
        by_language: dict[str, list[Document]] = defaultdict(list)
        for found in documents:
            by_language[found.language].append(found)
        for language, members in by_language.items():
            name = f"{language}/part-{hashlib.sha256(shard.encode()).hexdigest()[:16]}"
            attempt.write_table(
                name, documents_to_table(members), part="kept", language=language, shard=shard
            )
        outputs += attempt.outputs
    return outputs


def run(store: Store, kept: Sequence[Output], settings: DataConfig) -> StageRecord:
    """Run the stage in this process."""
    stage = StageRun(store, settings.run.name, inline=True, quiet=True)
    return deduplicate(stage, settings, kept)


def left(store: Store, record: StageRecord) -> list[Document]:
    """The documents that a stage left, in the order of its outputs."""
    return [
        found
        for output in record.outputs_of(part="unique")
        for found in table_to_documents(store.read_table(output.path))
    ]


def survivors(store: Store, texts: Iterable[str], **settings: Any) -> tuple[list[str], StageRecord]:
    """Deduplicate one shard of English texts."""
    kept = write_kept(store, {"a": [document(text, id=str(n)) for n, text in enumerate(texts)]})
    record = run(store, kept, config(**settings))
    return [found.text for found in left(store, record)], record


def reference(  # noqa: C901
    corpus: Corpus, section: DeduplicationSection
) -> tuple[list[Document], Counter[str]]:
    """What deduplication means, in one loop over everything; documents in the corpus's order."""
    count: Counter[str] = Counter()
    documents = [
        found
        for shard in sorted(corpus)
        for found in sorted(corpus[shard], key=lambda found: found.language)
    ]
    paragraphs = [
        [normalise(p, section.ignore_digits) for p in found.paragraphs] for found in documents
    ]
    exact = [[p.split() for p in found.paragraphs] for found in documents]
    pairs = [
        (i, j) for i in range(len(documents)) for j in range(i) if exact[i] and exact[i] == exact[j]
    ]
    exact_pairs = set(pairs)
    if section.near.enabled:
        bands, rows = bands_of(section.near)
        long = []
        for number, found in enumerate(paragraphs):
            units = words(" ".join(found))
            if len(units) >= section.near.shingle_words:
                hashes, offsets = shingle_hashes([units], section.near.shingle_words, WordHashes())
                values = signatures(hashes, offsets, section.near.hashes)
                long.append((number, values.reshape(bands, rows)))
        pairs += [
            (i, j)
            for at, (i, mine) in enumerate(long)
            for j, other in long[:at]
            if (mine == other).all(axis=1).any()
        ]
    ends = np.array(pairs, dtype=int).reshape(-1, 2)
    graph = coo_matrix((np.ones(len(ends)), ends.T), shape=(len(documents),) * 2)
    _, label = connected_components(graph, directed=False)
    clusters: dict[int, list[int]] = defaultdict(list)
    for number in range(len(documents)):
        clusters[label[number]].append(number)

    by_rule = {
        "first": [0.0] * len(documents),
        "longest": [float(len(found.text)) for found in documents],
        "highest_score": [found.language_score for found in documents],
    }
    preference = by_rule[section.keep]

    kept, seen = [], set()
    for number, found in enumerate(documents):
        if not paragraphs[number]:
            count["dropped.empty_documents"] += 1
            continue
        members = clusters[label[number]]
        best = min(members, key=lambda member: (-preference[member], member))
        if best != number:
            equal = [
                m for m in members if m == number or (max(m, number), min(m, number)) in exact_pairs
            ]
            first = min(equal, key=lambda member: (-preference[member], member))
            reason = "near_duplicates" if first == number else "duplicate_documents"
            count[f"dropped.{reason}"] += 1
            continue
        new = []
        for original, paragraph in zip(found.paragraphs, paragraphs[number], strict=True):
            if section.paragraphs and paragraph in seen:
                count["dropped_paragraphs.duplicate"] += 1
            else:
                new.append(original)
            seen.add(paragraph)
        if len(new) < len(found.paragraphs):
            found.text = "\n\n".join(new)
            if len(found.text) < section.min_characters:
                count["dropped.nothing_new"] += 1
                count["dropped_characters.nothing_new"] += len(found.text)
                continue
        if len(members) > 1:
            found.metadata = {"cluster_size": str(len(members))}
        kept.append(found)
    return kept, count


def random_corpus(seed: int, documents: int = 240, shards: int = 5) -> dict[str, list[Document]]:
    """Documents in two languages with copies, edited copies, shared paragraphs and short texts."""
    draw = random.Random(seed)
    vocabulary = [word(n) for n in range(400)]
    stock = [" ".join(draw.choices(vocabulary, k=draw.randint(2, 12))) for _ in range(60)]
    texts: list[str] = []
    for _ in range(documents):
        kind = draw.random()
        if kind < 0.1 and texts:
            text = draw.choice(texts).upper()
        elif kind < 0.35 and texts:
            edited = draw.choice(texts).split(" ")
            edited[draw.randrange(len(edited))] = draw.choice(vocabulary)
            text = " ".join(edited)
        elif kind < 0.4:
            text = draw.choice(["", " \n\n ", "one two", "one two three"])
        elif kind < 0.5:
            text = "\n\n".join(draw.choices(stock, k=draw.randint(1, 3)))
        else:
            parts = [" ".join(draw.choices(vocabulary, k=draw.randint(20, 80)))]
            parts += draw.choices(stock, k=draw.randint(0, 4))
            draw.shuffle(parts)
            text = "\n\n".join(parts)
        texts.append(text)
    corpus: dict[str, list[Document]] = {f"shard-{n}": [] for n in range(shards)}
    for number, text in enumerate(texts):
        language = draw.choice(["en", "sw"])
        score = float(np.float32(draw.choice([0.25, 0.5, 0.75])))
        corpus[f"shard-{number * shards // documents}"].append(
            document(text, language, score, id=f"{number:04d}")
        )
    return {shard: sorted(found, key=lambda d: d.language) for shard, found in corpus.items()}


def planted_pair(draw: random.Random, number: int, similarity: float) -> tuple[str, str, float]:
    """Two texts of 300 words with that Jaccard similarity of their 5-word shingles.

    Of 296 shingles each, changing k words far apart changes 5k: J = (296 - 5k) / (296 + 5k).
    """
    changes = round(296 * (1 - similarity) / (1 + similarity) / 5)
    words = [f"{word(number)}{word(draw.randrange(10**6))}{word(n)}" for n in range(300)]
    other = list(words)
    for place in range(changes):
        at = 6 + place * (288 // max(changes, 1))
        other[at] = f"{words[at]}x"
    shingles = [{tuple(t[n : n + 5]) for n in range(296)} for t in (words, other)]
    union = shingles[0] | shingles[1]
    return " ".join(words), " ".join(other), len(shingles[0] & shingles[1]) / len(union)
