"""What a run's tables add up to: the numbers that the terminal, the pictures and the page share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flows.report.read import RunView, Stage, add_losses, by_language, losses_by_group, mean_loss
from flows.report.training_tables import Metrics
from pipelines.core.progress import duration

FUNNEL = (
    ("extract", "documents", "bytes"),
    ("filter", "kept", "kept_bytes"),
    ("deduplicate", "documents", "bytes"),
    ("perplexity", "documents", "bytes"),
)
"""Stages that pass documents on, and their counters (by language) of documents and bytes."""


@dataclass(frozen=True)
class Funnel:
    """What is left after a stage; None where the stage does not count it."""

    stage: str
    documents: int | None
    bytes: int | None
    """UTF-8 bytes of text."""


@dataclass(frozen=True)
class GroupLoss:
    """Held-out loss of one group of languages, nats per masked token."""

    group: str
    tokens: int
    """Masked tokens of the last evaluation."""
    before: float | None
    after: float | None
    unigram: float | None
    """Cross-entropy of the unigram model on the same tokens."""


def funnel(view: RunView) -> list[Funnel]:
    """Documents and bytes left after each finished stage that passes documents on."""
    rows = []
    for stage, counter, bytes_counter in FUNNEL:
        record = view.record(stage)
        if record is None:
            continue
        sizes, counts = by_language(record, bytes_counter), by_language(record, counter)
        documents = sum(counts.values()) if counts else record.counters.get(counter)
        rows.append(Funnel(stage, documents, sum(sizes.values()) if sizes else None))
    if view.balance is not None:
        documents = sum(row.documents for row in view.balance.rows)
        rows.append(Funnel("balance", documents, sum(row.bytes for row in view.balance.rows)))
    return rows


def held_out_losses(metrics: Metrics) -> list[tuple[int, float]]:
    """(step, mean held-out loss over all languages) of every evaluation that masked a token."""
    means = [
        (evaluation.step, mean_loss(add_losses(evaluation.languages.values())))
        for evaluation in metrics.evaluations
    ]
    return [(step, mean) for step, mean in means if mean is not None]


def unigram_loss(metrics: Metrics) -> float | None:
    """Mean cross-entropy of the unigram model over all languages, nats per masked token."""
    return mean_loss(add_losses(metrics.unigram.values()))


def group_losses(metrics: Metrics) -> list[GroupLoss]:
    """One row for each script group, and a last one for all languages together."""
    if not metrics.evaluations:
        return []
    first, last = metrics.evaluations[0].languages, metrics.evaluations[-1].languages
    before, after = losses_by_group(first), losses_by_group(last)
    unigram = losses_by_group(metrics.unigram)
    rows = [
        GroupLoss(
            group,
            part.tokens,
            mean_loss(before.get(group)),
            mean_loss(part),
            mean_loss(unigram.get(group)),
        )
        for group, part in after.items()
    ]
    whole = add_losses(last.values())
    everything = GroupLoss(
        "all languages",
        whole.tokens,
        mean_loss(add_losses(first.values())),
        mean_loss(whole),
        unigram_loss(metrics),
    )
    return [*rows, everything]


def stage_time(stage: Stage) -> str:
    """Wall time of a stage in words; of a reused one the work that was done for it earlier."""
    if stage.record is None:
        return "not finished"
    seconds = stage.work_seconds if stage.reused else stage.record.seconds
    words = duration(seconds) if seconds >= 0.5 else "under 1 s"
    words = f"reused ({words} of work)" if stage.reused else words
    return f"{words}, out of date" if stage.outdated else words


def size(count: float) -> str:
    """Bytes for people: 12_345_678 -> `12.3 MB` (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 99.5 else f"{count:#.3g} {unit}"


def percent(share: float) -> str:
    """A share for people, three figures where it is small: 0.00123 -> `0.123 %`."""
    value = share * 100
    if value >= 9.995 or value == 0:
        return f"{value:.1f} %"
    return f"{value:#.3g} %"


def verdict(view: RunView) -> list[str]:
    """The run in plain sentences with its numbers, one for each thing that has finished."""
    sentences = [*_text(funnel(view)), *_mix(view), *_vocabulary(view), *_loss(view)]
    for scores in view.scores:
        test = scores.test
        sentences.append(
            f"On task {scores.task} the fine-tuned model reaches {percent(test.accuracy)} accuracy "
            f"and {percent(test.macro_f1)} macro-F1; always answering the most frequent label "
            f"would reach {percent(test.majority_accuracy)} accuracy."
        )
    if view.outdated:
        sentences.append(
            f"Out of date: {', '.join(view.outdated)} and what follows were made from earlier "
            "results of this run, not from those told of here."
        )
    if view.unfinished:
        sentences.append(f"Not finished: {', '.join(view.unfinished)}.")
    return sentences


def _text(rows: Sequence[Funnel]) -> list[str]:
    if not rows or not rows[0].documents or rows[0].stage != "extract":
        return []
    first, last = rows[0], rows[-1]
    read = f"The sources gave {first.documents:,} documents"
    if first.bytes is not None:
        read += f" ({size(first.bytes)} of text)"
    if last is first or last.documents is None:
        return [f"{read}."]
    left = f"{last.documents:,} of them are left after {last.stage}"
    left += f" ({percent(last.documents / (first.documents or 1))}"
    left += f", {size(last.bytes)})" if last.bytes is not None else ")"
    return [f"{read}; {left}."]


def _mix(view: RunView) -> list[str]:
    table = view.balance
    if table is None or not table.rows:
        return []
    large, small = table.rows[0], table.rows[-1]
    capped = sum(row.capped for row in table.rows)
    text = (
        f"{len(table.rows)} languages are in the mix: with alpha = {table.alphas} the largest, "
        f"{large.language}, goes from {percent(large.p)} of the {table.unit} to "
        f"{percent(large.q)}, and the smallest, {small.language}, from {percent(small.p)} to "
        f"{percent(small.q)}. "
        f"The cap of {table.max_repeats:g} repeats holds back {capped} of them{table.held}"
    )
    if table.excluded:
        text += f"; left out with too little text: {len(table.excluded)}"
    return [f"{text}."]


def _vocabulary(view: RunView) -> list[str]:
    report, tokens = view.vocabulary, by_language(view.record("pack"), "tokens")
    if report is None:
        return []
    text = f"The vocabulary has {report.pieces:,} pieces ({report.rows:,} rows with special tokens)"
    if tokens:
        text += f"; {sum(tokens.values()):,} text tokens are packed for training"
    totals = report.totals
    if totals is None or not totals.tokens or totals.tokens_per_character is None:
        return [f"{text}."]
    measured = f"On held-out text it makes {totals.tokens_per_character:.3f} tokens per character"
    if totals.tokens_per_word is not None:
        measured += f" and {totals.tokens_per_word:.2f} per word"
    measured += f", {percent(totals.unknown / totals.tokens)} of them unknown"
    if totals.ratio is not None:
        measured += f"; that is {totals.ratio:.3f} times as many as the vocabulary compared with"
    return [f"{text}.", f"{measured}."]


def _loss(view: RunView) -> list[str]:
    rows = group_losses(view.metrics) if view.metrics else []
    whole = rows[-1] if rows else None
    if view.metrics is None or whole is None or whole.before is None or whole.after is None:
        return []
    text = (
        f"In {view.metrics.steps:,} steps the loss on held-out masked tokens went from "
        f"{whole.before:.2f} to {whole.after:.2f} nats"
    )
    if whole.unigram is None:
        return [f"{text}."]
    side = "below" if whole.after < whole.unigram else "not below"
    return [
        f"{text}, which is {side} the {whole.unigram:.2f} nats of a model that knows only how "
        f"frequent each token is."
    ]
