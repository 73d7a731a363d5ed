"""Lines of cleaned wikitext: apostrophes, lists, headings, and the paragraphs that come of them."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from pipelines.sources.wikitext.holes import without_holes
from pipelines.sources.wikitext.links import EXTERNAL_MARK, LONE_MARK
from pipelines.sources.wikitext.mediawiki_names import APPENDIX
from pipelines.sources.wikitext.template_arguments import EMPTY, HOLE

APOSTROPHES = re.compile(r"'{2,}")
PARAMETER_LINE = re.compile(r"\s*(?:\||!(?:\s|[^!\n]*!!)|\{\||\|\})")
PARAMETER_PIECE = re.compile(r"\b(?:thumb|thumbnail|mini|miniatur|vignette|frame|\d+px)\s*\|")
STRAY = re.compile(
    r"\[\[+|\]\]+|\{\{+|\}\}+|\{\||\|\}|\|\|+|''+|</?ref\b[^<>]*>?|<!--|-->|&nbsp;"
    r"|\b(?:thumb|\d+px)\|"
)
MARKS = re.compile(f"[{EXTERNAL_MARK}{LONE_MARK}{EMPTY}]")
LEADING_DASH = re.compile(r"^[–—-]\s+")
"""Before it stood a template, as a flag."""
LEADING_SIGNS = tuple(",.;:،؛、，")
"""Before it stood something that shows nothing."""
LONE_ADDRESS = re.compile(r"(?:https?|ftp)://\S+")
NOTE_ON_TOP = re.compile(r":+\s*''(?!')[^\n]{1,300}''\s*")
"""`:''For other meanings see …''`: points elsewhere, and is no part of the text."""
BLANKS = re.compile(r"[ \t\u00a0\r\n\x0b\x0c\x85\u2028\u2029]+")
OTHER_BLANKS = ("  ", *"\t\u00a0\r\n\x0b\x0c\x85\u2028\u2029")
ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}\d?|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")

UNTIDY_PAIRS = """
:; :, :_; :_, :) (_ (, (; (: () (– (، (؛ _) ,) ;) ،) _, _. _، _؛ ,, ,; ;, ;; ,. ;.
、、 （， （、 （； （） （_ ，） 、） _） ；） _。 _， _、
"""
UNTIDY = re.compile("|".join(re.escape(pair) for pair in UNTIDY_PAIRS.split()).replace("_", " "))
"""What text holds where something was taken out of it (and sometimes elsewhere)."""
EMPTY_BRACKETS = re.compile(r" ?[(（](?:[\s,;:،、，；؛–—]|(?<=\s)-(?=\s))*[)）]")
AFTER_OPENING = re.compile(r"([(（])(?:[\s,;،、，；؛]|:\s)+")
BEFORE_CLOSING = re.compile(r"(?<![\s,;،、，；؛])[\s,;،、，；؛]+([)）])")
DOUBLED = re.compile(r"([,;،؛、])(?:\s*[,;،؛、])+")
EMPTY_LABEL = re.compile(r"(?<=[(（;,])\s?[^\s()（）:;,]{1,20}:\s?(?=[;,)）])")
COMMA_STOP = re.compile(r"[,;]\s?(?=\.(?:\s|$))")
BLANK_BEFORE = re.compile(r" (?=[,.](?:\s|$)|[،؛。，、])")


@dataclass(slots=True)
class Lines:
    """Paragraphs in order, and where the sections begin among them."""

    paragraphs: list[str] = field(default_factory=list)
    sections: list[tuple[int, int, str]] = field(default_factory=list)
    """(index of the section's first paragraph, level 1 to 6, title)."""
    list_characters: int = 0
    """Characters of the paragraphs that are list items."""
    holes: int = 0
    """Sentences that were taken out because a word of them was missing."""
    _current: list[str] = field(default_factory=list)
    _appendix: int = 0
    """Level of the section of notes or links that the line is in, or 0."""
    _begin: int = 0
    """Index of the section's first paragraph."""
    _lone: int = 0
    """Items of the section that are one link and nothing else."""

    def at_top(self) -> bool:
        """Whether the page or the section has no text yet."""
        return not self._current and len(self.paragraphs) == self._begin

    def close(self) -> int:
        """End the paragraph; its characters."""
        if not self._current:
            return 0
        paragraph = tidy(" ".join(self._current))
        self._current.clear()
        if HOLE in paragraph:
            paragraph, holes = without_holes(paragraph)
            paragraph = tidy(paragraph)
            self.holes += holes
        if not any(map(str.isalnum, paragraph)) or LONE_ADDRESS.fullmatch(paragraph):
            return 0
        self.paragraphs.append(paragraph)
        return len(paragraph)

    def add(self, line: str) -> None:
        """Add a line of running text."""
        if ("|" in line or line[0] == "!") and _is_parameter(line):
            self.close()
        else:
            self._current.append(line)

    def add_item(self, line: str) -> None:
        """Add a list item or an indented line: a paragraph of its own.

        Items of sections of notes and links are left out, and items that begin with a link to
        another site.
        """
        self.close()
        text = LEADING_DASH.sub("", line.lstrip("*#:;").lstrip(" \t"))
        if _is_parameter(text) or self._appendix or text[:1] == EXTERNAL_MARK:
            return
        self._current.append(text)
        characters = self.close()
        self._lone += characters > 0 and text[:1] == LONE_MARK
        self.list_characters += characters if line[0] in "*#" else 0

    def end_section(self) -> None:
        """A section that is a list of links and nothing else ("See also") has no text."""
        self.close()
        if self._lone and self._lone == len(self.paragraphs) - self._begin:
            self.list_characters -= sum(map(len, self.paragraphs[self._begin :]))
            del self.paragraphs[self._begin :]
        self._begin, self._lone = len(self.paragraphs), 0

    def add_heading(self, line: str) -> None:
        """Begin a section; a line that is no heading is text."""
        line = line.strip()
        left = len(line) - len(line.lstrip("="))
        right = len(line) - len(line.rstrip("="))
        if left < 2 and not right:
            self.add(line)
            return
        self.end_section()
        level, title = min(left, right or left, 6), tidy(line.strip("=").replace(HOLE, ""))
        if self._appendix == 0 or level <= self._appendix:
            self._appendix = level if title.lower().strip(" :.") in APPENDIX else 0
        if title:
            self.sections.append((len(self.paragraphs), level, title))


def _is_parameter(line: str) -> bool:
    """Whether a line is left over of a table or a template that was not closed."""
    return PARAMETER_LINE.match(line) is not None or PARAMETER_PIECE.search(line) is not None


def remove_apostrophes(line: str) -> str:
    """Take out the marks of bold and italic of a line; a real apostrophe beside them stays.

    Source: MediaWiki's doQuotes: of four the first is an apostrophe; in a line with an odd number
    of bold and of italic marks one bold mark is an apostrophe and an italic mark (l'''arbre'').
    """
    if "'''" not in line:
        return line.replace("''", "")
    runs = list(APOSTROPHES.finditer(line))
    lengths = [len(run[0]) for run in runs]
    bold = sum(length in (3, 4) or length >= 5 for length in lengths)
    italic = sum(length == 2 or length >= 5 for length in lengths)
    kept = {
        run.start(): "'" if n == 4 or n > 5 else "" for run, n in zip(runs, lengths, strict=True)
    }
    if bold % 2 and italic % 2:
        apostrophe = _apostrophe_of(line, [run.start() for run in runs if len(run[0]) in (3, 4)])
        if apostrophe is not None:
            kept[apostrophe] = "'"
    return APOSTROPHES.sub(lambda run: kept[run.start()], line)


def _apostrophe_of(line: str, starts: list[int]) -> int | None:
    """The bold mark after a word of one letter, else after a longer one, else after a blank."""
    word = blank = None
    for start in starts:
        before, earlier = line[start - 1 : start], line[start - 2 : start - 1] if start > 1 else ""
        if before == " ":
            blank = start if blank is None else blank
        elif earlier == " ":
            return start
        else:
            word = start if word is None else word
    return word if word is not None else blank


def split_lines(text: str) -> Lines:
    """Paragraphs and sections of text that holds no other markup any more than line marks.

    Lines that follow each other make one paragraph; a list item is one of its own. Items of
    sections of notes, sources and links are left out, and titles of sections without text.
    """
    found = Lines()
    for line in text.split("\n"):
        if "''" in line:
            if found.at_top() and NOTE_ON_TOP.fullmatch(line):
                continue
            line = remove_apostrophes(line)
        mark = line[:1]
        if not line or line.isspace():
            found.close()
        elif mark == "=":
            found.add_heading(line)
        elif mark in "*#:;":
            found.add_item(line)
        else:
            found.add(line)
    found.end_section()
    found.sections = _with_text(found.sections, len(found.paragraphs))
    return found


def _with_text(sections: list[tuple[int, int, str]], count: int) -> list[tuple[int, int, str]]:
    """Sections that hold a paragraph, or whose subsections do."""
    kept = []
    ends = [count] * 7  # by level: where the next section of that level begins
    for section in reversed(sections):
        begin, level, _ = section
        if begin < min(ends[: level + 1]):
            kept.append(section)
        ends[level] = begin
    return kept[::-1]


def tidy(text: str) -> str:
    """One line of text as a reader sees it, without the holes that removed markup left.

    Entities are resolved (twice: many are escaped twice), blanks joined, empty brackets and
    doubled punctuation taken out: "Berlin ( ; born , )" becomes "Berlin (born)".
    """
    if "&" in text:
        text = html.unescape(text)
        if "&" in text and ENTITY.search(text):
            text = html.unescape(text)
    text = STRAY.sub("", MARKS.sub("", text))
    if any(blank in text for blank in OTHER_BLANKS):
        text = BLANKS.sub(" ", text)
    text = text.strip(" |")
    if text[:1] in LEADING_SIGNS and text[1:2] == " ":
        text = text[1:].lstrip()
    if text.startswith("==") or text.endswith("=="):
        text = text.strip("= ")
    if UNTIDY.search(text):
        text = DOUBLED.sub(r"\1", EMPTY_LABEL.sub("", text))
        text = AFTER_OPENING.sub(r"\1", BEFORE_CLOSING.sub(r"\1", EMPTY_BRACKETS.sub("", text)))
        text = BLANK_BEFORE.sub("", COMMA_STOP.sub("", text))
        text = BLANKS.sub(" ", text).strip()
    return text
