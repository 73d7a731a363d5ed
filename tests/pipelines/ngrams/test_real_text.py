"""Models of real text prefer real text."""

from __future__ import annotations

import lzma
import random
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pipelines.ngrams.arpa import in_log10, write_arpa
from pipelines.ngrams.count import count_ngrams, with_rare_words_unknown
from pipelines.ngrams.pieces import train_pieces
from pipelines.ngrams.scorer import BuiltInScorer, KenlmScorer, perplexities
from pipelines.ngrams.smoothing import smooth
from pipelines.ngrams.tokens import Pieces, sentences_of, words

BIBLES = {"sw": "Swahili-NT", "hy": "Armenian-PART", "gu": "Gujarati-NT"}


@cache
def verses(folder: Path, language: str) -> list[str]:
    with lzma.open(folder / "text" / "bible" / f"{BIBLES[language]}.xml.xz", "rt") as file:
        found = re.findall(r"<seg[^>]*>([^<]+)</seg>", file.read())
    return [s for verse in found for s in sentences_of(verse, language)]


def split(folder: Path, language: str) -> tuple[list[str], list[str]]:
    """2,900 sentences to train on, and 100 spread among them."""
    found = verses(folder, language)[:3000]
    return [s for n, s in enumerate(found) if n % 30], found[::30]


@pytest.mark.parametrize("method", ["add_k", "good_turing", "katz", "kneser_ney"])
@pytest.mark.parametrize("language", ["sw", "hy", "gu"])
def test_held_out_text_is_less_perplexing_than_its_shuffled_words(
    shared_data: Path, language: str, method: str
) -> None:
    train, held_out = split(shared_data, language)
    model, _ = smooth(count_ngrams(words(train), 3), method, k=0.01)
    scorer = BuiltInScorer(in_log10(model))
    real = words(held_out)
    rng = random.Random(1)
    shuffled = [rng.sample(sentence, len(sentence)) for sentence in real]

    [own, other] = perplexities(scorer, [real, shuffled])

    assert own < other


def test_each_language_is_less_perplexing_under_its_own_pieces(shared_data: Path) -> None:
    scorers = {}
    for language in BIBLES:
        train, _ = split(shared_data, language)
        pieces = Pieces(train_pieces(train, 2000)[0])
        model, notes = smooth(count_ngrams(pieces(train), 4), "kneser_ney")
        assert notes == []
        scorers[language] = (pieces, BuiltInScorer(in_log10(model)))

    for language in BIBLES:
        _, held_out = split(shared_data, language)
        found = {
            name: float(perplexities(scorer, [pieces(held_out)])[0])
            for name, (pieces, scorer) in scorers.items()
        }
        assert min(found, key=found.__getitem__) == language


def test_better_smoothing_of_real_text(shared_data: Path) -> None:
    """Chen and Goodman 1998: modified Kneser-Ney before Katz, and add-one far behind.

    Words seen once are unknown ones, so that all methods have counts of <unk>.
    """
    train, held_out = split(shared_data, "sw")
    counts = with_rare_words_unknown(count_ngrams(words(train), 3), 2)
    found = {}
    for method in ("add_k", "good_turing", "katz", "kneser_ney"):
        scorer = BuiltInScorer(in_log10(smooth(counts, method)[0]))
        found[method] = float(perplexities(scorer, [words(held_out)])[0])

    assert found["kneser_ney"] < found["katz"] < found["add_k"]
    assert found["kneser_ney"] < found["good_turing"] < found["add_k"]


def test_kenlm_agrees_on_real_text_and_unknown_words(shared_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="kenlm is optional and not installed")
    train, held_out = split(shared_data, "gu")
    model = in_log10(smooth(count_ngrams(words(train), 5), "kneser_ney")[0])
    write_arpa(tmp_path / "model.arpa", model)
    sentences = words(held_out)
    assert sum(t not in model.tables.ids for s in sentences for t in s) > 50

    own = BuiltInScorer(model).score(sentences)
    theirs = KenlmScorer(tmp_path / "model.arpa").score(sentences)

    assert np.abs(own - theirs).max() < 1e-4
