"""Packed Parquet as transformers' masked language modelling reads it: the peer's side."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def tokenizer_and_rows(folder: Path, rows: int, length: int) -> tuple[Any, Any]:
    """A tokenizer with our special ids, and the `datasets` table of the packed rows.

    The mask of special tokens is given as a column, as run_mlm.py stores it; finding it by the
    tokenizer would take longer.

    Args:
        folder: with the Parquet files below `store`.
        rows: of the vocabulary.
        length: tokens in each packed row.
    """
    from datasets import load_dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    names = ["<s>", "<pad>", "</s>", "<unk>", *(f"w{i}" for i in range(rows - 5)), "<mask>"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({n: i for i, n in enumerate(names)}, "<unk>")),
        pad_token="<pad>",
        mask_token="<mask>",
        unk_token="<unk>",
    )
    files = [str(path) for path in sorted((folder / "store").rglob("*.parquet"))]
    table = load_dataset("parquet", data_files=files, split="train")
    table = table.select_columns(["tokens"]).rename_column("tokens", "input_ids")
    special = [1, *[0] * (length - 2), 1]
    return tokenizer, table.add_column("special_tokens_mask", [special] * len(table))
