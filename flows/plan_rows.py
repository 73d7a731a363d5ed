"""The lines that `babelmill plan` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flows.plan_command import Plan

Row = tuple[str, str, str]
"""What, how much, and what it consists of."""


def rows_of(plan: Plan, record: Mapping[str, Any]) -> Iterator[Row]:
    """Lines of a plan, from its record."""
    parts = record["parameters"]
    yield (
        "parameters",
        f"{parts['total']:,}",
        f"word matrix {parts['words']:,} of {plan.rows:,} rows, layers {parts['layers']:,}",
    )
    yield from _phases(record)
    yield from _memory(plan, record)
    speed, busy = record["tokens_per_second"], record["busy_share"]
    waiting = "" if busy > 0.995 else f"; {busy:.0%} busy, the rest waits: uneven micro-batches"
    yield (
        "tokens per second",
        f"{speed:,.0f}",
        f"{speed / plan.gpus:,.0f} a GPU: {plan.mfu:.0%} of "
        f"{plan.gpu.bf16_flops / 1e12:,.1f} TFLOP/s (bf16, dense, {plan.gpu.name}){waiting}",
    )
    pretraining = plan.config.pretraining
    yield (
        "steps",
        f"{record['steps']:,}",
        f"{pretraining.sequences_per_step:,} x {plan.config.packing.length} tokens in "
        f"{record['seconds_per_step']:,.3g} s each",
    )
    yield "tokens", _short(record["tokens"]), f"{record['flops']:.3g} FLOP"
    yield "time", span(record["seconds"]), f"on {plan.gpus} GPUs"
    yield "GPU hours", f"{record['gpu_hours']:,.1f}", ""
    yield (
        "price",
        f"{record['price']:,.0f}",
        f"assumed {plan.price:g} a GPU-hour (--price-per-gpu-hour)",
    )
    yield (
        "checkpoint",
        size(record["checkpoint_bytes"]),
        f"weights and AdamW's state, float32; up to {pretraining.keep_checkpoints + 1} are kept: "
        f"{size(record['kept_checkpoint_bytes'])}",
    )
    yield (
        "packed data",
        size(record["packed_bytes_used_once"]),
        f"if each sequence is used once, uncompressed; {record['packed_bytes_per_sequence']:,.0f} "
        "bytes a sequence; used n times, an n-th of it",
    )


def _phases(record: Mapping[str, Any]) -> Iterator[Row]:
    phases, begin = record["phases"], 0.0
    for phase in phases:
        until = f"from {begin:.0%} to {phase['until']:.0%}, " if len(phases) > 1 else ""
        begin = phase["until"]
        yield (
            "FLOPs per token",
            f"{phase['flops_per_token'] / 1e9:,.3f} G",
            f"{until}rows of {phase['length']}, {phase['masking_rate']:.0%} predicted",
        )


def _memory(plan: Plan, record: Mapping[str, Any]) -> Iterator[Row]:
    memory = record["memory_bytes"]
    names = {
        "parameters": "parameters",
        "gradients": "gradients",
        "optimizer": "AdamW",
        "casts": "bf16 weights",
        "word_gradient": "word gradient",
        "activations": "activations",
        "recomputed": "recomputed",
        "logits": "logits",
    }
    pretraining = plan.config.pretraining
    ways = [
        words
        for words, used in (
            ("activation checkpointing", pretraining.activation_checkpointing),
            (f"AdamW shared by {plan.gpus}", pretraining.shard_optimizer),
        )
        if used
    ]
    yield (
        "memory a GPU",
        size(memory["total"]),
        ", ".join(
            f"{words} {memory[name] / 1e9:,.1f}" for name, words in names.items() if memory[name]
        ),
    )
    yield (
        "  fits" if record["fits"] else "  DOES NOT FIT",
        size(record["usable_bytes"]),
        ", ".join([f"usable of {size(plan.gpu.memory_bytes)}; 10 % stay for CUDA and NCCL", *ways]),
    )
    yield (
        "micro-batch",
        f"{record['sequences_per_micro_batch']:,}",
        f"sequences; the most that fit and keep {plan.gpus} GPUs busy: "
        f"{record['largest_micro_batch']:,}",
    )


def size(count: float) -> str:
    """Bytes, in 10^9 or 10^12."""
    return f"{count / 1e12:,.2f} TB" if count >= 1e12 else f"{count / 1e9:,.1f} GB"


def span(seconds: float) -> str:
    """A time as a person says it."""
    for unit, length in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} seconds"


def _short(count: float) -> str:
    for word, power in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if count >= power:
            return f"{count / power:,.2f} {word}"
    return f"{count:,.0f}"
