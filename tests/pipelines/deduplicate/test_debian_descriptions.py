"""On 2,228 real descriptions of Debian packages in Spanish, where many are nearly the same."""

from __future__ import annotations

import lzma
from collections import Counter, defaultdict
from pathlib import Path

from pipelines.core.manifest import read_stage
from pipelines.core.store import Store
from pipelines.deduplicate.minhash import detection_probability
from pipelines.deduplicate.normalise import normalise, words
from pipelines.deduplicate.sorted_records import RecordsFile
from tests.pipelines.deduplicate.corpus import config, document, left, run, write_kept


def descriptions(path: Path) -> dict[str, str]:
    """Text by package, from a Debian file of translated descriptions."""
    found = {}
    for block in lzma.decompress(path.read_bytes()).decode("utf-8").split("\n\n"):
        name, paragraphs = "", [""]
        for line in block.splitlines():
            field, _, value = line.partition(": ")
            if line == " .":
                paragraphs.append("")
            elif line.startswith(" "):
                paragraphs[-1] = f"{paragraphs[-1]} {line.strip()}".strip()
            elif field == "Package":
                name = value
            elif field.startswith("Description-") and field != "Description-md5":
                paragraphs = [value, ""]
        if name:
            found.setdefault(name, "\n\n".join(paragraph for paragraph in paragraphs if paragraph))
    return found


def similarities(texts: list[str]) -> dict[tuple[int, int], float]:
    """Jaccard similarity of the 5-word shingles of every pair that shares one."""
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    sizes = []
    for number, text in enumerate(texts):
        units = words(" ".join(normalise(part) for part in text.split("\n\n")))
        shingles = {tuple(units[at : at + 5]) for at in range(len(units) - 4)}
        sizes.append(len(shingles))
        for shingle in shingles:
            holders[shingle].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    for members in holders.values():
        shared.update((a, b) for at, b in enumerate(members) for a in members[:at])
    return {(a, b): n / (sizes[a] + sizes[b] - n) for (a, b), n in shared.items()}


def test_near_duplicates_of_real_descriptions(shared_data: Path, store: Store) -> None:
    texts = descriptions(shared_data / "text" / "ddtp" / "Translation-es.xz")
    names = list(texts)
    corpus = {"a": [document(text, "es", id=name) for name, text in texts.items()]}

    record = run(store, write_kept(store, corpus), config(paragraphs=False))

    [clusters] = read_stage(store, "r", "deduplicate-clusters").outputs
    decided = RecordsFile(store, clusters.path).all().tolist()
    cluster = {names[number]: names[survivor] for number, survivor, _, _ in decided}
    sizes = Counter(cluster.values())
    # Read by eye. The manuals of GIMP differ in the name of a language, twice:
    manuals = [
        name for name in names if name.startswith("gimp-help-") and name != "gimp-help-common"
    ]
    assert len(manuals) == 10
    assert {cluster[name] for name in manuals} == {manuals[0]}
    assert sizes[manuals[0]] == 10
    # compilers for another processor or of another version:
    assert cluster["libgomp1-s390x-cross"] == "libgomp1"
    assert cluster["insighttoolkit5-examples"] == cluster["insighttoolkit4-examples"]
    # and these are about other things, in much the same words:
    assert cluster["libgfortran5"] != cluster["libgomp1"]
    # Every text that stays says how many it stands for.
    kept = {found.id: found for found in left(store, record)}
    assert len(kept) == len(texts) - sum(size - 1 for size in sizes.values())
    assert {name: int(kept[name].metadata["cluster_size"]) for name in sizes} == dict(sizes)

    rate: dict[int, list[bool]] = defaultdict(list)
    for (a, b), similarity in similarities(list(texts.values())).items():
        met = cluster.get(names[a], names[a]) == cluster.get(names[b], names[b])
        rate[int(similarity * 20)].append(met)
    assert all(rate[20])
    above = [met for step in range(16, 20) for met in rate[step]]
    assert sum(above) / len(above) >= detection_probability(0.8, 14, 8) - 0.05
    below = [met for step in range(10) for met in rate[step]]
    assert len(below) > 15_000
    assert sum(below) / len(below) < 0.001
