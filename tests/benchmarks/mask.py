"""Masking against DataCollatorForLanguageModeling, on one core, on the same tokens.

Both are given batches of 512 ids a sequence, of a vocabulary of 250,002 rows. The collator is timed
as a training loop calls it (lists of ids in, padded tensors out); and, which is more than it offers
its users, as its inner function alone, on tensors that are there, with the special tokens known.
Ours is timed from flat arrays, as the reader has them, to the same two tensors, and, as packing
uses it, to positions and replacements alone; hashing the sequences' ids is part of both. The sides
take turns; the best of the turns counts, in seconds of processor time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import tokenizers
import torch
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from pipelines.core.masking import MaskingRule, UnigramSampler, mask_keys, mask_sequences
from tests.benchmarks.machine import on_one_core

ROWS, MASK, LENGTH = 250_002, 250_001, 512
SPECIAL = frozenset({0, 1, 2, 3, MASK})
BATCHES = (32, 64, 128, 256)
ROUNDS = 7
SECONDS_A_TURN = 0.03
COUNTS = np.concatenate([np.zeros(4, np.int64), 10**10 // np.arange(1, ROWS - 3)])
WORD_STARTS = np.random.default_rng(1).random(ROWS) < 0.74
"""As many pieces begin a word as in XLM-R's vocabulary."""


def run(data: Path) -> dict[str, Any]:
    """Tokens per second of both, and how many times faster ours is."""
    command = on_one_core([sys.executable, "-m", "tests.benchmarks.mask"])
    figures: dict[str, Any] = json.loads(subprocess.check_output(command))
    return figures


def main() -> None:
    """Measure in this process and print one JSON line."""
    torch.set_num_threads(1)
    with TemporaryDirectory(prefix="babelmill-bench-") as folder:
        collator = DataCollatorForLanguageModeling(collator_tokenizer(Path(folder)), seed=7)
        by_batch = {str(size): compare(collator, size) for size in BATCHES}
    ratios = [figures["times_the_collator"] for figures in by_batch.values()]
    print(
        json.dumps(
            {
                "tokens_per_second_by_batch": by_batch,
                "least_times_the_collator": min(ratios),
                "least_times_its_inner_function": min(
                    figures["times_its_inner_function"] for figures in by_batch.values()
                ),
                "shard_of_2_million_tokens": shard(),
            }
        )
    )


def collator_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """A tokenizer whose special ids are XLM-R's; the collator asks it for nothing else."""
    words = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": MASK}
    words |= {f"w{number}": number for number in range(4, MASK)}
    model = tokenizers.models.WordLevel(words, unk_token="<unk>")
    path = folder / "tokenizer.json"
    tokenizers.Tokenizer(model).save(str(path))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(path),
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        cls_token="<s>",
        sep_token="</s>",
    )
    if sorted(tokenizer.all_special_ids) != sorted(SPECIAL) or len(tokenizer) != ROWS:
        raise RuntimeError("the collator's tokenizer has other special ids than ours")
    return tokenizer


def sequences(count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Rows as packing makes them: <s>, text with a separator in its middle, </s>."""
    random = np.random.default_rng(count)
    tokens = random.integers(4, MASK, (count, LENGTH), dtype=np.uint32)
    tokens[:, 0], tokens[:, -1] = 0, 2
    tokens[np.arange(count), random.integers(1, LENGTH - 1, count)] = 2
    return tokens


def compare(collator: DataCollatorForLanguageModeling, size: int) -> dict[str, float]:
    """Tokens per second for one batch size."""
    tokens = sequences(size)
    rows = tokens.tolist()
    tensor = torch.from_numpy(tokens.astype(np.int64))
    special = torch.from_numpy(np.isin(tokens, sorted(SPECIAL)))
    names = [f"{size:032x}:{number * 510}" for number in range(size)]
    rule, sampler = MaskingRule(0.15, 0.8, 0.1, MASK, SPECIAL), UnigramSampler(COUNTS, SPECIAL)

    def ours_to_masks() -> None:
        masks_of(tokens, names, rule, sampler)

    def ours_to_tensors() -> None:
        masks = masks_of(tokens, names, rule, sampler)
        inputs, labels = tokens.astype(np.int64), np.full(tokens.shape, -100, dtype=np.int64)
        rows_of = np.repeat(np.arange(0, tokens.size, LENGTH), np.diff(masks.offsets))
        places = rows_of + masks.positions
        labels.reshape(-1)[places] = inputs.reshape(-1)[places]
        inputs.reshape(-1)[places] = masks.tokens
        torch.from_numpy(inputs), torch.from_numpy(labels)

    def collator_as_called() -> None:
        collator([{"input_ids": row} for row in rows])

    def collator_inside() -> None:
        collator.torch_mask_tokens(tensor.clone(), special)

    sides = (collator_as_called, collator_inside, ours_to_tensors, ours_to_masks)
    called, inside, tensors, masks = fastest(sides, tokens.size)
    return {
        "collator": called,
        "collator_inner_function": inside,
        "ours_to_input_and_labels": tensors,
        "ours_to_positions": masks,
        "times_the_collator": tensors / called,
        "times_its_inner_function": tensors / inside,
        "positions_times_the_collator": masks / called,
    }


def masks_of(
    tokens: np.ndarray[Any, np.dtype[np.uint32]],
    names: list[str],
    rule: MaskingRule,
    sampler: UnigramSampler,
) -> Any:
    """The whole of our work, keys from ids included."""
    offsets = np.arange(len(tokens) + 1) * LENGTH
    keys = mask_keys(7, 0, names)
    return mask_sequences(tokens.reshape(-1), offsets, keys, rule, sampler, WORD_STARTS)


def fastest(sides: tuple[Callable[[], None], ...], tokens: int) -> list[float]:
    """Tokens per second of each, best of rounds in which they take turns."""
    best = [float("inf")] * len(sides)
    for _ in range(ROUNDS):
        for number, side in enumerate(sides):
            calls, began = 0, time.process_time()
            while (seconds := time.process_time() - began) < SECONDS_A_TURN:
                side()
                calls += 1
            best[number] = min(best[number], seconds / calls)
    return [tokens / seconds for seconds in best]


def shard() -> dict[str, float]:
    """Tokens per second on 4,000 sequences at once, by what is chosen."""
    tokens = sequences(4000)
    names = [f"{number:032x}:0" for number in range(len(tokens))]
    sampler = UnigramSampler(COUNTS, SPECIAL)

    def masking(unit: Literal["token", "word", "span"]) -> Callable[[], None]:
        rule = MaskingRule(0.15, 0.8, 0.1, MASK, SPECIAL, unit)
        return lambda: masks_of(tokens, names, rule, sampler)

    units: tuple[Literal["token", "word", "span"], ...] = ("token", "word", "span")
    rates = fastest(tuple(masking(unit) for unit in units), tokens.size)
    return dict(zip(units, rates, strict=True))


if __name__ == "__main__":
    main()
