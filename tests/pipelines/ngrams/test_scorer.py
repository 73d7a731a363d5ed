from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.core.config import ConfigError
from pipelines.ngrams.arpa import LogModel, in_log10, write_arpa
from pipelines.ngrams.count import count_ngrams
from pipelines.ngrams.scorer import (
    BuiltInScorer,
    KenlmScorer,
    model_from,
    perplexities,
    write_model,
)
from pipelines.ngrams.smoothing import smooth
from tests.pipelines.ngrams.reference import KneserNey, zipf_sentences

METHODS = ["add_k", "good_turing", "katz", "kneser_ney"]


def model_of(method: str, order: int, seed: int = 1) -> LogModel:
    return in_log10(smooth(count_ngrams(zipf_sentences(seed, 400, 40), order), method)[0])


def random_sentences(seed: int) -> list[list[str]]:
    """Sentences like those of the text, and ones of any words, known or not."""
    rng = random.Random(seed)
    words = [f"w{n:02d}" for n in range(40)] + ["rare03", "never", "<unk>", "天", "é"]
    wild = [[rng.choice(words) for _ in range(rng.randint(0, 30))] for _ in range(150)]
    return [*zipf_sentences(seed + 100, 150, 40), *wild]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_sentence_s_score_is_the_sum_over_its_words(order: int) -> None:
    sentences = zipf_sentences(1, 400, 40)
    book = KneserNey(sentences, order)
    tests = [*zipf_sentences(9, 20, 40), ["never", "w00", "never", "never"], []]

    found = BuiltInScorer(model_of("kneser_ney", order)).score(tests)

    for score, sentence in zip(found.tolist(), tests, strict=True):
        known = [word if word in book.vocabulary else "<unk>" for word in sentence]
        padded = ("<s>", *known, "</s>")
        product = [
            np.log10(book.p(padded[n], book.clip(padded[:n]))) for n in range(1, len(padded))
        ]
        assert score == pytest.approx(sum(product), abs=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize("ending", ["arpa", "arpa.gz"])
def test_kenlm_gives_the_same_scores(tmp_path: Path, method: str, order: int, ending: str) -> None:
    pytest.importorskip("kenlm", reason="kenlm is optional and not installed")
    model = model_of(method, order)
    path = tmp_path / f"model.{ending}"
    write_arpa(path, model)
    sentences = random_sentences(order)

    own, theirs = BuiltInScorer(model).score(sentences), KenlmScorer(path).score(sentences)

    assert np.abs(own - theirs).max() < 1e-4
    assert np.unique(own.round(3)).size > 100


def test_without_kenlm_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "kenlm", None)

    with pytest.raises(ConfigError, match=r"pip install 'babelmill\[kenlm\]'"):
        KenlmScorer(tmp_path / "model.arpa")


def test_perplexity_is_over_tokens_and_sentence_ends() -> None:
    class Fixed:
        def score(self, sentences: object) -> np.ndarray:
            return np.array([-3.0, -1.0, -4.0])

    texts = [[["a", "b"], ["c"]], [], [["d"]]]

    found = perplexities(Fixed(), texts)

    assert found[0] == pytest.approx(10 ** (4 / (3 + 2)))
    assert np.isnan(found[1])
    assert found[2] == pytest.approx(10 ** (4 / (1 + 1)))


def test_a_uniform_model_is_as_perplexed_as_it_has_words() -> None:
    model = in_log10(smooth(count_ngrams([["a", "b", "c"]], 1), "add_k", 1e9)[0])

    found = perplexities(BuiltInScorer(model), [[["a", "zzz"], ["b"]]])

    assert found[0] == pytest.approx(5)  # a, b, c, </s>, <unk>


def test_tables_in_parquet_give_the_scores_of_the_model(tmp_path: Path) -> None:
    model = model_of("katz", 4)
    write_model(tmp_path / "model.parquet", model)

    back = model_from(pq.read_table(tmp_path / "model.parquet"))

    sentences = random_sentences(3)
    own, again = BuiltInScorer(model).score(sentences), BuiltInScorer(back).score(sentences)
    assert back.tables.vocabulary == model.tables.vocabulary
    assert np.abs(own - again).max() < 1e-5


def test_no_sentences_have_no_scores() -> None:
    scorer = BuiltInScorer(model_of("add_k", 2))

    assert scorer.score([]).tolist() == []
    assert perplexities(scorer, []).tolist() == []
