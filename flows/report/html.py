"""The page of a run: one HTML file that opens from disk and needs nothing else."""

from __future__ import annotations

from flows.report import markup
from flows.report.dropped import dropped
from flows.report.markup import Table
from flows.report.model_plots import scores_svg
from flows.report.packed import packed_section
from flows.report.perplexity import perplexity_section
from flows.report.phases import phases_svg
from flows.report.plots import funnel_svg, shares_svg
from flows.report.pretraining import pretraining_section
from flows.report.read import RunView, by_language
from flows.report.tables import Scores, Shares
from flows.report.totals import (
    funnel,
    percent,
    stage_time,
    verdict,
)
from flows.report.vocabulary import vocabulary_section


def page(view: RunView) -> str:
    """The whole page; the same run gives the same text."""
    title = view.section.title
    if view.name not in title.split():
        title = f"{title}: run {view.name}"
    content = [
        f"<h1>{markup.text(title)}</h1>",
        markup.paragraph(" ".join(verdict(view)), "lead"),
        markup.facts(
            [
                ("Configuration", f"sha256 {view.config_sha256}"),
                ("Versions", ", ".join(f"{k} {' and '.join(v)}" for k, v in view.packages.items())),
            ]
        ),
        markup.details("the resolved configuration", f"<pre>{markup.text(view.config_text)}</pre>"),
        _stages(view),
        _funnel(view),
        perplexity_section(view),
        _languages(view),
        _vocabulary(view),
        _packed(view),
        _loss(view),
        *(_scores(scores, view.section.max_languages_in_picture) for scores in view.scores),
        *([_unfinished("Fine-tuning")] if "finetune" in view.unfinished else []),
        _notes(view),
        _counters(view),
    ]
    return markup.page(title, content)


def _unfinished(title: str) -> str:
    return markup.section(title, markup.paragraph("not finished", "faint"))


def _stages(view: RunView) -> str:
    rows = [
        (
            stage.name,
            stage.record and stage.record.units,
            stage.record and stage.record.reused,
            stage_time(stage),
            f"{stage.work_seconds:,.1f} s" if stage.record else None,
        )
        for stage in view.stages
    ]
    columns = ("stage", "units", "reused", "wall time", "work of all units")
    return markup.section("Stages", markup.table(Table(columns, rows)))


def _funnel(view: RunView) -> str:
    rows, lost = funnel(view), dropped(view)
    if not rows:
        return _unfinished("From documents to text that is kept")
    left = Table(
        ("stage", "documents left", "bytes of text left"),
        [(row.stage, row.documents, row.bytes) for row in rows],
    )
    reasons = Table(
        ("stage", "what was not passed on", "unit", "count"),
        [(row.stage, row.reason.replace("_", " "), row.unit, row.count) for row in lost],
        text_columns=3,
    )
    return markup.section(
        "From documents to text that is kept",
        markup.figure(
            funnel_svg(rows, lost),
            "Documents and bytes of text left after each stage; right: documents and examples "
            "that were dropped, and why.",
            left,
        ),
        markup.paragraph("Everything that was dropped or lost, by stage and unit:"),
        markup.table(reasons),
    )


def _languages(view: RunView) -> str:
    balance = view.balance
    if balance is None:
        return _unfinished("Languages")
    packed = by_language(view.record("pack"), "tokens")
    columns = ("language", "bytes", "documents", "sentences", "characters", "text tokens",
               "p", "q", "repeats", f"held at the cap{balance.held}", "set by hand")  # fmt: skip
    rows = [
        (row.language, row.bytes, row.documents, row.sentences, row.characters,
         packed.get(row.language), percent(row.p), percent(row.q), f"{row.repeats:.2f}",
         row.capped, row.weighted)
        for row in balance.rows
    ]  # fmt: skip
    excluded = [(row.language, f"{row.sentences:,}", row.reason) for row in balance.excluded]
    parts = [
        markup.paragraph(
            f"p is a language's share of the {balance.unit} of the deduplicated corpus; "
            f"q, its share in the mix, is p^alpha over the sum of all p^alpha with alpha = "
            f"{balance.alphas} (Conneau and Lample 2019), lowered where a text would be seen more "
            f"than {balance.max_repeats:g} times in one pass, the excess going to the others. "
            "Text tokens are the ordinary tokens of the documents packed for training."
            + (" q and repeats are means over the phases of training." if balance.held else "")
        ),
        markup.figure(
            shares_svg(balance, view.section.max_languages_in_picture),
            "Languages before and after rebalancing, and how often each text is then seen.",
            Table(columns, rows),
        ),
    ]
    phases = balance.phases if len(balance.phases) > 1 else ()
    uses: list[tuple[str, Shares]] = [(f"q until {phase.until:g}", phase) for phase in phases]
    if balance.vocabulary is not None:
        uses.append(("q of the vocabulary", balance.vocabulary))
    by_use = [
        (row.language, *(percent(q) if (q := use.of(row.language)) is not None else None
                         for _, use in uses))
        for row in balance.rows
    ]  # fmt: skip
    if uses:
        titles = [f"{title} (alpha = {use.alpha:g})" for title, use in uses]
        table = Table(("language", *titles), by_use)
        parts.append(
            markup.figure(
                phases_svg(balance, view.section.max_languages_in_picture),
                "Share of each language in each phase of training.",
                table,
            )
            if len(balance.phases) > 1
            else markup.details("shares by use", markup.table(table))
        )
    if excluded:
        reasons = Table(("language", "sentences", "why it is left out"), excluded, text_columns=3)
        parts.append(markup.paragraph(f"Languages left out of the mix: {len(excluded)}."))
        parts.append(markup.table(reasons))
    return markup.section("Languages", *parts)


def _vocabulary(view: RunView) -> str:
    report = view.vocabulary
    if report is None:
        return _unfinished("Vocabulary")
    return vocabulary_section(report, view.section.max_languages_in_picture)


def _packed(view: RunView) -> str:
    record = view.record("pack")
    if record is None:
        return _unfinished("Packed sequences")
    return packed_section(record)


def _loss(view: RunView) -> str:
    if view.metrics is None:
        return _unfinished("Pretraining")
    return pretraining_section(view.metrics, view.speed)


def _scores(scores: Scores, max_languages: int) -> str:
    test = scores.test
    labels = [
        (label, percent(row.precision), percent(row.recall), percent(row.f1), row.count)
        for label, row in sorted(test.per_label.items())
    ]
    languages = [
        (tag, percent(row.accuracy), row.count)
        for tag, row in sorted(test.per_language.items(), key=lambda i: (-i[1].count, i[0]))
    ]
    epochs = [(str(r.epoch), percent(r.accuracy), percent(r.macro_f1)) for r in scores.dev]
    counts = ", ".join(f"{count:,} {name}" for name, count in scores.counts.items())
    dropped_rows = [(reason.replace("_", " "), n) for reason, n in sorted(scores.dropped.items())]
    return markup.section(
        f"Fine-tuning: {scores.task}",
        markup.paragraph(
            f"{len(scores.labels)} labels; examples: {counts}. Test accuracy "
            f"{percent(test.accuracy)}, macro-F1 {percent(test.macro_f1)}; the most frequent label "
            f"alone gives {percent(test.majority_accuracy)} accuracy."
        ),
        markup.figure(
            scores_svg(scores, max_languages),
            f"Left: F1 of each label. Right: accuracy of {min(len(languages), max_languages)} of "
            f"{len(languages)} languages, the most test examples first.",
            Table(("label", "precision", "recall", "F1", "test examples"), labels),
        ),
        markup.details(
            "accuracy by language",
            markup.table(Table(("language", "accuracy", "test examples"), languages)),
        ),
        markup.details(
            "development set by epoch",
            markup.table(Table(("epoch", "accuracy", "macro-F1"), epochs)),
        ),
        markup.details(
            "examples that were left out", markup.table(Table(("reason", "count"), dropped_rows))
        ),
    )


def _notes(view: RunView) -> str:
    rows = [(s.name, note) for s in view.stages if s.record for note in s.record.notes]
    return markup.section(
        "Notes: damage met, and what was done about it",
        markup.table(Table(("stage", "note"), rows, text_columns=2)),
    )


def _counters(view: RunView) -> str:
    rows = [
        (stage.name, name, count)
        for stage in view.stages
        if stage.record
        for name, count in stage.record.counters.items()
    ]
    return markup.section(
        "Everything that was counted",
        markup.details(
            f"{len(rows):,} counts",
            markup.table(Table(("stage", "what was counted", "count"), rows, 2)),
        ),
    )
