"""Dumps: all streams, cut streams, and prose out of markup."""

from __future__ import annotations

import bz2
import re
from collections import Counter
from pathlib import Path

import pytest

from pipelines.core.manifest import Counters
from pipelines.core.records import Shard
from pipelines.sources.base import RawPage
from pipelines.sources.wikipedia import Wikipedia
from pipelines.sources.wikitext import is_disambiguation, to_paragraphs

HEAD = (
    '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/"><siteinfo>'
    "<base>https://de.wikipedia.org/wiki/Wikipedia:Hauptseite</base><namespaces>"
    '<namespace key="6">Datei</namespace><namespace key="14">Kategorie</namespace>'
    "</namespaces></siteinfo>"
)
RESIDUE = re.compile(r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|thumb\||<ref|<!--|'''|^\s*[|!]", re.MULTILINE)


def page(title: str, text: str, ns: int = 0, extra: str = "") -> str:
    return (
        f"<page><title>{title}</title><ns>{ns}</ns><id>5</id>{extra}<revision><id>9</id>"
        f"<timestamp>2026-11-01T00:00:00Z</timestamp><text>{text}</text></revision></page>"
    )


STREAMS = [
    bz2.compress(HEAD.encode()),
    bz2.compress(page("Erste Seite", "Text eins.").encode()),
    bz2.compress((page("Zwei", "Text zwei. " * 50) + "</mediawiki>").encode()),
]


def read(path: Path, content: bytes) -> tuple[list[RawPage], Counters, list[str]]:
    path.write_bytes(content)
    counters: Counters = Counter()
    notes: list[str] = []
    shard = Shard("dewiki/d.bz2", "", "wikipedia", "wikipedia", options={"wiki": "dewiki"})
    return list(Wikipedia().read_pages(path, shard, counters, notes, 10**6)), counters, notes


def test_every_stream_is_read(tmp_path: Path) -> None:
    pages, counters, notes = read(tmp_path / "d", b"".join(STREAMS))
    assert [found.title for found in pages] == ["Erste Seite", "Zwei"]
    assert pages[0].url == "https://de.wikipedia.org/wiki/Erste_Seite"
    assert pages[0].metadata == {"page_id": "5", "wiki": "dewiki"}
    assert [found.offset for found in pages] == [0, 1]
    assert pages[0].namespaces == {"datei", "kategorie"}
    assert notes == [] and counters == {"records": 2}


def test_trailing_junk_is_noted(tmp_path: Path) -> None:
    pages, counters, notes = read(tmp_path / "d", b"".join(STREAMS) + b"\0\0\0")
    assert len(pages) == 2
    assert counters["bytes_lost"] == 3
    assert len(notes) == 1 and "dewiki/d.bz2" in notes[0]


def test_a_cut_stream_is_counted_as_truncated(tmp_path: Path) -> None:
    cut = b"".join(STREAMS[:2]) + STREAMS[2][: len(STREAMS[2]) // 2]
    pages, counters, notes = read(tmp_path / "d", cut)
    assert [found.title for found in pages] == ["Erste Seite"]
    assert counters["dropped.truncated_stream"] == 1
    assert counters["dropped.truncated_dump"] == 1
    assert all("dewiki/d.bz2" in note for note in notes)


def test_other_pages_are_counted(tmp_path: Path) -> None:
    content = (
        HEAD
        + page("Diskussion:A", "x", ns=1)
        + page("B", "#REDIRECT [[A]]", extra='<redirect title="A" />')
        + page("C", "{{Begriffsklärung}} A ist B")
        + page("D", "y" * 1_000_001)
        + page("E", "Text.")
        + "</mediawiki>"
    )
    pages, counters, _ = read(tmp_path / "d", bz2.compress(content.encode()))
    assert [found.title for found in pages] == ["E"]
    assert counters == {
        "records": 5,
        "dropped.namespace": 1,
        "dropped.redirect": 1,
        "dropped.disambiguation": 1,
        "dropped.page_too_large": 1,
    }


@pytest.mark.parametrize(
    ("wikitext", "right"),
    [
        (
            'Alpha<ref name="A/B">{{cite|x}}</ref> beta<ref>see<br/>more</ref> gamma'
            '<ref name="k"/> delta.',
            ["Alpha beta gamma delta."],
        ),
        ("One. <!-- {{broken | y --> Two. {{ok}} Three.", ["One. Two. Three."]),
        ("Four. <references/> Five. {{never closed  Six.\nSeven.", ["Four. Five. Seven."]),
        ("[[Datei:A.jpg|mini|Ein [[Haus]] am [[See|Ufer]]]]Ein Satz.", ["Ein Satz."]),
        ("Ein [[Haus|kleines Haus]] in [[Bonn]]. [[en:House]]", ["Ein kleines Haus in Bonn."]),
        ("A\n\n{|\n! x\n|-\n| y {{z|\n|}}\n|}\nB", ["A", "B"]),
        ("== T ==\n* eins\n* ''zwei''\n\n'''Drei''' &amp; vier", ["eins", "zwei", "Drei & vier"]),
        ("Siehe [https://x.test/a die Seite] und [https://x.test].", ["Siehe die Seite und ."]),
        ("{{Info|a={{b|{{c}}}}\n|d=e}}Text {{lang|fr|mot}}.", ["Text mot."]),
        ("<nowiki>[[roh]]</nowiki> und <math>x^2</math> mehr", ["roh und mehr"]),
        ("-{zh-hans:简体; zh-hant:繁體}-字", ["简体字"]),
        ("a <ref>nie zu\nb", ["a b"]),
    ],
)
def test_running_text_stays_and_markup_goes(wikitext: str, right: list[str]) -> None:
    assert to_paragraphs(wikitext, frozenset({"datei", "kategorie"})) == right


@pytest.mark.timeout(20)
@pytest.mark.parametrize("mark", ["{{", "[[", "<ref>", "<!--", "{|\n", "[http://a ", "'''", "<a "])
def test_a_page_of_open_marks_takes_linear_time(mark: str) -> None:
    to_paragraphs(mark * 20_000 + "end")


def test_disambiguation_is_told_by_template_or_magic_word() -> None:
    assert is_disambiguation("{{disambig}}") and is_disambiguation("x __DISAMBIG__")
    assert is_disambiguation("{{Geo disambiguation}}")
    assert not is_disambiguation("the word disambiguation") and not is_disambiguation("{{dpx}}")


def test_real_dumps_leave_next_to_no_markup(shared_data: Path, tmp_path: Path) -> None:
    files = sorted((shared_data / "wiki" / "minidumps").glob("*.bz2"))
    documents = residue = 0
    for file in files:
        for found in read(tmp_path / "d", file.read_bytes())[0]:
            text = "\n".join(to_paragraphs(found.content.decode(), found.namespaces))
            documents += 1
            residue += RESIDUE.search(text) is not None
    assert documents > 100
    assert residue / documents < 0.005
