"""The page's part about pretraining."""

from __future__ import annotations

import math

from flows.report import markup
from flows.report.markup import Table
from flows.report.model_plots import loss_svg
from flows.report.read import mean_loss
from flows.report.totals import group_losses
from flows.report.training_plots import MOST_LANGUAGES, curves_svg, training_svg
from flows.report.training_tables import Metrics, Speed, in_words, summary_of


def pretraining_section(metrics: Metrics, speed: Speed | None) -> str:
    """Losses by group and language, the training log, and what was measured."""
    measured = speed.speed if speed is not None else ()
    summary = summary_of(measured)
    words = (
        f"{metrics.steps:,} steps over {metrics.tokens_seen:,} tokens. Losses are nats per "
        "masked token. The unigram model, which knows only how frequent each token is, is "
        "measured on the very same tokens; ln(rows) is the loss of knowing nothing at all."
    )
    content = [
        markup.paragraph(words),
        markup.figure(
            loss_svg(metrics),
            "Left: loss over steps. Right: held-out loss by script group, before and after.",
            Table(GROUP_COLUMNS, _by_group(metrics)),
        ),
    ]
    if metrics.evaluations:
        count = len(metrics.evaluations[-1].languages)
        which = (
            f"{MOST_LANGUAGES} of {count} languages: the best and the worst against"
            if count > MOST_LANGUAGES
            else "The languages, the best first, against"
        )
        content.append(
            markup.figure(
                curves_svg(metrics),
                f"{which} the unigram model (dashed): held-out loss over steps.",
                _over_steps(metrics),
            )
        )
    content += [
        markup.figure(
            training_svg(metrics, measured),
            f"Medians: {in_words(summary)}." if summary else "Speed was not recorded.",
            _log(metrics, speed),
        ),
        markup.details("held-out loss by language", markup.table(_by_language(metrics))),
    ]
    return markup.section("Pretraining", *content)


GROUP_COLUMNS = (
    "group",
    "masked tokens",
    "loss before",
    "loss after",
    "perplexity after",
    "unigram model",
    "ln(rows)",
)


def _by_group(metrics: Metrics) -> list[tuple[object, ...]]:
    return [
        (row.group, row.tokens, _nats(row.before), _nats(row.after), _perplexity(row.after),
         _nats(row.unigram), _nats(math.log(metrics.rows)))
        for row in group_losses(metrics)
    ]  # fmt: skip


def _log(metrics: Metrics, speed: Speed | None) -> Table:
    own = {row.step: row for row in speed.speed} if speed is not None else {}
    pairs = any(row.next_sentence_loss is not None for row in metrics.log)
    columns = ["step", "loss", *(["next sentence"] if pairs else []), "learning rate",
               "gradient norm", "tokens per second", "loader idle", "MFU"]  # fmt: skip
    rows = []
    for row in metrics.log:
        at = own.get(row.step)
        rows.append(
            [str(row.step), f"{row.loss:.4f}",
             *([_nats(row.next_sentence_loss)] if pairs else []),
             f"{row.learning_rate:.3g}", f"{row.gradient_norm:.3f}",
             None if at is None else round(at.real),
             None if at is None else f"{at.loader_idle_share:.1%}",
             None if at is None or at.mfu is None else f"{at.mfu:.1%}"]
        )  # fmt: skip
    return Table(columns, rows)


def _over_steps(metrics: Metrics) -> Table:
    tags = sorted(metrics.evaluations[-1].languages)
    steps = [f"step {evaluation.step:,}" for evaluation in metrics.evaluations]
    rows = [
        (tag, *(_nats(mean_loss(e.languages.get(tag))) for e in metrics.evaluations),
         _nats(mean_loss(metrics.unigram.get(tag))))
        for tag in tags
    ]  # fmt: skip
    return Table(("language", *steps, "unigram model"), rows)


def _by_language(metrics: Metrics) -> Table:
    columns = ("language", "masked tokens", "loss before", "loss after", "unigram model")
    if not metrics.evaluations:
        return Table(columns, [])
    first, last = metrics.evaluations[0].languages, metrics.evaluations[-1].languages
    rows = [
        (tag, last[tag].tokens,
         *(_nats(mean_loss(table.get(tag))) for table in (first, last, metrics.unigram)))
        for tag in sorted(last)
    ]  # fmt: skip
    return Table(columns, rows)


def _nats(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _perplexity(value: float | None) -> str | None:
    return None if value is None else f"{math.exp(value):,.1f}"
