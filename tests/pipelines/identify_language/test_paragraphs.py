"""Documents in several languages, through the real model."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.config import LanguageIdentificationSection
from pipelines.core.records import PARAGRAPH_BREAK
from pipelines.identify_language import UNIDENTIFIED, identify, identify_document
from pipelines.identify_language.paragraphs import identify_paragraphs

GERMAN = "Die Universität liegt mitten in der Stadt, und viele Studenten wohnen in ihrer Nähe."
GERMAN_2 = "Im Winter fällt hier oft Schnee; dann fahren die Kinder mit Schlitten den Hügel hinab."
FRENCH = (
    "La bibliothèque est ouverte tous les jours, sauf le dimanche et pendant les fêtes de Noël."
)
GREEK = "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα."
BY_PARAGRAPH = LanguageIdentificationSection(unit="paragraph")


def joined(*paragraphs: str) -> str:
    return PARAGRAPH_BREAK.join(paragraphs)


def test_foreign_paragraphs_go_and_are_counted() -> None:
    text = joined(GERMAN, FRENCH, GERMAN_2, GREEK)
    found, kept, dropped = identify_paragraphs(text, BY_PARAGRAPH)
    assert found.language == "de" and kept == joined(GERMAN, GERMAN_2)
    assert dropped == {"fr": 1, "el": 1}


def test_the_document_counts_paragraphs_and_characters() -> None:
    counters: Counter[str] = Counter()
    text = joined(GERMAN, FRENCH, GERMAN_2, GREEK)
    found, kept = identify_document(text, BY_PARAGRAPH, counters)
    assert found.language == "de" and kept == joined(GERMAN, GERMAN_2)
    assert counters == {
        "dropped_paragraphs.language": 2,
        "dropped_paragraphs.language/fr": 1,
        "dropped_paragraphs.language/el": 1,
        "dropped_characters.language": len(FRENCH) + len(GREEK),
    }


def test_by_document_nothing_is_dropped() -> None:
    counters: Counter[str] = Counter()
    config = LanguageIdentificationSection()
    text = joined(GERMAN, FRENCH, GERMAN_2)
    assert identify_document(text, config, counters) == (identify(text, config), text)
    assert not counters


def test_the_language_has_most_characters_not_most_paragraphs() -> None:
    long = " ".join([GERMAN, GERMAN_2] * 3)
    found, kept, _ = identify_paragraphs(joined(FRENCH, long, FRENCH, FRENCH), BY_PARAGRAPH)
    assert found.language == "de" and kept == long


def test_the_score_is_the_mean_over_the_kept_characters() -> None:
    document = LanguageIdentificationSection()
    short = GERMAN[: GERMAN.index(",")] + " gleich am Ufer des großen Flusses."
    one, two = identify(short, document), identify(GERMAN_2, document)
    found, _, _ = identify_paragraphs(joined(short, FRENCH, GERMAN_2), BY_PARAGRAPH)
    mean = (len(short) * one.score + len(GERMAN_2) * two.score) / (len(short) + len(GERMAN_2))
    assert found.score == pytest.approx(mean, abs=1e-9) and one.score != two.score
    assert found.second in (one.second, two.second) and found.second_score < 0.5


def test_short_paragraphs_share_the_fate_of_those_around_them() -> None:
    text = joined("Titel", GERMAN, "Où ?", FRENCH, "Ici.", FRENCH, "Fin.")
    config = BY_PARAGRAPH.model_copy(update={"min_score": 0.0})
    longer = joined(text, *[GERMAN_2] * 3)
    found, kept, dropped = identify_paragraphs(longer, config)
    # "Où ?" and "Fin." stand between German and French: they stay. "Ici." goes with the French.
    assert found.language == "de" and dropped == {"fr": 3}
    assert kept == joined("Titel", GERMAN, "Où ?", "Fin.", *[GERMAN_2] * 3)


def test_short_paragraphs_at_the_end_go_with_the_last_that_is_judged() -> None:
    _, kept, dropped = identify_paragraphs(joined(GERMAN, GERMAN_2, FRENCH, "Fin."), BY_PARAGRAPH)
    assert kept == joined(GERMAN, GERMAN_2) and dropped == {"fr": 2}


def test_what_is_not_sure_stays() -> None:
    strict = BY_PARAGRAPH.model_copy(update={"min_paragraph_score": 1.0})
    mixed = (
        "Le Restaurant est the best place in town, wirklich gut, muy bueno e molto bello davvero."
    )
    _, kept, dropped = identify_paragraphs(joined(GERMAN, GERMAN_2, mixed), strict)
    assert kept == joined(GERMAN, GERMAN_2, mixed) and not dropped


def test_another_script_alone_makes_no_paragraph_foreign() -> None:
    simplified = "这是一个用简体字写的句子，我们来看看它说什么。" * 4
    traditional = "這是一個用繁體字寫的句子，我們來看看它說什麼。" * 3
    found, kept, dropped = identify_paragraphs(joined(simplified, traditional), BY_PARAGRAPH)
    assert found.language == "zh-Hans" and kept == joined(simplified, traditional) and not dropped


def test_lists_of_short_lines_are_judged_as_one() -> None:
    lines = ["Startseite", "Über uns", "Öffnungszeiten", "Datenschutz", "Wegbeschreibung"] * 3
    text = joined(*lines)
    found, kept, dropped = identify_paragraphs(text, BY_PARAGRAPH)
    assert found == identify(text, BY_PARAGRAPH) and kept == text and not dropped


def test_below_the_threshold_it_is_unknown_and_the_guess_is_kept() -> None:
    text = joined(GERMAN, GERMAN_2)
    scores = [identify(paragraph, BY_PARAGRAPH).score for paragraph in (GERMAN, GERMAN_2)]
    mean = identify_paragraphs(text, BY_PARAGRAPH)[0].score
    assert min(scores) < mean < max(scores)
    between = (mean + max(scores)) / 2  # one paragraph passes it, the document does not
    strict = BY_PARAGRAPH.model_copy(update={"min_score_by_language": {"de": between}})
    found, kept, _ = identify_paragraphs(text, strict)
    assert (found.language, found.second, found.score) == ("und", "de", mean) and kept == text


@pytest.mark.parametrize(
    "text", ["", "\n\n", "\n\n\n\n", "12 345\n\n😀", "1" * 80 + "\n\n" + "2" * 80]
)
def test_texts_without_words(text: str) -> None:
    assert identify_paragraphs(text, BY_PARAGRAPH) == (UNIDENTIFIED, text, Counter())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([GERMAN, GERMAN_2, FRENCH, GREEK, "Ja!", "", "  ", " x\n y"])))
def test_kept_paragraphs_are_the_originals_in_order(paragraphs: list[str]) -> None:
    text = joined(*paragraphs)
    _, kept, dropped = identify_paragraphs(text, BY_PARAGRAPH)
    if not dropped:
        assert kept == text
    remaining = iter(text.split(PARAGRAPH_BREAK))
    parts = kept.split(PARAGRAPH_BREAK)
    assert all(part in remaining for part in parts)  # a subsequence, each byte for byte
    assert len(parts) + sum(dropped.values()) == len(text.split(PARAGRAPH_BREAK))
