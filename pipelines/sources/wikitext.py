"""Wikitext to paragraphs of running text.

A linear cleaner and not a full parser: a recursive parser takes seconds on a large article, and
only running text is wanted. The order is MediaWiki's own: comments first, then extension tags, then
templates and tables, then links. What is not closed costs its own line, never the rest of the page.

Left out: templates, tables, references, files, categories, links to other languages, galleries,
formulas, and section titles (they are no sentences). Each list item is a paragraph of its own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

FILE_AND_CATEGORY = frozenset({"file", "image", "media", "category"})
"""Canonical namespace names; every wiki knows them beside its own."""

OPEN_COMMENT = re.compile(r"<!--[^\n]*")
OPENING_COMMENT = re.compile(r"<!--")
NOWIKI = re.compile(r"<nowiki\s*>(.*?)</nowiki\s*>|<nowiki\s*/>", re.DOTALL | re.IGNORECASE)
DROPPED_TAGS = (
    "ref|references|math|chem|ce|gallery|timeline|syntaxhighlight|source|score|imagemap|hiero|"
    "table|templatedata|templatestyles|graph|mapframe|maplink|includeonly|style|script|inputbox|"
    "categorytree|section|indicator|pre|code"
)
EMPTY_TAG = re.compile(rf"<(?:{DROPPED_TAGS})\b(?:[^<>\"]|\"[^\"\n]{{0,500}}\")*/>", re.IGNORECASE)
OPEN_TAG = re.compile(
    rf"<({DROPPED_TAGS})\b(?:[^<>\"]|\"[^\"\n]{{0,500}}\")*(?<!/)>", re.IGNORECASE
)
CLOSE_TAG = {
    name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in DROPPED_TAGS.split("|")
} | {"!--": re.compile("-->")}
OPEN_REFERENCE = re.compile(r"<ref\b[^\n]*", re.IGNORECASE)
QUOTED_TEXT = re.compile(
    r"\{\{\s*(?:lang|langue|wikt-lang)\s*\|[^|{}]*\|([^{}|=]*)(?:\|[^{}]*)?\}\}"
    r"|\{\{\s*lang-[a-z-]+\s*\|([^{}|=]*)(?:\|[^{}]*)?\}\}",
    re.IGNORECASE,
)
BRACES = re.compile(r"\{\{|\}\}|^[ \t:*#;]*\{\|(?!\})|^[ \t:*]*\|\}(?!\})", re.MULTILINE)
EXTERNAL_LINK = re.compile(r"\[(?:https?:|ftp:|mailto:|news:)?//?[^\s\[\]<>]+[ \t]*([^\[\]\n]*)\]")
MAIL_LINK = re.compile(r"\[mailto:\S+[ \t]*([^\[\]\n]*)\]")
INNER_LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
INTERWIKI = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?|simple|species|commons|wikt|d|s|q|b|n|m|w")
VARIANT = re.compile(r"-\{([^{}]*)\}-")
BREAK_TAG = re.compile(r"<(?:br|hr)\s*/?\s*>|</(?:p|div|li|blockquote|center|poem)\s*>", re.I)
TAG = re.compile(r"</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>", re.IGNORECASE)
HEADING = re.compile(r"^[ \t]*(={1,6})[^\n]*?\1[ \t]*$", re.MULTILINE)
RULE = re.compile(r"^-{4,}", re.MULTILINE)
SWITCH = re.compile(r"__[A-Z_ÄÖÜА-Я]{3,}__")
QUOTES = re.compile(r"'{2,}")
LIST_MARK = re.compile(r"^[*#:;]+[ \t]*")
PARAMETER_LINE = re.compile(r"^\s*(?:[|!]|\{\||\|\})")
PARAMETER_PIECE = re.compile(r"\b(?:thumb|thumbnail|mini|miniatur|vignette|frame|\d+px)\s*\|")
EMPTY_BRACKETS = re.compile(r"[ \t]*[(（][\s,;:،、]*[)）]")
STRAY = re.compile(r"\[\[|\]\]|\{\{+|\}\}+")
BLANKS = re.compile(r"[ \t\u00a0]+")
DISAMBIGUATION = re.compile(
    r"__DISAMBIG__|\{\{\s*(?:[\w-]+[ _])?(?:disambig\w*|disamb|dab|hndis|geodis|begriffsklärung|"
    r"homonymie|desambigua\w*|desambigu\w*|disambigua|неоднозначность|неоднозначност|"
    r"багатозначність|曖昧さ回避|aimai|消歧义|消歧義|disambigpage|dp|täsmennyssivu|förgrening|"
    r"flertydig|ujednoznacznienie|rozcestník|egyért\w*|dezambiguizare|anlam ayrımı|ابهام‌زدایی|"
    r"توضيح|פירושונים|동음이의|trang định hướng|maana)\s*[|}]",
    re.IGNORECASE,
)


def is_disambiguation(wikitext: str) -> bool:
    """Whether a page says, by magic word or by template, that it only tells meanings apart."""
    return DISAMBIGUATION.search(wikitext) is not None


def to_paragraphs(wikitext: str, namespaces: frozenset[str] = frozenset()) -> list[str]:
    """Paragraphs of running text, in order.

    Args:
        wikitext: the source of one page.
        namespaces: the wiki's own names of the file and category namespaces, in lower case.
    """
    text = OPEN_COMMENT.sub("", _without_pairs(wikitext, comments=True))
    text = NOWIKI.sub(lambda match: STRAY.sub("", match[1] or ""), text)
    text = _without_pairs(EMPTY_TAG.sub("", text), comments=False)
    text = OPEN_REFERENCE.sub("", text)
    text = QUOTED_TEXT.sub(lambda match: match[1] or match[2] or "", text)
    text = VARIANT.sub(_first_variant, text)
    text = _without_braces(text)
    text = MAIL_LINK.sub(r"\1", EXTERNAL_LINK.sub(r"\1", text))
    text = _without_links(text, namespaces | FILE_AND_CATEGORY)
    text = HEADING.sub("\n", text)
    text = SWITCH.sub("", RULE.sub("\n", text))
    text = html.unescape(TAG.sub("", BREAK_TAG.sub("\n", QUOTES.sub("", text))))
    return _paragraphs(text.splitlines())


def _without_pairs(text: str, *, comments: bool) -> str:
    """Cut out comments, or else tags whose content is no text; what is never closed stays.

    One pass: a mark that has no end behind one place has none behind a later one either.
    """
    cuts: list[tuple[int, int]] = []
    endless: set[str] = set()
    opening = OPENING_COMMENT if comments else OPEN_TAG
    match = opening.search(text)
    while match is not None:
        name = "!--" if match[0] == "<!--" else match[1].lower()
        end = None if name in endless else CLOSE_TAG[name].search(text, match.end())
        if end is None:
            endless.add(name)
        else:
            cuts.append((match.start(), end.end()))
        match = opening.search(text, match.end() if end is None else end.end())
    return _cut(text, cuts)


def _without_braces(text: str) -> str:
    """Cut out templates and tables; one that is never closed costs the rest of its line."""
    open_marks: list[tuple[str, int]] = []
    cuts: list[tuple[int, int]] = []
    for match in BRACES.finditer(text):
        mark = match[0].strip(" \t:*#;")
        if mark in ("{{", "{|"):
            open_marks.append((mark, match.start()))
            continue
        wanted = "{{" if mark == "}}" else "{|"
        levels = [i for i, (kind, _) in enumerate(open_marks) if kind == wanted]
        if not levels:
            continue
        # A mark closes the last one of its kind; what was opened after that was never closed.
        cuts.append((open_marks[levels[-1]][1], match.end()))
        del open_marks[levels[-1] :]
    for _, start in open_marks:
        line_end = text.find("\n", start)
        cuts.append((start, len(text) if line_end == -1 else line_end))
    return _cut(text, cuts)


def _cut(text: str, cuts: Sequence[tuple[int, int]]) -> str:
    kept, position = [], 0
    for start, end in sorted(cuts):
        if start > position:
            kept.append(text[position:start])
        position = max(position, end)
    kept.append(text[position:])
    return "".join(kept)


def _without_links(text: str, hidden: frozenset[str]) -> str:
    """Replace links by what a reader sees, innermost first."""

    def shown(match: re.Match[str]) -> str:
        target, bar, rest = match[1].partition("|")
        target = target.strip()
        prefix, colon, name = target.partition(":")
        if colon and prefix.strip().lower().replace("_", " ") in hidden:
            return ""
        if colon and not bar and name and INTERWIKI.fullmatch(prefix.strip()):
            return ""
        return rest.rpartition("|")[2] if bar and rest else target.lstrip(":")

    for _ in range(20):
        text, count = INNER_LINK.subn(shown, text)
        if not count:
            break
    names = "|".join(re.escape(name) for name in sorted(hidden))
    # A file link that is never closed: its caption cannot be told from its options.
    return re.sub(rf"\[\[\s*(?:{names})\s*:[^\n]*", "", text, flags=re.IGNORECASE)


def _first_variant(match: re.Match[str]) -> str:
    """-{zh-hans:A; zh-hant:B}- shows A; -{A}- shows A; -{T|...}- and other rules show nothing."""
    content = match[1]
    if "|" in content:
        flags, _, content = content.partition("|")
        if flags.strip() in ("T", "H", "-", "D"):
            return ""
    first = content.split(";")[0]
    return first.partition(":")[2] if re.match(r"\s*zh(?:-\w+)?\s*:", first) else first


def _paragraphs(lines: Sequence[str]) -> list[str]:
    paragraphs: list[str] = []
    current: list[str] = []

    def close() -> None:
        if current:
            paragraphs.append(" ".join(current))
            current.clear()

    for line in lines:
        if PARAMETER_LINE.match(line) or PARAMETER_PIECE.search(line):
            close()
            continue
        item = LIST_MARK.match(line)
        text = EMPTY_BRACKETS.sub("", STRAY.sub("", line[item.end() :] if item else line))
        text = BLANKS.sub(" ", text).strip()
        if item or not text:
            close()
        if text and any(character.isalnum() for character in text):
            current.append(text)
        if item:
            close()
    close()
    return paragraphs
