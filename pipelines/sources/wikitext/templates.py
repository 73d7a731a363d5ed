"""Templates and tables of wikitext: which of them show text, and language variants.

A dump holds no expanded templates. Most are boxes and notes and show nothing here; some stand in
the middle of a sentence and hold a word of it ({{lang|fr|mot}}, {{convert|3|km}}): those give their
text, so that no hole is left. One pass with a stack, as MediaWiki's preprocessor does it.
"""

from __future__ import annotations

import re

from pipelines.sources.wikitext.mediawiki_names import VARIANT_CODES
from pipelines.sources.wikitext.tables import prose_of
from pipelines.sources.wikitext.template_arguments import EMPTY
from pipelines.sources.wikitext.template_functions import template_text
from pipelines.sources.wikitext.template_inline import inline_text

OPEN_TEMPLATE, OPEN_TABLE = "\x00", "\x01"
"""Stand where something was opened and perhaps is never closed; the cleaner takes them out of its
input first."""
DEEPEST = 40
"""MediaWiki's own limit of nested templates; what is deeper shows nothing."""

MARKS = re.compile(r"\{\{+|\}\}+|\{\|(?!\})|\|\}(?!\})")
BRACES = ("{{", "}}")
LINE_MARKS = " \t:*#;"
LONGEST_INDENT = 40
CONTEXT, BEHIND, PARTS_BEFORE = 40, 12, 8
"""Characters before and behind a template that tell whether it stands in a sentence."""
LINE_END = re.compile(f"[\n{OPEN_TEMPLATE}{OPEN_TABLE}]")
BROKEN_TEMPLATE = re.compile(f"{OPEN_TEMPLATE}[^\n]*")
BROKEN_TABLE = re.compile(rf"{OPEN_TABLE}(?:(?!\n[ \t]*\n|\n=).)*", re.DOTALL)
VARIANT_MARKS = re.compile(r"-\{|\}-")
ONE_VARIANT = rf"\s{{0,20}}(?:[^;=]{{0,200}}=>\s{{0,20}})?{VARIANT_CODES}\s{{0,20}}:"
VARIANT_RULE = re.compile(ONE_VARIANT, re.IGNORECASE)
VARIANT_END = re.compile(rf";(?:{ONE_VARIANT}|\s{{0,20}}$)", re.IGNORECASE)


class _Stack:
    """Text so far in pieces, and the marks that are open in it."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.parts: list[str] = []
        self.marks: list[tuple[str, int]] = []
        self.opened = {OPEN_TEMPLATE: 0, OPEN_TABLE: 0}
        self.tables = 0

    def open(self, mark: str) -> None:
        self.marks.append((mark, len(self.parts)))
        self.opened[mark] += 1
        self.parts.append(mark)

    def close(self, mark: str, after: str = "") -> None:
        """Close the last mark of a kind; what was opened after it was never closed.

        `after` is the beginning of the text behind it.
        """
        if not self.opened[mark]:
            return  # without this, many closing marks would each search all that is open
        kind, start = "", 0
        while kind != mark:
            kind, start = self.marks.pop()
            self.opened[kind] -= 1
        inside = "".join(self.parts[start + 1 :])
        del self.parts[start:]
        if mark == OPEN_TABLE:
            prose = prose_of(inside)
            self.tables += len(inside) - len(prose)
            if prose:
                self.parts.append(f"\n\n{prose}\n\n")
        elif len(self.marks) < DEEPEST:
            shown = template_text(inside, self.title)
            if shown is None:
                shown = inline_text(inside, self.before, after)
            if shown:
                self.parts.append(shown)
            elif after.startswith("''") and self.before().endswith("''"):
                self.parts.append(EMPTY)

    def before(self) -> str:
        """The end of the text so far, within its line and within what is open."""
        end = ""
        for part in reversed(self.parts[-PARTS_BEFORE:]):
            end = part[-CONTEXT:] + end
            if len(end) >= CONTEXT or "\n" in end or part in (OPEN_TEMPLATE, OPEN_TABLE):
                break
        return LINE_END.split(end[-CONTEXT:])[-1]

    def braces(self, mark: str, before: str, after: str) -> None:
        """Open or close as many templates as there are pairs.

        Of {{{x}}} the inner braces are read and the third is not; -{{{x}}}- keeps its -{ }-.
        """
        odd = len(mark) % 2 == 1
        if mark[0] == "{":
            if odd and before == "-":
                self.parts.append("{")
            for _ in range(len(mark) // 2):
                self.open(OPEN_TEMPLATE)
            return
        for left in reversed(range(len(mark) // 2)):
            self.close(OPEN_TEMPLATE, "}}" if left else after)
        if odd and after[:1] == "-":
            self.parts.append("}")


def expand(text: str, title: str = "") -> tuple[str, int]:
    """Replace templates by the text they show, and cut out tables.

    What is never closed costs the rest of its line (a template) or of its block (a table: up to a
    blank line or a heading).

    Returns:
        (text, characters of the tables that were cut out).
    """
    stack = _Stack(title)
    position = 0
    for match in MARKS.finditer(text):
        start, end = match.span()
        stack.parts.append(text[position:start])
        position = end
        mark = match[0]
        if mark[:2] in BRACES:
            stack.braces(mark, before=text[start - 1 : start], after=text[end : end + BEHIND])
        elif not _begins_line(text, start):
            stack.parts.append(mark)
        elif mark == "{|":
            stack.open(OPEN_TABLE)
        else:
            stack.close(OPEN_TABLE)
    stack.parts.append(text[position:])
    whole = "".join(stack.parts)
    if OPEN_TABLE in whole:
        whole = BROKEN_TABLE.sub("", whole)
    if OPEN_TEMPLATE in whole:
        whole = BROKEN_TEMPLATE.sub("", whole)
    return whole, stack.tables


def _begins_line(text: str, position: int) -> bool:
    """Whether only line marks stand before a place in its line."""
    before = text[max(0, position - LONGEST_INDENT) : position]
    line = before.rpartition("\n")
    whole = line[1] or position <= LONGEST_INDENT
    return bool(whole) and not line[2].strip(LINE_MARKS)


def variant(content: str) -> str:
    """What the inside of -{...}- shows, of several variants the first.

    -{zh-hans:A; zh-hant:B}- shows A; -{A}- and -{A|X}- show their text; rules that are only
    declared (flags T, H and -) show nothing. Source: MediaWiki's LanguageConverter syntax.
    """
    if "|" in content:
        flags, _, content = content.partition("|")
        if {flag.strip() for flag in flags.split(";")} & {"T", "H", "-"}:
            return ""
    rule = VARIANT_RULE.match(content)
    if rule is None:
        return content
    end = VARIANT_END.search(content, rule.end())
    return content[rule.end() : end.start() if end else len(content)].strip()


def convert_variants(text: str) -> str:
    """Show the first variant of each language conversion rule, innermost first."""
    if "-{" not in text:
        return text
    parts: list[str] = []
    stack: list[int] = []
    position = 0
    for match in VARIANT_MARKS.finditer(text):
        parts.append(text[position : match.start()])
        position = match.end()
        if match[0] == "-{":
            stack.append(len(parts))
        elif stack:
            start = stack.pop()
            content = "".join(parts[start:])
            del parts[start:]
            # Too deep to be real: its text would be copied once a level.
            parts.append(variant(content) if len(stack) < DEEPEST else "")
    parts.append(text[position:])
    return "".join(parts)
