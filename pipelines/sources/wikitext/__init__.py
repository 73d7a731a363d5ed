"""Wikitext to paragraphs of running text.

A linear cleaner and not a full parser: a recursive parser takes seconds on a large article, and
only running text is wanted. The order is MediaWiki's own: comments first, then extension tags, then
templates and tables, then links. What is not closed costs its own line, never the rest of the page.

Left out: templates (but those that hold words of a sentence), tables (but prose in those that only
lay out the page), references, files and their captions, categories, links to other languages,
galleries, formulas (but those that read as a line of text), code blocks, list items of sections of
notes, sources and links. A sentence of which a word is not in the dump goes as a whole and is
counted. Section titles are kept apart: they are no sentences. Each list item is a paragraph of its
own. Of language variants the first is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.sources.wikitext.formulas import formula_text
from pipelines.sources.wikitext.lines import split_lines
from pipelines.sources.wikitext.links import show_links
from pipelines.sources.wikitext.mediawiki_names import (
    DISAMBIGUATION,
    DISAMBIGUATION_TITLE,
    LIST_TITLE,
)
from pipelines.sources.wikitext.template_arguments import EMPTY, HOLE
from pipelines.sources.wikitext.templates import convert_variants, expand

CONTROL = re.compile("[\x00-\x08\r]")
OPEN_COMMENT = re.compile(r"<!--[^\n]*")
OPENING_COMMENT = re.compile(r"<!--")
SPECIAL_IN_FORMULA = re.compile(r"[][{}|'=<>&]")
INLINE_TAGS = frozenset({"math", "code", "ce", "chem", "nowiki"})
FORMULA_TAGS = frozenset({"math", "ce", "chem"})
SPECIAL = re.compile(r"[][{}|'=*#:;<>_~!-]")
DROPPED_TAGS = (
    "nowiki|ref|references|math|chem|ce|gallery|timeline|syntaxhighlight|source|score|imagemap|hiero|"
    "templatedata|templatestyles|graph|mapframe|maplink|includeonly|style|script|inputbox|"
    "categorytree|section|indicator|pre|code|rp|rt|rtc|choose|poll|quiz|abc|phonos|music|"
    "dynamicpagelist|rss|charinsert|listing|xmp|ly|chart|video|svg"
)
ATTRIBUTES = r"\b(?:[^<>\"]|\"[^\"\n]{0,500}\")*"
EMPTY_TAG = re.compile(rf"<(?:{DROPPED_TAGS}){ATTRIBUTES}/>", re.IGNORECASE)
OPEN_TAG = re.compile(rf"<({DROPPED_TAGS}){ATTRIBUTES}(?<!/)>", re.IGNORECASE)
CLOSE_TAG = {
    name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in DROPPED_TAGS.split("|")
} | {"!--": re.compile("-->")}
OPEN_REFERENCE = re.compile(r"<ref\b[^\n]*", re.IGNORECASE)
SHORT_CODE = 60
"""Characters; a longer piece of code, or one of several lines, is no part of a sentence."""

TABLE_TAG = re.compile(r"<(/?)table\b[^<>]*>", re.IGNORECASE)
SUPERSCRIPT = re.compile(r"<sup\b[^<>]*>\s*([+\-−–]?\d{0,4}[+\-−–]?)\s*</sup\s*>", re.IGNORECASE)
SUPERSCRIPTS = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
INLINE_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
BLOCK_TAG = re.compile(
    r"</?(?:p|div|blockquote|center|poem|hr|ul|ol|dl|dt|dd|tr|td|th|caption|h[1-6])\b[^<>]*>", re.I
)
ITEM_TAG = re.compile(r"<li\b[^<>]*>", re.IGNORECASE)
TAG = re.compile(r"</?[a-z][a-z0-9-]*(?:\s[^<>]*)?/?>", re.IGNORECASE)
RULE = re.compile(r"^-{4,}", re.MULTILINE)
SWITCH = re.compile(r"__(\w{2,40}?)__")

LEAST_RUNNING_SHARE = 0.1
"""A page with less running text than this beside its lists and tables is a list page."""
LEAST_RUNNING_SHARE_OF_A_LIST = 0.5
"""The same for a page that is a list by its title."""
TABLE_WEIGHT = 0.3
"""Of a table's characters about this part is text that a reader sees; the rest is markup."""


@dataclass(frozen=True, slots=True)
class Article:
    """The running text of a page."""

    paragraphs: list[str]
    sections: list[tuple[int, int, str]]
    """(index of the paragraph that the section begins with, level 1 to 6, title), in order."""
    running_share: float
    """Running text, as part of itself and the text of lists and tables; 0 without any text."""
    holes: int = 0
    """Sentences that were taken out, for a word of them is not in the dump: a number that is kept
    elsewhere, or a formula that does not read as text."""


def is_disambiguation(wikitext: str, title: str = "") -> bool:
    """Whether a page says that it only tells meanings apart: by magic word, template, category, or
    the end of its title, in any of many languages."""
    return (
        DISAMBIGUATION.search(wikitext) is not None
        or DISAMBIGUATION_TITLE.search(title) is not None
    )


def is_list_page(article: Article, title: str = "") -> bool:
    """Whether a page is mostly lists and tables.

    By its share of running text: below 0.1, or below 0.5 when the title says "List of …".
    """
    named = LIST_TITLE.search(title) is not None
    least = LEAST_RUNNING_SHARE_OF_A_LIST if named else LEAST_RUNNING_SHARE
    return bool(article.paragraphs) and article.running_share < least


def to_article(wikitext: str, namespaces: frozenset[str] = frozenset(), title: str = "") -> Article:
    """Take the running text out of a page; time and memory grow linearly with its length.

    Args:
        wikitext: the source of one page.
        namespaces: the wiki's own names of the file and category namespaces, in lower case. The
            English ones and many languages' older ones are known.
        title: of the page, which some pages show by {{PAGENAME}}.
    """
    text = CONTROL.sub("", wikitext)
    if "<" in text:
        text = _without_tags(text)
    text, table_characters = expand(text, title)
    text = show_links(convert_variants(text), namespaces)
    if "<" in text:
        text = SUPERSCRIPT.sub(lambda match: match[1].translate(SUPERSCRIPTS), text)
        text = ITEM_TAG.sub("\n* ", BLOCK_TAG.sub("\n\n", INLINE_BREAK.sub(" ", text)))
        text = TAG.sub("", text)
    if "__" in text:
        text = SWITCH.sub(lambda match: match[0] if match[1] != match[1].upper() else "", text)
    if "----" in text:
        text = RULE.sub("\n", text)
    lines = split_lines(text)
    running = sum(map(len, lines.paragraphs)) - lines.list_characters
    listed = lines.list_characters + TABLE_WEIGHT * table_characters
    share = running / (running + listed) if running + listed else 0.0
    return Article(lines.paragraphs, lines.sections, share, lines.holes)


def _without_tags(text: str) -> str:
    """Take out comments and extension tags with what they hold; tables become wiki tables."""
    if "<!--" in text:
        text = OPEN_COMMENT.sub("", _without_pairs(text, comments=True))
    text = _without_pairs(EMPTY_TAG.sub("", text), comments=False)
    text = OPEN_REFERENCE.sub("", text)
    return TABLE_TAG.sub(lambda match: "\n|}\n" if match[1] else "\n{|\n", text)


def _without_pairs(text: str, *, comments: bool) -> str:
    """Cut out comments, or else tags whose content is no text; what is never closed stays.

    One pass: a mark that has no end behind one place has none behind a later one either.
    """
    kept: list[str] = []
    position = 0
    endless: set[str] = set()
    opening = OPENING_COMMENT if comments else OPEN_TAG
    match = opening.search(text)
    while match is not None:
        name = "!--" if comments else match[1].lower()
        close = None if name in endless else CLOSE_TAG[name].search(text, match.end())
        after = match.end()
        if close is None:
            endless.add(name)
        else:
            kept.append(text[position : match.start()])
            position = after = close.end()
            if comments and text[match.start() - 1 : match.start()] in ("", "\n"):
                # A comment that has its line for itself leaves no blank line: MediaWiki's rule.
                position += text[position : position + 1] == "\n"
            elif name in INLINE_TAGS:
                content = text[match.end() : close.start()]
                kept.append(_inline(name, content) or _hole(name, match))
            elif text.startswith("''", position) and text.endswith("''", 0, match.start()):
                kept.append(EMPTY)
        match = opening.search(text, max(after, position))
    kept.append(text[position:])
    return "".join(kept)


def _inline(name: str, content: str) -> str:
    """What stays within a sentence of a formula, of code (what reads as text), and of raw text."""
    if name == "nowiki":
        return SPECIAL.sub(_escaped, content)
    if name == "code":
        return content if len(content) <= SHORT_CODE and "\n" not in content else ""
    return SPECIAL_IN_FORMULA.sub(_escaped, formula_text(content) or "")


def _escaped(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def _hole(name: str, opening: re.Match[str]) -> str:
    """A hole for a formula that cannot be read; without words beside it, it costs nothing."""
    block = 'display="block"' in opening[0]
    return HOLE if name in FORMULA_TAGS and not block else ""


def sections_json(sections: Sequence[tuple[int, int, str]]) -> str:
    """Sections as they are stored in a document's metadata: JSON, [[index, level, title], …]."""
    return json.dumps(sections, ensure_ascii=False, separators=(",", ":"))
