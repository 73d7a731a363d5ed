from __future__ import annotations

from collections import Counter

from pipelines.config import DeduplicationSection
from pipelines.core.records import Document
from pipelines.deduplicate.exact import count_sentences, paragraph_key, remove_duplicates


def documents(*texts: str) -> list[Document]:
    return [
        Document(id=str(n), text=text, source="s", url="u", shard="x", offset=n, language="en")
        for n, text in enumerate(texts)
    ]


def survivors(*texts: str, **settings: object) -> tuple[list[str], Counter[str]]:
    count: Counter[str] = Counter()
    section = DeduplicationSection.model_validate({"min_characters": 1, **settings})
    return [d.text for d in remove_duplicates(documents(*texts), section, count)], count


def test_short_texts_are_only_duplicates_of_themselves() -> None:
    texts = ["cat", "dog", "cat", "a sentence like this", "un deux trois", "天地人", "春夏秋"]

    kept, count = survivors(*texts)

    assert kept == ["cat", "dog", "a sentence like this", "un deux trois", "天地人", "春夏秋"]
    assert count == {"dropped.duplicate_documents": 1}


def test_a_seen_paragraph_is_taken_out_and_the_rest_stays() -> None:
    kept, count = survivors("menu\n\nfirst text", "menu\n\nsecond text\n\nsecond text")

    assert kept == ["menu\n\nfirst text", "second text"]
    assert count == {"dropped.duplicate_paragraphs": 2}


def test_a_document_with_nothing_new_is_dropped_and_counted() -> None:
    kept, count = survivors("a b\n\nc d", "c d\n\na b\n\nx", min_characters=2)

    assert kept == ["a b\n\nc d"]
    assert count["dropped.nothing_new"] == 1
    assert count["dropped.nothing_new_characters"] == 1


def test_without_paragraphs_only_whole_documents_count() -> None:
    kept, _ = survivors("menu\n\nfirst", "menu\n\nsecond", "MENU\n\nfirst", paragraphs=False)

    assert kept == ["menu\n\nfirst", "menu\n\nsecond"]


def test_case_digits_and_blanks_do_not_make_a_difference_but_punctuation_does() -> None:
    assert paragraph_key("Page  12 of 30") == paragraph_key("page 99 OF 75")
    assert paragraph_key("ﬁn") == paragraph_key("fin")
    assert paragraph_key("Page 12") != paragraph_key("Page 123")
    assert paragraph_key("why?") != paragraph_key("why!")


def test_sentences_are_counted_by_the_language_s_own_rules() -> None:
    assert count_sentences("Dr. Smith came. He left!\n\nWhy?", "en") == 3
    assert count_sentences("你好。我很好！再见。", "zh-Hans") == 3
    assert count_sentences("\n\n", "en") == 0
