"""The model card: what an exported model was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from model.config import EncoderSection
from model.config.encoder import LAYOUTS
from model.metrics import LossSums
from model.vocabulary_facts import AnyVocabulary, kind_of, normalization_of
from pipelines.core.vocabulary import MASK_TOKEN, SPECIAL_TOKENS
from pipelines.core.wordpiece import (
    WORDPIECE_MASK_TOKEN,
    WORDPIECE_SPECIAL_TOKENS,
    WordPieceVocabulary,
)


def model_card(
    run: str,
    job: Mapping[str, Any],
    vocabulary: AnyVocabulary,
    vocabulary_from: str | None,
    balance: Mapping[str, Any],
    metrics: Mapping[str, Any],
    parameters: int,
) -> str:
    """Write README.md of an exported model.

    Args:
        job: the pretraining job (`model.pretraining_job.PretrainingJob`) as plain JSON.
        vocabulary: the one that the model was trained with.
        vocabulary_from: vocabulary.start_from.
        balance: the table of the balance stage.
        metrics: what pretraining recorded: steps, tokens_seen, evaluations, and at its end
            unigram. Of a checkpoint before the end, `all_steps` too.
        parameters: number of trained values.
    """
    encoder, training = job["encoder"], job["pretraining"]
    evaluation = [{"step": 0, "languages": {}}, *metrics["evaluations"]][-1]
    last: LossSums = evaluation["languages"]
    unigram: LossSums | None = metrics.get("unigram")
    layout = EncoderSection.model_validate(encoder).layout
    tags = sorted({row["language"].split("-")[0] for row in balance["rows"]})
    header = ["---", "language:", *(f"- {tag!r}" for tag in tags)]
    header += ["library_name: transformers", "pipeline_tag: fill-mask", "---"]
    facts = [
        ("layers", encoder["layers"]),
        ("hidden size", encoder["hidden_size"]),
        ("attention heads", encoder["heads"]),
        ("feed-forward size", encoder["feed_forward_size"]),
        ("parameters", f"{parameters:,}"),
        ("vocabulary", kind_of(vocabulary)),
        *([("vocabulary taken from", vocabulary_from)] if vocabulary_from else []),
        ("normalization", normalization_of(vocabulary)),
        ("vocabulary rows", f"{job['rows']:,}"),
        ("longest text, tokens", job["length"]),
        ("updates", _updates(metrics)),
        ("sequences per update", f"{training['sequences_per_step']:,}"),
        *([("started from", training["start_from"])] if training.get("start_from") else []),
        ("tokens seen", f"{metrics['tokens_seen']:,}"),
        ("seed", job["seed"]),
    ]
    rows = [
        [
            row["language"],
            f"{row['documents']:,}",
            f"{row['sentences']:,}",
            f"{row['characters']:,}",
            f"{row['p']:.4f}",
            f"{row['q']:.4f}",
            _loss(last, row["language"]),
            "at the end" if unigram is None else _loss(unigram, row["language"]),
        ]
        for row in balance["rows"]
    ]
    alphas = ", then ".join(f"{phase['alpha']:g}" for phase in balance["phases"])
    titles = ["language", "documents", "sentences", "characters", "share in the text (p)"]
    titles += ["share in training (q)", "held-out loss", "unigram loss"]
    lines = [
        *header,
        "",
        f"# {run}",
        "",
        f"A multilingual encoder trained with {_objective(encoder)}, in the architecture of "
        f"{LAYOUTS[layout][0]} (`{layout}`).",
        "",
        "```python",
        "from transformers import AutoModelForMaskedLM, AutoTokenizer",
        "",
        'tokenizer = AutoTokenizer.from_pretrained("THIS_FOLDER")',
        'model = AutoModelForMaskedLM.from_pretrained("THIS_FOLDER")',
        "```",
        "",
        "## Model",
        "",
        *table(["", ""], [[name, str(value)] for name, value in facts]),
        "",
        *_text_and_masks(vocabulary, job["masking"]),
        "",
        "## Data",
        "",
        f"Languages are mixed by q ~ p^alpha with alpha = {alphas} and p of {balance['unit']}, "
        f"each text at most {balance['max_repeats']:g} times in one pass. Losses are nats per "
        "masked token on documents that were not trained on, after "
        f"{evaluation['step']:,} updates; the unigram column is what frequencies alone reach.",
        "",
        *table(titles, rows),
    ]
    return "\n".join(lines) + "\n"


def _objective(encoder: Mapping[str, Any]) -> str:
    pairs = " and next sentence prediction" if encoder["next_sentence"] else ""
    return f"masked language modelling{pairs}"


def _updates(metrics: Mapping[str, Any]) -> str:
    done, whole = metrics["steps"], metrics.get("all_steps")
    return f"{done:,}" if whole in (None, done) else f"{done:,} of {whole:,} (training went on)"


def _text_and_masks(vocabulary: AnyVocabulary, masking: Mapping[str, Any]) -> list[str]:
    """How the names of special tokens are read, and which tokens were predicted."""
    wordpiece = isinstance(vocabulary, WordPieceVocabulary)
    mask = WORDPIECE_MASK_TOKEN if wordpiece else MASK_TOKEN
    names = WORDPIECE_SPECIAL_TOKENS if wordpiece else SPECIAL_TOKENS
    others = ", ".join(f"`{name}`" for name in names)
    return [
        "## Special tokens in text",
        "",
        f"`{mask}` in a text, after normalization, is the mask, together with the blank before it. "
        f"{others} in a text are text, cut into pieces like any other; the tokenizer reads them as "
        "tokens only where it is called with `split_special_tokens=False`. Apart from the mask, "
        "ids are those of the training data, in which a literal mask is text too.",
        "",
        "## Masking",
        "",
        masking_rule(masking, mask),
    ]


def masking_rule(masking: Mapping[str, Any], mask: str) -> str:
    """The masking rule in words.

    Args:
        masking: `model.data.training_data.MaskingSettings` as plain JSON.
        mask: name of the mask token.
    """
    kept = 1 - masking["mask_probability"] - masking["random_probability"]
    drawn = {"unigram": "by its frequency", "uniform": "all alike"}[masking["random_from"]]
    rates = [f"{phase['rate']:.4g} until {phase['until']:.0%}" for phase in masking["phases"]]
    rate = f"{', then '.join(rates)} of the training" if rates else f"{masking['rate']:.4g}"
    unit = {
        "token": "single tokens",
        "word": "whole words",
        "span": f"spans of {masking['mean_span_words']:g} words on average",
    }[masking["unit"]]
    return (
        f"Share of ordinary tokens predicted: {rate}; chosen as {unit}. Of these "
        f"{masking['mask_probability']:.4g} are replaced by `{mask}`, "
        f"{masking['random_probability']:.4g} by a random token (drawn {drawn}), {kept:.4g} stay."
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [titles, ["---"] * len(titles), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def _loss(sums: LossSums, language: str) -> str:
    row = sums.get(language)
    return f"{row['loss_sum'] / row['tokens']:.3f}" if row and row["tokens"] else "none held out"
