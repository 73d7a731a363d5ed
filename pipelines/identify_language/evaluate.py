"""How well an identifier does on labelled texts:  python -m pipelines.identify_language.evaluate.

Reads tab-separated lines, label and text, and prints the figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.config import LanguageIdentificationSection
from pipelines.core.config import ConfigError
from pipelines.identify_language.identify import best_guesses, known_languages
from pipelines.identify_language.labels import parse_label, tag_of
from pipelines.identify_language.models import MODELS

CONFUSIONS = 20
"""Pairs of languages in the list."""
BATCH = 1000


def evaluate(
    rows: Iterable[tuple[str, str]], config: LanguageIdentificationSection
) -> dict[str, Any]:
    """Identify labelled texts, without a threshold, and score the tags.

    Args:
        rows: label (in any form that `parse_label` reads) and text. The script of the right tag is
            the text's own too, where the label does not say it.
        config: which model.

    Returns:
        `all` and `known` (only texts in languages that the model can name), each with `languages`,
        `texts`, `accuracy`, `macro_f1` (mean over the languages of the data of 2PR / (P + R)) and
        `confusions`, the most frequent [right, given, texts]; and `by_language`: `texts`,
        `accuracy`, `f1`, `known`.
    """
    right: list[str] = []
    given: list[str] = []
    batch: list[tuple[str, str]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            _identify(batch, config, right, given)
            batch = []
    _identify(batch, config, right, given)
    known = known_languages(config)
    by_language = language_scores(right, given)
    for tag, scores in by_language.items():
        scores["known"] = tag in known
    return {
        "all": summary(right, given),
        "known": summary(right, given, known),
        "by_language": by_language,
    }


def summary(
    right: Sequence[str], given: Sequence[str], only: Collection[str] | None = None
) -> dict[str, Any]:
    """Accuracy, macro-F1 and confusions of tags, of texts whose right tag is in `only`."""
    from sklearn.metrics import accuracy_score, f1_score

    pairs = [(r, g) for r, g in zip(right, given, strict=True) if only is None or r in only]
    if not pairs:
        return {"languages": 0, "texts": 0, "accuracy": None, "macro_f1": None, "confusions": []}
    true, found = zip(*pairs, strict=True)
    tags = sorted(set(true))
    wrong = Counter((r, g) for r, g in pairs if r != g)
    confusions = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))[:CONFUSIONS]
    return {
        "languages": len(tags),
        "texts": len(pairs),
        "accuracy": float(accuracy_score(true, found)),
        "macro_f1": float(f1_score(true, found, labels=tags, average="macro", zero_division=0)),
        "confusions": [[r, g, count] for (r, g), count in confusions],
    }


def language_scores(right: Sequence[str], given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each right tag: `texts`, `accuracy` (the share that got it), `f1`."""
    from sklearn.metrics import precision_recall_fscore_support

    tags = sorted(set(right))
    if not tags:
        return {}
    _, recall, f1, texts = precision_recall_fscore_support(
        right, given, labels=tags, average=None, zero_division=0
    )
    return {
        tag: {"texts": int(texts[i]), "accuracy": float(recall[i]), "f1": float(f1[i])}
        for i, tag in enumerate(tags)
    }


def read_rows(path: Path) -> Iterator[tuple[str, str]]:
    """Read label and text from tab-separated lines.

    Raises:
        ValueError: a line has no tab; the file and the line are named.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            label, tab, text = line.rstrip("\n").partition("\t")
            if not tab:
                raise ValueError(f"{path}, line {number}: want a label, a tab, a text")
            yield label, text


def _identify(
    batch: Sequence[tuple[str, str]],
    config: LanguageIdentificationSection,
    right: list[str],
    given: list[str],
) -> None:
    right.extend(tag_of(parse_label(label), text) for label, text in batch)
    guesses = best_guesses([text for _, text in batch], config)
    given.extend(guess.language for guess in guesses)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; 0, or 2 with one message when a setting or a file is wrong."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.identify_language.evaluate")
    parser.add_argument("data", nargs="+", type=Path, help="files of lines: label, tab, text")
    parser.add_argument("--model", choices=MODELS, default="lid.176")
    parser.add_argument("--model-file", help="a fastText model: path or URL")
    parser.add_argument("--sha256", help="its SHA-256")
    given = parser.parse_args(arguments)
    try:
        config = LanguageIdentificationSection.model_validate(
            {
                "model": "fasttext_file" if given.model_file else given.model,
                "path": given.model_file,
                "sha256": given.sha256,
            }
        )
        result = evaluate((row for path in given.data for row in read_rows(path)), config)
    except ValidationError as error:
        wrong = error.errors()[0]
        return _refuse(str(wrong["msg"]).removeprefix("Value error, "))
    except (ConfigError, OSError, ValueError) as error:
        return _refuse(str(error))
    json.dump(result, sys.stdout, ensure_ascii=False, indent=1)
    return 0


def _refuse(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)  # noqa: T201 - this is the terminal
    return 2


if __name__ == "__main__":
    sys.exit(main())
