"""What every entry of FILTERS keeps to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.config import FilterBase, FilterConfig, UrlBlocklistFilter
from pipelines.core.manifest import Counters
from pipelines.core.records import Document
from pipelines.filters import FILTERS
from tests.pipelines.filters.pages import HINDI, THAI, document, section

MODELS: dict[str, type[FilterBase]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model
    for model in get_args(get_args(FilterConfig)[0])
}
NEEDED: dict[str, dict[str, Any]] = {
    "url_blocklist": {"domains": ["bad.example"], "words": ["casino"]},
}
"""Settings of the sections that have no default."""

TEXTS = {
    "empty": "",
    "blanks": " \n\n \t\r\n ",
    "one character": "a",
    "one mark": "\u0301",
    "joiners": "\u200d\u200c",
    "emoji": "🎉🎉",
    "no text": "\x00\ufffd\ufeff\U0010ffff",
    "lone surrogate": "a\ud800b",
    "thai": THAI,
    "hindi": HINDI,
    "capitals": "Die STRASSE İSTANBUL ǅ ΣΊΣΥΦΟΣ",
    "boilerplate": "Enable JavaScript. It uses cookies.\n\n1234\n\nText STAYS: a@test.org.",
}
LANGUAGES = ["en", "th", "zh-Hans", "ja", "km", "bo", "ar", "sr-Latn", "und", "qaa", "xx-Zyyy"]

MEGABYTE = 1_000_000
LARGE = {
    "one word": "a" * MEGABYTE,
    "blanks": " " * MEGABYTE,
    "line breaks": "\n" * MEGABYTE,
    "lines": "a\n" * (MEGABYTE // 2),
    "paragraphs": "ab.\n\n" * (MEGABYTE // 5),
    "one repeated word": "ha " * (MEGABYTE // 3),
    "different words": " ".join(f"w{number}" for number in range(MEGABYTE // 8)),
    "digits": "1" * MEGABYTE,
    "dotted numbers": "1.22.3." * (MEGABYTE // 7),
    "addresses": "93.184.216.34 " * (MEGABYTE // 14),
    "at signs": "@" * MEGABYTE,
    "almost addresses": "a.b@c." * (MEGABYTE // 6),
    "one long address": "a@" + "b." * (MEGABYTE // 2),
    "long local part": "a." * (MEGABYTE // 2) + "@",
    "colons": "a:" * (MEGABYTE // 2),
    "plus signs": "+1 " * (MEGABYTE // 3),
    "almost phones": "+49 30 1 2 3 " * (MEGABYTE // 13),
    "brackets": "(" * MEGABYTE,
    "apostrophes": "'" * MEGABYTE,
    "marks": "a" + "\u0301" * MEGABYTE,
    "chinese": "春眠不觉晓处处闻啼鸟" * (MEGABYTE // 30),
    "thai": "ที่นี่" * (MEGABYTE // 18),
    "phrases": "javascript cookies " * (MEGABYTE // 19),
}


def ask(
    page: Document, kind: str, settings: FilterBase | None = None
) -> tuple[str | None, Counters]:
    count: Counters = Counter()
    own = settings or section(kind, **NEEDED.get(kind, {}))
    return FILTERS[kind](page, own.for_language(page.language), count), count


def test_every_kind_of_the_configuration_has_a_filter() -> None:
    assert set(MODELS) == set(FILTERS)


@pytest.mark.parametrize("kind", FILTERS)
def test_reasons_are_names_of_counters(kind: str) -> None:
    reasons = MODELS[kind].reasons
    assert reasons or MODELS[kind].changes_text
    assert all(reason.isidentifier() and reason == reason.lower() for reason in reasons)


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_odd_texts_in_any_language_are_judged_alike_and_never_raise(
    kind: str, language: str
) -> None:
    for name, text in TEXTS.items():
        check(kind, document(text, language), name)


@given(text=st.text(), language=st.sampled_from(LANGUAGES))
def test_any_text_is_judged_alike_and_never_raises(text: str, language: str) -> None:
    for kind in FILTERS:
        check(kind, document(text, language), repr(text))


def check(kind: str, page: Document, what: str) -> None:
    model = MODELS[kind]
    first, second = replace(page), replace(page)
    reason, count = ask(first, kind)
    again, count_again = ask(second, kind)
    assert (reason, count, first) == (again, count_again, second), what
    assert reason is None or reason in model.reasons, what
    assert reason is None or page.text == first.text or model.changes_text, what
    assert all(number > 0 for number in count.values())
    if not model.changes_text:
        assert first == page, what
    else:
        assert replace(first, text=page.text) == page, what  # the text and nothing else
        if not any(name.startswith("masked.") for name in count):
            assert is_subsequence(first.text, page.text), what  # no case changes, nothing new


def is_subsequence(part: str, whole: str) -> bool:
    characters = iter(whole)
    return all(character in characters for character in part)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("kind", FILTERS)
def test_a_megabyte_of_anything_is_judged_in_time(kind: str, name: str) -> None:
    """A quadratic step would take hours on one of these; the limit is far from both."""
    for language in ("en", "th"):
        reason, _ = ask(document(LARGE[name], language), kind)
        assert reason is None or reason in MODELS[kind].reasons


@pytest.mark.parametrize("kind", FILTERS)
def test_settings_by_language_are_checked_like_all_others(kind: str) -> None:
    for wrong in ({"kind": kind}, {"by_language": {}}, {"no_such_setting": 1}):
        with pytest.raises(ValueError):
            section(kind, **NEEDED.get(kind, {}), by_language={"th": wrong})
    with pytest.raises(ValueError, match="not a language tag"):
        section(kind, **NEEDED.get(kind, {}), by_language={"!": {}})
    own = section(kind, **NEEDED.get(kind, {}), by_language={"iw": {}})
    assert own.for_language("he") == own.for_language("en").model_copy(update={"by_language": {}})
    assert not isinstance(own, UrlBlocklistFilter) or own.for_language("he").domains


@pytest.mark.parametrize("kind", FILTERS)
def test_sections_survive_the_round_trip_through_a_run_s_file(kind: str) -> None:
    own = section(kind, **NEEDED.get(kind, {}))
    plain = own.model_dump(mode="json")
    assert section(**plain) == own
