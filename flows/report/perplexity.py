"""The part of a run's page about perplexity: how many documents are in which bucket."""

from __future__ import annotations

from flows.report import markup
from flows.report.markup import Table
from flows.report.read import RunView, by_language

BUCKETS = ("head", "middle", "tail", "unscored")


def perplexity_section(view: RunView) -> str:
    """Documents of each bucket, by language; nothing for a run without the stage."""
    record = view.record("perplexity")
    if record is None:
        return ""
    counts = [by_language(record, f"bucket.{bucket}") for bucket in BUCKETS]
    scored = sorted({tag for count in counts[:3] for tag in count})
    rows = [(tag, *(count.get(tag, 0) for count in counts)) for tag in scored]
    whole = ("all languages", *(sum(count.values()) for count in counts))
    without = sorted(set(counts[3]) - set(scored))
    return markup.section(
        "Perplexity",
        markup.paragraph(
            f"Models of {len(scored)} language(s); the other {len(without)} have too little text "
            "to train one on, and their documents no score. Head and tail are cut at percentiles "
            "of each language, so they say nothing about one language against another."
        ),
        markup.table(Table(("language", *BUCKETS), [whole, *rows])),
    )
