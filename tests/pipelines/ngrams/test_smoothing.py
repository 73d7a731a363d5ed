from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.ngrams.arpa import in_log10
from pipelines.ngrams.count import count_ngrams
from pipelines.ngrams.discounts import counts_of_counts, good_turing_ratios, katz_ratios
from pipelines.ngrams.scorer import BuiltInScorer
from pipelines.ngrams.smoothing import smooth
from tests.pipelines.ngrams.reference import (
    AddK,
    BackOff,
    Gram,
    KneserNey,
    Reference,
    zipf_sentences,
)

METHODS = ["add_k", "good_turing", "katz", "kneser_ney"]
SAM = [
    ["I", "am", "Sam"],
    ["Sam", "I", "am"],
    ["I", "do", "not", "like", "green", "eggs", "and", "ham"],
]
"""The three sentences of Jurafsky and Martin, chapter 3."""


def probabilities(
    sentences: list[list[str]], order: int, method: str, k: float = 1.0
) -> BuiltInScorer:
    model, _ = smooth(count_ngrams(sentences, order), method, k)
    return BuiltInScorer(in_log10(model))


def probability(scorer: BuiltInScorer, word: str, *history: str) -> float:
    return float(10 ** scorer.distribution(history)[scorer.ids[word]])


@pytest.mark.parametrize(
    ("word", "before", "value"),
    [
        ("I", "<s>", 2 / 3),
        ("Sam", "<s>", 1 / 3),
        ("am", "I", 2 / 3),
        ("</s>", "Sam", 1 / 2),
        ("Sam", "am", 1 / 2),
        ("do", "I", 1 / 3),
    ],
)
def test_i_am_sam_without_smoothing(word: str, before: str, value: float) -> None:
    scorer = probabilities(SAM, 2, "add_k", k=1e-9)

    assert probability(scorer, word, before) == pytest.approx(value, abs=1e-7)


def test_i_am_sam_with_add_one() -> None:
    scorer = probabilities(SAM, 2, "add_k")

    # 10 words, </s> and <unk> can follow: V = 12.
    assert probability(scorer, "I", "<s>") == pytest.approx((2 + 1) / (3 + 12))
    assert probability(scorer, "ham", "<s>") == pytest.approx((0 + 1) / (3 + 12))
    assert probability(scorer, "</s>", "Sam") == pytest.approx((1 + 1) / (2 + 12))
    assert probability(scorer, "Sam", "never seen") == pytest.approx(1 / 12)


def test_the_published_add_one_bigrams_of_the_restaurant_project() -> None:
    """C(want) = 927, C(want to) = 608, V = 1446: 0.26; C(i) = 2533, C(i want) = 827: 0.21."""
    text = [["i", "want"]] * 827 + [["i", "other"]] * 1706
    text += [["want", "to"]] * 608 + [["want", "other"]] * 319
    # `want` also ends the 827 sentences above; as histories those count </s> after it.
    fill = 1446 - len({word for sentence in text for word in sentence}) - 2
    text += [[f"filler{number}"] for number in range(fill)]

    scorer = probabilities(text, 2, "add_k")

    assert scorer.tables.predicted == 1446
    assert probability(scorer, "want", "i") == pytest.approx(828 / 3979)
    assert round(probability(scorer, "want", "i"), 2) == 0.21
    assert probability(scorer, "to", "i") == pytest.approx(1 / 3979)
    assert probability(scorer, "to", "want") == pytest.approx(609 / (927 + 827 + 1446))


def reference(method: str, sentences: list[list[str]], order: int) -> Reference:
    if method == "add_k":
        return AddK(sentences, order, 0.3)
    if method == "kneser_ney":
        return KneserNey(sentences, order)
    found = BackOff(sentences, order)
    found.discounts = {}
    rule = katz_ratios if method == "katz" else good_turing_ratios
    for size, table in found.counts.items():
        counts = np.array([n for gram, n in table.items() if gram != ("<s>",)])
        ratios = rule(counts, size, [])
        found.discounts[size] = dict(zip(counts.tolist(), (counts * ratios).tolist(), strict=True))
    return found


def histories(book: Reference, order: int, seed: int) -> list[Gram]:
    """Histories as a sentence can have them: seen ones, their beginnings, and made-up ones."""
    rng = random.Random(seed)
    words = [word for word in book.vocabulary if word != "</s>"]
    full = order - 1
    found: list[Gram] = [("<s>",)[:full]]
    if full:
        seen = sorted(gram for gram in book.counts[full] if gram[-1] != "</s>")
        found += rng.sample(seen, min(40, len(seen)))
        found += [tuple(rng.choice(words) for _ in range(full)) for _ in range(15)]
    for length in range(1, full):
        seen = sorted(g for g in book.counts[length + 1] if g[0] == "<s>" and g[-1] != "</s>")
        found += [gram for gram in rng.sample(seen, min(10, len(seen))) if len(gram) <= full]
    return found


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_its_textbook_formula(method: str, order: int) -> None:
    sentences = zipf_sentences(order, 400, 40)
    book = reference(method, sentences, order)
    scorer = probabilities(sentences, order, method, k=0.3)

    for history in histories(book, order, seed=order):
        found = scorer.distribution(history)
        for word in book.vocabulary:
            expected = book.p(word, history)
            assert 10 ** found[scorer.ids[word]] == pytest.approx(expected, rel=1e-7), (
                f"p({word} | {' '.join(history)})"
            )


def test_the_texts_above_need_no_fallback() -> None:
    """Else the comparison would never reach the equations; katz reaches his at some orders."""
    for method in ("kneser_ney", "good_turing"):
        _, notes = smooth(count_ngrams(zipf_sentences(3, 400, 40), 3), method)
        assert notes == []
    _, notes = smooth(count_ngrams(zipf_sentences(4, 400, 40), 4), "katz")
    assert len(notes) < 4


LMPLZ_TINY = """\\1-grams:
-0.90309\t<unk>\t0
-0.42596874\t</s>\t0
-0.60206\ta\t-0.30103
-0.60206\tb\t-0.30103
\\2-grams:
-0.35902193\ta </s>\t0
-0.1627273\tb </s>\t0
-0.20412\t<s> a\t-0.30103
-0.42596874\ta b\t-0.30103
\\3-grams:
-0.3290587\t<s> a </s>
-0.073786214\ta b </s>
-0.35902193\t<s> a b"""
"""What kenlm's lmplz (0.3.0, -o 3 --discount_fallback) writes for the lines `a b` and `a`."""

LMPLZ_LARGER = """-1.802784\tw03 w10 w01
-1.7786145\tw00 w05\t-0.0916414
-0.5590577\t<s> w37 w32
-2.3752186\trare00\t-0.19214183
-1.3447647\tw10 w31 w02
-0.3930835\trare16 w00\t-0.0916414
-2.3914967\trare36\t-0.19214183
-0.9024863\tw00 w38 w13
-1.1725249\tw00 w00 w03
-0.39629748\tw06 w19 </s>
-1.1075928\tw13 w02\t-0.31318927
-0.49247447\tw03 w22 w27
-1.0427397\t<s> w16 w01
-2.2964156\tw01 rare37\t-0.0916414"""
"""Lines that it writes (-o 3) for zipf_sentences(1, 400, 40), whose counts need no fallback."""


@pytest.mark.parametrize(
    ("sentences", "lines"),
    [([["a", "b"], ["a"]], LMPLZ_TINY), (zipf_sentences(1, 400, 40), LMPLZ_LARGER)],
)
def test_kneser_ney_is_lmplz_s(sentences: list[list[str]], lines: str) -> None:
    model = in_log10(smooth(count_ngrams(sentences, 3), "kneser_ney")[0])
    tables = model.tables
    own = {}
    for order in (1, 2, 3):
        for number, row in enumerate(tables.words(order).tolist()):
            gram = " ".join(tables.vocabulary[word] for word in row)
            own[gram] = (
                model.probabilities[order - 1][number],
                model.backoffs[order - 1][number],
            )

    for line in lines.splitlines():
        if not line.startswith("\\"):
            probability, gram, *backoff = line.split("\t")
            assert own[gram][0] == pytest.approx(float(probability), abs=1e-6), gram
            assert own[gram][1] == pytest.approx(float(*backoff), abs=1e-6), gram


def sums_to_one(scorer: BuiltInScorer, history: tuple[str, ...]) -> float:
    found = 10 ** scorer.distribution(history)
    return float(found.sum() - found[scorer.ids["<s>"]])


@settings(max_examples=60, deadline=None)
@given(
    sentences=st.lists(st.lists(st.sampled_from("abcde"), max_size=7), min_size=1, max_size=30),
    order=st.integers(1, 5),
    method=st.sampled_from(METHODS),
    history=st.lists(st.sampled_from(["a", "b", "c", "d", "e", "z", "<unk>"]), max_size=5),
    first=st.booleans(),
)
def test_every_distribution_sums_to_one(
    sentences: list[list[str]], order: int, method: str, history: list[str], first: bool
) -> None:
    scorer = probabilities(sentences, order, method, k=0.1)

    words = ("<s>", *history) if first else tuple(history)

    assert sums_to_one(scorer, words) == pytest.approx(1, abs=1e-9)
    assert np.isfinite(scorer.distribution(words)).all()


@pytest.mark.parametrize("method", METHODS)
def test_every_distribution_of_a_larger_text_sums_to_one(method: str) -> None:
    sentences = zipf_sentences(11, 3000, 200)
    scorer = probabilities(sentences, 4, method, k=0.01)
    book = Reference(sentences, 4)

    for history in histories(book, 4, seed=1):
        assert sums_to_one(scorer, history) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_unknown_words_that_were_counted_keep_the_sums(method: str) -> None:
    sentences = [["a", "<unk>", "b"], ["<unk>", "<unk>"], ["b", "a"], ["a"]]
    scorer = probabilities(sentences, 3, method)

    for history in [("<s>",), ("<unk>",), ("<unk>", "<unk>"), ("a", "<unk>"), ("b", "b")]:
        assert sums_to_one(scorer, history) == pytest.approx(1, abs=1e-9)


def test_katz_leaves_something_after_a_history_with_frequent_words_only() -> None:
    """Counts above 5 are not discounted: c(h) + 1 leaves 1 / 11 to the other words."""
    scorer = probabilities([["a", "b"]] * 10, 2, "katz")

    assert probability(scorer, "b", "a") == pytest.approx(10 / 11)
    assert probability(scorer, "a", "a") > 0
    assert sums_to_one(scorer, ("a",)) == pytest.approx(1, abs=1e-9)


def test_fallbacks_are_noted_by_order() -> None:
    _, notes = smooth(count_ngrams([["a", "b"]], 3), "kneser_ney")

    assert [f"order {order}" in note for order, note in enumerate(notes, start=1)] == [True] * 3


def test_nothing_to_learn_from_and_unknown_methods_are_refused() -> None:
    with pytest.raises(ValueError, match="no sentence was counted"):
        smooth(count_ngrams([], 3), "katz")
    with pytest.raises(ValueError, match="'kn': known are add_k, good_turing, katz, kneser_ney"):
        smooth(count_ngrams(SAM, 3), "kn")


def test_counts_of_counts_leave_zeros_out() -> None:
    assert counts_of_counts(np.array([0, 1, 1, 4, 0])) == {1: 2, 4: 1}
