from __future__ import annotations

import pytest

from pipelines.config import LengthFilter, LettersFilter, RepetitionFilter, ScriptFilter
from pipelines.core.manifest import FileRef
from pipelines.core.records import Document, documents_to_table, table_to_documents
from pipelines.core.shards import Step, Unit, run_step
from pipelines.core.store import Store
from pipelines.filters import FILTERS, filter_shard, reason_to_drop

THAI = "ที่ นี่ น้ำ เป็น ของ ดี มาก จริง ๆ ครับ"
HINDI = "यह एक साधारण वाक्य है जिसमें कई शब्द हैं"


def document(text: str, language: str = "en", number: int = 0) -> Document:
    return Document(
        id=str(number), text=text, source="s", url="u", shard="x", offset=number, language=language
    )


@pytest.mark.parametrize(("words_with_letter", "kept"), [(8, True), (7, False)])
def test_a_share_exactly_at_the_threshold_passes(words_with_letter: int, kept: bool) -> None:
    text = " ".join(["word"] * words_with_letter + ["--", "42", "..."][: 10 - words_with_letter])
    section = LettersFilter(kind="letters", min_share_of_words=0.8)

    assert len(text.split()) == 10
    assert (reason_to_drop(document(text), [section]) is None) is kept


@pytest.mark.parametrize(("text", "language"), [(THAI, "th"), (HINDI, "hi")])
def test_words_with_marks_between_letters_count_as_words(text: str, language: str) -> None:
    assert reason_to_drop(document(text, language), [LettersFilter(kind="letters")]) is None


def test_length_counts_characters() -> None:
    section = LengthFilter(kind="length", min_characters=5)

    assert reason_to_drop(document("东京东京东", "zh-Hans"), [section]) is None
    assert reason_to_drop(document("東京東京", "ja"), [section]) == "too_short"


def test_repeated_paragraphs_are_counted_by_characters() -> None:
    section = RepetitionFilter(kind="repetition", max_share_of_characters=0.5)

    assert reason_to_drop(document("aaaa\n\naaaa"), [section]) is None  # 4 of 8 repeat
    assert reason_to_drop(document("aaaa\n\naaaa\n\naaaa"), [section]) == "repetitive"  # 8 of 12


@pytest.mark.parametrize(
    ("text", "language", "reason"),
    [
        ("Добро утро", "sr-Cyrl", None),
        ("Dobro jutro", "sr-Cyrl", "wrong_script"),
        ("Dobro jutro", "sr-Latn", None),
        ("これは日本語の文です", "ja", None),
        ("한국어 문장입니다", "ko", None),
        ("这是中文", "zh-Hans", None),
        ("This is English", "zh-Hans", "wrong_script"),
        ("12345 --", "en", "no_letters"),
        (THAI, "th", None),
        (HINDI, "hi", None),
    ],
)
def test_letters_belong_to_the_script_of_the_language(
    text: str, language: str, reason: str | None
) -> None:
    assert reason_to_drop(document(text, language), [ScriptFilter(kind="script")]) == reason


def test_an_unknown_language_never_passes() -> None:
    assert reason_to_drop(document("some text", "und"), []) == "unknown_language"


@pytest.mark.parametrize(
    "section",
    [
        LengthFilter(kind="length"),
        LettersFilter(kind="letters"),
        RepetitionFilter(kind="repetition"),
        ScriptFilter(kind="script"),
    ],
)
@pytest.mark.parametrize("text", ["", " \n\n ", "🎉🎉", THAI, "a" * 10_000, "\u200d\u200c"])
def test_every_filter_is_pure_and_survives_odd_text(section, text: str) -> None:
    first = FILTERS[section.kind](document(text), section)

    assert first == FILTERS[section.kind](document(text), section)
    assert first is None or first.isidentifier()


def test_every_document_is_kept_or_kept_with_a_reason(store: Store) -> None:
    documents = [
        document("A good long sentence stands here.", number=1),
        document("short", number=2),
        document("-- 42 .. 17 -- 99 ..... ---", number=3),
    ]
    sections = [{"kind": "length", "min_characters": 10}, {"kind": "letters"}]

    def lay_out(unit, config, attempt) -> None:
        attempt.write_table("en/part", documents_to_table(documents), language="en")

    first = run_step(
        Step("extract", 1, "in", {}, lay_out), [Unit("a", ())], store, "r", inline=True
    )
    refs = tuple(output.ref for output in first.outputs)
    record = run_step(
        Step("filter", 1, "out", {"filters": sections}, filter_shard),
        [Unit("a", refs)],
        store,
        "r",
        inline=True,
    )

    [kept], [rejects] = record.outputs_of(part="kept"), record.outputs_of(part="rejects")
    assert table_to_documents(store.read_table(kept.path)) == documents[:1]
    table = store.read_table(rejects.path)
    assert table["reason"].to_pylist() == ["too_short", "few_letters"]
    assert table_to_documents(table) == documents[1:]
    assert (
        record.counters["documents"]
        == 3
        == record.counters["kept"]
        + sum(record.counters[f"rejected.{reason}"] for reason in ("too_short", "few_letters"))
    )
    assert refs and isinstance(refs[0], FileRef)
