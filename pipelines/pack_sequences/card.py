"""The dataset card of a run's packed sequences: README.md beside them, for people and `datasets`.

`datasets.load_dataset(FOLDER)` and `datasets.load_dataset(FOLDER, "sw")` read the configurations in
its head: `default` with all languages and one a language, with the splits `train` and `held_out`,
each a list of files, so that files of an earlier run of the stage which lie in the same folder are
not taken for this one's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pipelines.config import DataConfig
from pipelines.core.manifest import Counters, Manifest, Output, StageRecord, read_stage, sha256_of
from pipelines.core.shards import Attempt, Step, Unit, manifest_key
from pipelines.core.stages import StageRun

CARD = "README.md"

ALL_LANGUAGES = "default"
"""Configuration over all languages, taken when none is named; no language has such a tag."""

LICENCES = {
    "common_crawl": "Common Crawl: its terms of use; each page's rights stay with its authors.",
    "wikipedia": "Wikipedia: CC BY-SA 4.0 and GFDL; name the authors by each article's address.",
    "hugging_face": "Data sets of the Hub: each one's own licence, on its page.",
    "local_files": "Files of your own: their licence.",
}
"""What to know of a source's rights, by its kind."""

MODES = {
    "stream": "contiguous text of one document after the other, `{eos}` between them (RoBERTa's "
    "FULL-SENTENCES)",
    "document": "whole documents side by side, each `{bos} … {eos}`; attention is meant to stay "
    "inside a document and positions to restart at each of `document_starts`",
    "pairs": "`{bos} A {eos} B {eos}` for next sentence prediction; `segments` is 0 for A and 1 "
    "for B, `is_next` says whether B follows A",
}
"""What a sequence is, by mode; the braces stand for the vocabulary's own special tokens."""

SENTENCEPIECE_TOKENS = {"bos": "<s>", "eos": "</s>", "mask": "<mask>"}
WORDPIECE_TOKENS = {"bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]"}

SPLITS = {"train": "train", "held-out": "held_out"}
"""Splits by the part of the outputs."""


def card_text(config: Mapping[str, Any], record: StageRecord, folder: str) -> str:
    """The whole card.

    Args:
        config: of the card's step.
        record: of the pack stage.
        folder: key of the folder that it lies in.
    """
    return "\n".join([*_head(record, folder), *_body(config, record), *_counts(config, record), ""])


def _head(record: StageRecord, folder: str) -> list[str]:
    """The YAML that `datasets` reads. JSON strings are YAML strings, and `no` stays a language."""
    files: dict[str, dict[str, list[str]]] = {}
    everything: dict[str, list[str]] = {}
    for output in record.outputs:
        split = SPLITS[output.labels["part"]]
        path = output.path.removeprefix(f"{folder}/")
        files.setdefault(output.labels["language"], {}).setdefault(split, []).append(path)
        everything.setdefault(split, []).append(path)
    lines = ["---", "language:"]
    lines += [f"- {json.dumps(tag)}" for tag in sorted({tag.split("-")[0] for tag in files})]
    lines += ["task_categories:", "- fill-mask", "configs:"]
    configurations = [(ALL_LANGUAGES, everything), *sorted(files.items())] if files else []
    for name, splits in configurations:
        lines.append(f"- config_name: {json.dumps(name)}")
        lines += ["  default: true"] if name == ALL_LANGUAGES else []
        lines.append("  data_files:")
        for split, paths in sorted(splits.items(), reverse=True):
            lines += [f"  - split: {split}", "    path:"]
            lines += [f"    - {json.dumps(path)}" for path in sorted(paths)]
    return [*lines, "---", ""]


def _body(config: Mapping[str, Any], record: StageRecord) -> list[str]:
    pack, masking = config["pack"], config["pack"]["masking"]
    special = config["special_tokens"]
    keep = 1 - masking["mask_probability"] - masking["random_probability"]
    lines = [
        f"# Packed sequences of the run {config['run']}",
        "",
        f"Sequences of at most {pack['length']} tokens: {MODES[pack['mode']].format(**special)}. "
        + (
            "One sequence may hold several languages (`mul`)."
            if pack["mix_languages"]
            else "One sequence never mixes languages."
        ),
        "",
        "    from datasets import load_dataset",
        '    rows = load_dataset("FOLDER", split="train")  # all languages',
        '    rows = load_dataset("FOLDER", "LANGUAGE", split="train")',
        "",
        "| column | what it is |",
        "|---|---|",
        "| `sequence_id` | the first document's id and the token that it begins with |",
        "| `language` | BCP 47 |",
        "| `tokens` | ids, special ones included, not masked |",
        "| `document_starts`, `document_ids` | where each document begins, and its id |",
        "| `mask_positions`, `mask_tokens` | for each view: positions and the ids to put there |",
    ]
    if pack["mode"] == "pairs":
        lines.append("| `segments`, `is_next` | segment of each token; whether B follows A |")
    lines += [
        "",
        "Masked input = `tokens` with `mask_tokens[view]` put at `mask_positions[view]`; labels = "
        "`tokens` at those positions.",
        "",
        "## Masks",
        "",
        f"{masking['views']} view(s) a training sequence. Of the ordinary tokens "
        f"{masking['rate']:.1%} are chosen, by the unit {masking['unit']}; of these "
        f"{masking['mask_probability']:.0%} become `{special['mask']}`, "
        f"{masking['random_probability']:.0%} a random token ({masking['random_from']}), "
        f"{keep:.0%} stay. A mask is a pure function of (seed "
        f"{pack['seed']}, pass, sequence id). Held-out sequences: one view, 15.0%, single tokens.",
        "",
        "## Vocabulary",
        "",
        f"`{config['vocabulary']}`, SHA-256 `{pack['vocabulary_sha256']}`. The files' schema "
        "metadata say so too: `babelmill.rows`, `id_bytes`, `mode`, `length`, `vocabulary`.",
        "",
        "## Sources and rights",
        "",
        *(f"- {line}" for line in config["licences"]),
        "",
    ]
    return lines


def _counts(config: Mapping[str, Any], record: StageRecord) -> list[str]:
    found: dict[str, Counters] = {}
    for key, value in record.counters.items():
        name, slash, language = key.partition("/")
        if slash:
            found.setdefault(language, Counter())[name] = value
    rows = sorted(found.items())
    if len(rows) > 1:
        rows.append(("all", sum((counts for _, counts in rows), Counter())))
    lines = [
        "## Counts",
        "",
        "| language | documents | text tokens | sequences | tokens in rows | fill | masked "
        "| held-out sequences | held-out tokens in rows |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for language, counts in rows:
        numbers = [counts[name] for name in ("documents", "tokens", "sequences", "row_tokens")]
        cells = [
            language,
            *(f"{number:,}" for number in numbers),
            _share(counts["row_tokens"], counts["slots"]),
            _share(counts["masked_tokens"], counts["maskable_tokens"]),
            f"{counts['held_out_sequences']:,}",
            f"{counts['held_out_row_tokens']:,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Text tokens: the ordinary tokens of the documents. Tokens in rows: what `tokens` holds, "
        "special tokens included"
        + (
            " and the text that a B from another document borrows"
            if config["pack"]["mode"] == "pairs"
            else ""
        )
        + f". Fill: tokens in rows by slots, which are {config['pack']['length']} for each "
        "sequence. Masked: tokens that the first view chooses by the ordinary tokens in rows.",
    ]
    return lines


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else ""


def write_file(unit: Unit, config: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the card from the record of the pack stage."""
    record = read_stage(attempt.store, config["run"], "pack")
    attempt.write_bytes(CARD, card_text(config, record, attempt.folder).encode(), part="card")


def card_step(config: DataConfig, pack: Step, record: StageRecord, vocabulary: Output) -> Step:
    """The step that writes the card of a finished pack stage."""
    kinds = sorted({source.kind for source in config.sources})
    read = {
        "run": config.run.name,
        "record": record.binding_id,
        "pack": dict(pack.config),
        "vocabulary": vocabulary.path,
        "special_tokens": SENTENCEPIECE_TOKENS
        if vocabulary.labels["part"] == "spm.model"
        else WORDPIECE_TOKENS,
        "licences": [LICENCES.get(kind, f"{kind}: see the source.") for kind in kinds],
    }
    return Step("pack-card", 2, pack.folder, read, write_file, "card")


def card_unit() -> Unit:
    """The one unit of `card_step`."""
    return Unit(CARD, ())


def write_card(
    stage: StageRun, config: DataConfig, pack: Step, record: StageRecord, vocabulary: Output
) -> StageRecord:
    """Write the card of a finished pack stage, unless it is there."""
    step, unit = card_step(config, pack, record, vocabulary), card_unit()
    # Its name is always the same, so another run of the stage may have written over it.
    key = manifest_key(step, unit)
    if stage.store.exists(key):
        [output] = Manifest.model_validate_json(stage.store.read_bytes(key)).outputs
        if not stage.store.exists(output.path) or not _same(stage, output):
            stage.store.delete(key)
    return stage.run(step, [unit])


def _same(stage: StageRun, output: Output) -> bool:
    with stage.store.on_disk(output.path) as path:
        return sha256_of(path) == output.sha256
