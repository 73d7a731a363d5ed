"""The usual way to packed, masked sequences, in this process, measured.

A fast tokenizer's `encode_batch`, transformers' run_mlm grouping (all ids in a row, cut to blocks
of 512), DataCollatorForLanguageModeling and Parquet by `datasets`, on one thread.

python -m tests.benchmarks.hf_pack STORE_FOLDER COPIES -> one JSON line
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from itertools import chain
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"

BLOCK = 512
ROWS_AT_ONCE = 1000


def main() -> None:
    import datasets
    import pyarrow.parquet as pq
    import torch
    from tokenizers import Tokenizer
    from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

    from pipelines.core.tokenizer_file import tokenizer_json
    from pipelines.core.vocabulary import Vocabulary
    from tests.peak_memory import peak_megabytes

    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    folder, copies = sys.argv[1:3]
    with open(f"{folder}/inputs-{copies}.json", "rb") as file:
        listing = json.load(file)
    files = [f"{folder}/{entry['path']}" for entry in listing["unique"]]
    with open(f"{folder}/{listing['vocabulary'][0]['path']}", "rb") as file:
        tokenizer = Tokenizer.from_str(tokenizer_json(Vocabulary(file.read())))
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    )
    collator = DataCollatorForLanguageModeling(wrapped, mlm_probability=0.15)

    def encode(batch: dict[str, list[str]]) -> dict[str, Any]:
        return {"input_ids": [encoded.ids for encoded in tokenizer.encode_batch(batch["text"])]}

    def group(batch: dict[str, list[list[int]]]) -> dict[str, Any]:
        ids = list(chain(*batch["input_ids"]))
        whole = len(ids) // BLOCK * BLOCK
        return {"input_ids": [ids[i : i + BLOCK] for i in range(0, whole, BLOCK)]}

    def mask(batch: dict[str, list[list[int]]]) -> dict[str, Any]:
        made = collator([{"input_ids": ids} for ids in batch["input_ids"]])
        return {"input_ids": made["input_ids"].numpy(), "labels": made["labels"].numpy()}

    tokens = seconds = cpu = 0.0
    with tempfile.TemporaryDirectory() as work:
        for number, path in enumerate(files):
            began, used = time.monotonic(), time.process_time()
            # Its reader of Parquet knows no maps, which the documents' metadata are.
            texts = datasets.Dataset(pq.read_table(path, columns=["text"]))
            ids = texts.map(encode, batched=True, remove_columns=["text"])
            blocks = ids.map(group, batched=True)
            masked = blocks.map(mask, batched=True, batch_size=ROWS_AT_ONCE)
            masked.to_parquet(f"{work}/{number}.parquet")
            if number:  # as in our part, the first file warms up
                seconds += time.monotonic() - began
                cpu += time.process_time() - used
                tokens += BLOCK * len(masked)
    print(
        json.dumps(
            {
                "tokens": tokens,
                "tokens_per_second_per_core": tokens / seconds,
                "tokens_per_cpu_second": tokens / cpu,
                "peak_megabytes": peak_megabytes(),
            }
        )
    )


if __name__ == "__main__":
    main()
