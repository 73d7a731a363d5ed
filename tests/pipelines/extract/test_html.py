"""What of a page is text, and pages that are refused before they are parsed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.config import ExtractionSection
from pipelines.core.manifest import Counters
from pipelines.extract.documents import TextExtractor
from pipelines.extract.html import nests_deeper, paragraphs_of, resiliparse_text
from pipelines.sources.base import RawPage

SHORT = ExtractionSection(min_characters=3)
SENTENCE = "Dieser Absatz ist lang genug, um zum Inhalt der Seite zu gehören."


def page_of(markup: str | bytes, counters: Counters, **settings: object) -> RawPage:
    """The page with its text in `url`, or "" there."""
    content = markup if isinstance(markup, bytes) else markup.encode()
    page = RawPage("", 0, content, "html")
    config = ExtractionSection.model_validate({"min_characters": 3, **settings})
    with TextExtractor(config, counters) as extractor:
        page.url = extractor.text_of(page) or ""
    return page


def text_of(body: str, **settings: object) -> str:
    markup = f"<html><body><main><p>{SENTENCE}</p>{body}</main></body></html>"
    text = page_of(markup, Counter(), **settings).url
    assert text.startswith(SENTENCE)
    return text.removeprefix(SENTENCE).removeprefix("\n\n")


def test_navigation_is_left_out_and_paragraphs_stay_apart() -> None:
    page = page_of(
        "<html><head><title>Ti &amp; tel\n 字</title></head><body><nav><a href=/>Home</a></nav>"
        f"<main><p>{SENTENCE}</p><p>Zwei\u200dmal &amp; mehr Text in diesem Absatz.</p></main>"
        "<footer>Impressum</footer></body></html>",
        Counter(),
    )
    assert page.url == f"{SENTENCE}\n\nZwei\u200dmal & mehr Text in diesem Absatz."
    assert page.title == "Ti & tel 字"
    assert page.metadata == {"charset": "utf-8"}


def test_all_text_is_taken_where_that_is_wanted() -> None:
    markup = f"<body><nav><a href=/>Home</a></nav><p>{SENTENCE}</p>"
    assert "Home" in page_of(markup, Counter(), main_content=False).url
    assert "Home" not in page_of(markup, Counter()).url


def test_lines_lists_and_cells_stay_readable() -> None:
    assert text_of("<p>one<br>two<br/>three<br><br>Second stanza<br>more</p>") == (
        "one\ntwo\nthree\n\nSecond stanza\nmore"
    )
    items = "<ol><li>The first thing to do, in a whole sentence.<li>The second thing to do.</ol>"
    assert text_of(items) == "The first thing to do, in a whole sentence.\nThe second thing to do."
    cells = "<table><tr><th>Name<th>Value<tr><td>alpha<td>1</table>"
    assert text_of(cells) == "Name\tValue\nalpha\t1"


@pytest.mark.parametrize("character", ["字", "が", "가", "ก", "—", "é", "и", "a", "𠀀"])
def test_a_word_of_one_character_in_its_own_element_is_text(character: str) -> None:
    """resiliparse 2.0 drops a text node that is one character of three UTF-8 bytes."""
    assert text_of(f"<p>before <b>{character}</b> after</p>") == f"before {character} after"


def test_ruby_keeps_its_base_text() -> None:
    assert "漢" in text_of("<p><ruby>漢<rt>kan</rt></ruby> <ruby>字<rt>ji</rt></ruby> 🎌</p>")


def test_the_guard_character_itself_is_no_problem() -> None:
    assert text_of("<p>a\ufdd0b <b>字</b> c</p>").startswith("a\ufdd0b")


def test_an_svgs_title_is_not_the_pages() -> None:
    svg = f"<body><svg><title>icon</title></svg><p>{SENTENCE}"
    assert page_of(svg, Counter()).title is None
    assert page_of(f"<title>Page</title>{svg}", Counter()).title == "Page"


def test_what_a_page_tells_robots_is_joined_with_the_header() -> None:
    page = RawPage("", 0, b"", "html", metadata={"robots": "noarchive"})
    page.content = (
        b'<META NAME="Robots" CONTENT="noai, noindex"><meta name=robots content=nofollow>'
        b"<p>Some text about robots.txt in a page."
    )
    with TextExtractor(SHORT, Counter()) as extractor:
        assert extractor.text_of(page) == "Some text about robots.txt in a page."
    assert page.metadata["robots"] == "noarchive, noai, noindex, nofollow"


def test_lost_characters_are_told() -> None:
    cyrillic = "Это предложение написано по-русски и говорит о погоде.".encode()
    page = page_of(b"<meta charset=utf-8><p>" + cyrillic + b" caf\xe9 cr\xe8me", Counter())
    assert page.metadata["replacement_characters"] == str(page.url.count("\ufffd"))
    assert page.url.count("\ufffd") == 2


def test_surrogates_and_nuls_are_replaced_and_counted() -> None:
    counters: Counters = Counter()
    page = RawPage("", 0, "a\0b \ud83d c".encode("utf-8", "surrogatepass"), "text")
    with TextExtractor(SHORT, counters) as extractor:
        text = extractor.text_of(page)
    assert text is not None and text.startswith("ab \ufffd") and "\0" not in text
    assert counters["replaced.nul"] == 1
    markup = "<p>x &#xD83D; y &#0; z and text"
    assert page_of(markup, Counter()).url == "x \ufffd y \ufffd z and text"


@pytest.mark.parametrize(
    ("markup", "reason"),
    [
        (b"", "no_text"),
        (b"<p>xy</p>", "too_short"),
        (b"\0" * 1000, "no_text"),
        (b"<p>" + b"x" * 200_001, "page_too_large"),
        (b"<div>" * 10_000 + b"<p>some text here" + b"</div>" * 10_000, "nesting"),
        (b"<DIV>" * 1_001 + b"<p>some text here", "nesting"),
    ],
)
def test_what_gives_no_document_is_counted_by_its_reason(markup: bytes, reason: str) -> None:
    counters: Counters = Counter()
    assert page_of(markup, counters, max_page_bytes=200_000).url == ""
    assert {name for name in counters if name.startswith("dropped")} == {f"dropped.{reason}"}
    assert counters[f"dropped.{reason}"] == 1


def test_a_document_of_100_megabytes_and_other_large_things_are_stopped_or_read() -> None:
    counters: Counters = Counter()
    assert page_of(b"<p>word " * 14_000_000, counters).url == ""
    assert counters == {"dropped.page_too_large": 1}
    text = f"<p>{SENTENCE}</p>"
    assert page_of(f"<div class='{'a' * 9_000_000}'>{text}", Counter()).url == SENTENCE
    assert page_of(text + "<p>" + "&amp;" * 1_900_000, Counter()).url.count("&") == 1_900_000


@pytest.mark.parametrize(
    ("markup", "depth"),
    [
        ("<div>" * 5 + "</div>" * 5, 5),
        ("<div></div>" * 50, 1),
        ("<p>text<p>text<li>x<li>y<br><img src=a>" * 20, 0),
        ("</div>" * 5 + "<div>" * 2, 2),
        ("<table><tr><td>" * 7, 7),
        ("<b><i><SPAN class='a>b'>" * 3, 9),
        ("a < b && c <3 <!-- <!> </>", 0),
    ],
)
def test_nesting_is_counted_as_a_parser_would(markup: str, depth: int) -> None:
    assert not nests_deeper(markup, depth)
    assert depth == 0 or nests_deeper(markup, depth - 1)


@given(st.text(st.sampled_from("ab \t\n\u3000"), max_size=60))
def test_paragraphs_have_no_margins_and_lose_no_letter(text: str) -> None:
    parts = paragraphs_of(text)
    assert all(part and part == part.strip() and "\n\n" not in part for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_megabyte_of_blanks_takes_no_time() -> None:
    """A pattern for blanks around something would try it from every blank anew."""
    blanks = " " * 1_000_000
    assert paragraphs_of(f"a{blanks}b\t{blanks}c\n{blanks}d") == [f"a{blanks}b\tc\nd"]
    assert page_of(f"<pre>{blanks}x{blanks}y some text</pre>", Counter()).url.endswith("text")


@given(st.text(max_size=300))
def test_any_text_at_all_can_be_read_as_a_page(markup: str) -> None:
    encodable = markup.encode("utf-8", "replace").decode()
    assert resiliparse_text(encodable, True).text is not None
