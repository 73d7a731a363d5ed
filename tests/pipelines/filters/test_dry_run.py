from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipelines.filters import Chain
from pipelines.filters.dry_run import names_of, what_filters_drop
from tests.pipelines.filters.pages import document, section

GOOD = "A sentence with some words in it, and the end of it."
SECTIONS = [
    section("lines"),
    section("length", min_characters=20),
    section("stop_words"),
    section("length", min_characters=40),
]


def test_each_filter_is_reported_alone_and_in_its_place() -> None:
    documents = [
        document(GOOD, number=0),
        document("tiny", number=1),
        document(f"{GOOD}\n12345 67890", number=2),
        document("and the 12 34 56 78 90 12 34 56 78", number=3),
        document("Use javascript!\nand the x", number=4),
        document("Haus Baum Garten Wiese Himmel", "de", number=5),
        document(GOOD, "und", number=6),
    ]
    before = [page.text for page in documents]
    report = what_filters_drop(documents, SECTIONS)

    assert [page.text for page in documents] == before
    assert (report.documents, report.unknown_language, report.kept) == (7, 1, 2)
    assert report.characters == sum(map(len, before))
    assert report.kept_characters == 2 * len(GOOD)
    lines, short, stop, long = report.filters
    assert [entry.name for entry in report.filters] == [
        "lines",
        "length",
        "stop_words",
        "length #2",
    ]
    # 3 has 6 letters of 24 characters that are no blanks, on its only line
    assert {key: d.documents for key, d in lines.alone.items()} == {("no_lines_left", "en"): 1}
    assert lines.changed_documents == 2
    assert lines.characters_removed == len("\n12345 67890") + len("Use javascript!\n")
    assert lines.counters["dropped_lines.boilerplate"] == 1
    assert lines.counters["dropped_lines.few_letters"] == 1
    # alone, 4 is long enough; after `lines` it is not
    assert short.total(alone=True).documents == 1
    assert short.total(alone=False).documents == 2
    assert short.total(alone=False).characters == len(before[1]) + len(before[4])
    assert {key: d.documents for key, d in stop.alone.items()} == {
        ("few_stop_words", "en"): 1,
        ("few_stop_words", "de"): 1,
    }
    assert {key: d.documents for key, d in stop.in_sequence.items()} == {
        ("few_stop_words", "de"): 1
    }
    assert {key: d.documents for key, d in long.alone.items()} == {
        ("too_short", "en"): 3,
        ("too_short", "de"): 1,
    }
    assert long.in_sequence == {}
    [example] = stop.alone["few_stop_words", "de"].examples
    assert (example.id, example.because) == ("5", "different stop words 0 < 2")
    assert example.excerpt == "Haus Baum Garten Wiese Himmel"


def test_examples_are_the_first_three() -> None:
    documents = [document("x\n y" * 200, number=number) for number in range(9)]
    report = what_filters_drop(documents, [section("length", min_characters=10_000)])
    drops = report.filters[0].alone["too_short", "en"]
    assert drops.documents == 9 and drops.characters == 9 * 800
    assert [example.id for example in drops.examples] == ["0", "1", "2"]
    assert drops.examples[0].excerpt.startswith("x yx yx y")
    assert len(drops.examples[0].excerpt) == 120


@given(st.lists(st.text(alphabet="ab the\n.1@", max_size=80), max_size=8))
def test_the_sequence_is_what_the_stage_does(texts: list[str]) -> None:
    documents = [document(text, number=i) for i, text in enumerate(texts)]
    report = what_filters_drop(documents, SECTIONS)
    chain = Chain(SECTIONS)
    reasons = Counter(str(chain.reason_to_drop(page, Counter())) for page in documents)
    kept = reasons.pop("None", 0)
    found: Counter[str] = Counter()
    for entry in report.filters:
        for (reason, _), drops in entry.in_sequence.items():
            found[reason] += drops.documents
    assert (found, report.kept) == (reasons, kept)


def test_sections_of_one_kind_are_told_apart() -> None:
    assert names_of([SECTIONS[1], SECTIONS[2], SECTIONS[3], SECTIONS[1]]) == [
        *("length", "stop_words", "length #2", "length #3")
    ]
