"""The model card: what an exported model was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from model.metrics import LossSums


def model_card(
    run: str,
    job: Mapping[str, Any],
    balance: Mapping[str, Any],
    metrics: Mapping[str, Any],
    parameters: int,
) -> str:
    """Write README.md of an exported model.

    Args:
        job: the pretraining job (`model.training_data.PretrainingJob`) as plain JSON.
        balance: the table of the balance stage.
        metrics: what pretraining recorded.
        parameters: number of trained values.
    """
    encoder, training = job["encoder"], job["pretraining"]
    last: LossSums = metrics["evaluations"][-1]["languages"]
    tags = sorted({row["language"].split("-")[0] for row in balance["rows"]})
    header = ["---", "language:", *(f"- {tag!r}" for tag in tags)]
    header += ["library_name: transformers", "pipeline_tag: fill-mask", "---"]
    facts = [
        ("layers", encoder["layers"]),
        ("hidden size", encoder["hidden_size"]),
        ("attention heads", encoder["heads"]),
        ("feed-forward size", encoder["feed_forward_size"]),
        ("parameters", f"{parameters:,}"),
        ("vocabulary rows", f"{job['rows']:,}"),
        ("longest text, tokens", job["length"]),
        ("updates", f"{metrics['steps']:,}"),
        ("sequences per update", f"{training['sequences_per_step']:,}"),
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
            _loss(metrics["unigram"], row["language"]),
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
        "A multilingual encoder trained with masked language modelling, in the architecture of "
        "XLM-R (`xlm-roberta`).",
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
        "## Data",
        "",
        f"Languages are mixed by q ~ p^alpha with alpha = {alphas} and p of {balance['unit']}, "
        f"each text at most {balance['max_repeats']:g} times in one pass. Losses are nats per "
        "masked token on documents that were not trained on; the unigram column is what "
        "frequencies alone reach.",
        "",
        *table(titles, rows),
    ]
    return "\n".join(lines) + "\n"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [titles, ["---"] * len(titles), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def _loss(sums: LossSums, language: str) -> str:
    row = sums.get(language)
    return f"{row['loss_sum'] / row['tokens']:.3f}" if row and row["tokens"] else "none held out"
