"""A page that hangs, grows or crashes costs itself and nothing else."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from pipelines.config import ExtractionSection
from pipelines.core.manifest import Counters
from pipelines.extract import child as child_module
from pipelines.extract.child import Child
from pipelines.extract.documents import TextExtractor
from pipelines.sources.base import RawPage

HOSTILE = "tests.pipelines.extract.hostile_extractors:hostile"


@pytest.fixture
def child() -> Iterator[Child]:
    with Child(HOSTILE, 1.0, 300) as one:
        yield one


def test_results_come_back_whole_and_from_one_process(child: Child) -> None:
    texts = ["ä\u200d字\ud83d", "x" * 3_000_000, ""]
    answers = [child.extract(text, True)[0] for text in texts]
    assert [answer[0] for answer in answers] == [text.upper() for text in texts]
    assert len({answer[1] for answer in answers}) == 1
    assert answers[0][1] != os.getpid() and answers[0][2] is True


@pytest.mark.parametrize(
    ("page", "loss"),
    [
        ("sleep", "page_timeout"),
        ("compute", "page_timeout"),
        ("grow", "page_memory"),
        ("segfault", "extractor_crash"),
        ("exit", "extractor_crash"),
        ("raise", "extractor_crash"),
    ],
)
def test_a_hostile_page_is_stopped_and_the_next_one_works(
    child: Child, page: str, loss: str
) -> None:
    assert child.extract("before", True)[0][0] == "BEFORE"
    assert child.extract(page, True) == (None, loss)
    assert child.extract("after", False)[0][0] == "AFTER"


def test_a_parent_that_ignores_the_timers_signals_makes_no_difference() -> None:
    before = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    try:
        with Child(HOSTILE, 0.3, 600) as one:
            assert one.extract("compute", True) == (None, "page_timeout")
    finally:
        signal.signal(signal.SIGPROF, before)


def test_what_an_extractor_prints_is_no_answer(child: Child) -> None:
    assert child.extract("print", True)[0][0] == "PRINT"
    assert child.extract("after", True)[0][0] == "AFTER"


def test_a_missing_package_is_no_loss_of_a_page(child: Child) -> None:
    with pytest.raises(ImportError, match="extractor"):
        child.extract("missing", True)


def test_children_are_recycled_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "PAGES_PER_CHILD", 2)
    with Child(HOSTILE, 5, 600) as one:
        numbers = [one.extract("x", True)[0][1] for _ in range(4)]
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3]
    for number in set(numbers):
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def text_of(markup: str, counters: Counters, **settings: object) -> str | None:
    config = ExtractionSection.model_validate({"min_characters": 3, **settings})
    with TextExtractor(config, counters) as extractor:
        return extractor.text_of(RawPage("http://x.test", 0, markup.encode(), "html"))


def test_a_page_that_takes_the_parser_minutes_is_stopped() -> None:
    """Lexbor compares each attribute with all before it: 150,000 take most of a minute."""
    counters: Counters = Counter()
    attributes = " ".join(f"a{number}=1" for number in range(150_000))
    assert text_of(f"<p {attributes}>text", counters, max_page_seconds=0.5) is None
    assert counters == {"dropped.page_timeout": 1}


def test_a_long_page_gives_the_same_text_in_the_child() -> None:
    paragraph = "<p>Ein Absatz mit <b>字</b> und genug Text, dass er zum Inhalt gehört.</p>"
    short, long = paragraph * 3, paragraph * 3000
    right = "Ein Absatz mit 字 und genug Text, dass er zum Inhalt gehört."
    for markup, count in ((short, 3), (long, 3000)):
        text = text_of(f"<html><body><main>{markup}</main></body></html>", counters := Counter())
        assert text == "\n\n".join([right] * count) and not counters


def test_trafilatura_works_in_the_child() -> None:
    pytest.importorskip("trafilatura")
    counters: Counters = Counter()
    paragraph = "<p>This paragraph has enough words to be taken for the content of a page.</p>"
    page = f"<html><head><title>T</title></head><body><article>{paragraph * 5}</article></body>"
    text = text_of(page, counters, extractor="trafilatura")
    assert text is not None and text.startswith("This paragraph has enough words")
    assert not counters


def test_trafilatura_is_stopped_on_a_pathological_page() -> None:
    """Trafilatura 2.3 takes 15 seconds for the 210 kilobytes of 5,000 small tables."""
    pytest.importorskip("trafilatura")
    counters: Counters = Counter()
    page = "<article>" + "<table><tr><td>word word</td></tr></table>" * 5000
    assert text_of(page, counters, extractor="trafilatura", max_page_seconds=0.5) is None
    assert counters == {"dropped.page_timeout": 1}
