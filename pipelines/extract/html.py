"""HTML to text: the main content by resiliparse, or by trafilatura, within limits.

Pages that can hurt are known before they are parsed: too many bytes, elements nested too deep.
Whatever else could take long (a tag of a hundred thousand attributes takes lexbor 23 seconds)
needs a long page, so long pages go through a child process that can be stopped.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, NamedTuple

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

VOID = "area base br col embed hr img input link meta param source track wbr basefont frame keygen"
CLOSED_BY_OTHERS = (
    "html head body p li dt dd option optgroup rb rt rp tr td th thead tbody tfoot colgroup"
)
NOT_NESTED = frozenset(f"{VOID} {CLOSED_BY_OTHERS}".split(" "))
"""Elements without an end, and those that the next of their kind or their parent's end closes."""
TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
LONE_CHARACTER = re.compile(r">(\s*[\u0800-\uffff])(?=\s*<)")
SHALLOW_LISTS = "body > ul, body > * > ul, body > * > * > ul"
PROSE_ITEM_CHARACTERS = 25
"""Characters of a list's item, on average, from which on it is longer than a menu's."""
GUARD = "\ufdd0"
"""A noncharacter: it stands in no text (Unicode 23.7)."""


class HtmlText(NamedTuple):
    """What was taken out of a page. Plain JSON, for a child process hands it over."""

    text: str
    """Paragraphs separated by at least one blank line."""
    title: str | None
    robots: str | None
    """Contents of the page's `<meta name="robots">`, joined by a comma."""


def nests_deeper(markup: str, limit: int) -> bool:
    """Whether elements are nested deeper than `limit`, by one scan over the tags.

    An element that is never closed counts until the end, as it does for a parser.
    """
    if markup.count("<") <= limit:
        return False
    depth = 0
    for closing, name in TAG.findall(markup):
        if name.lower() in NOT_NESTED:
            continue
        depth += -1 if closing and depth else not closing
        if depth > limit:
            return True
    return False


def resiliparse_text(markup: str, main_content: bool) -> HtmlText:
    """Extract with resiliparse: lists and tables stay in, a cell apart from the next by a tab.

    Main content, by resiliparse's rules, has no navigation, side bars, headers, footers, forms.
    """
    guarded = False
    if main_content and not markup.isascii() and GUARD not in markup:
        # resiliparse 2.0 leaves out a text node of one character of three UTF-8 bytes (a Chinese
        # word in bold): made longer by a character that is taken out again.
        markup, count = LONE_CHARACTER.subn(rf">\1{GUARD}", markup)
        guarded = count > 0
    tree = HTMLTree.parse(markup)
    if main_content and "<ul" in markup:
        keep_lists_of_prose(tree)
    text = extract_plain_text(
        tree, main_content=main_content, alt_texts=False, list_bullets=False, noscript=False
    )
    title = tree.title or None
    if guarded:
        text, title = text.replace(GUARD, ""), title and title.replace(GUARD, "")
    return HtmlText(text, title, _robots(tree, markup))


def keep_lists_of_prose(tree: HTMLTree) -> None:
    """Move bulleted lists that are text out of the depth where resiliparse takes them for menus.

    Its main content leaves out every `ul` with fewer than three elements between it and `body`.
    Such a list is text when most of its characters are outside links and its items are longer than
    a menu's, or when it stands in `main` or `article`; then it gets three `div` around it. Lists
    inside `nav` and the like go all the same.
    """
    if tree.body is None:
        return
    found: Any
    for found in tree.body.query_selector_all(SHALLOW_LISTS):
        if not _is_prose(found):
            continue
        boxes: list[Any] = [tree.create_element("div") for _ in range(3)]
        found.parent.replace_child(boxes[0], found)
        for outer, inner in pairwise([*boxes, found]):
            outer.append_child(inner)


def _is_prose(found: Any) -> bool:
    ancestor = found.parent
    while ancestor is not None and ancestor.tag != "body":
        if ancestor.tag in ("main", "article"):
            return True
        ancestor = ancestor.parent
    characters = len(found.text.strip())
    linked = sum(len(link.text) for link in found.get_elements_by_tag_name("a"))
    items = len(found.get_elements_by_tag_name("li"))
    mean = characters / max(items, 1)
    return bool(mean >= PROSE_ITEM_CHARACTERS and 2 * linked < characters)


def trafilatura_text(markup: str, main_content: bool) -> HtmlText:
    """Extract with trafilatura (its fallbacks on, comments off, tables in).

    Args:
        main_content: False takes all text of the page, by trafilatura's `html2txt`.
    """
    import trafilatura  # an option, and slow to load

    if main_content:
        lines = trafilatura.extract(
            markup, output_format="txt", include_comments=False, include_tables=True
        )
    else:
        lines = trafilatura.html2txt(markup)
    # It writes one paragraph a line.
    tree = HTMLTree.parse(markup)
    return HtmlText(
        "\n\n".join((lines or "").splitlines()), tree.title or None, _robots(tree, markup)
    )


EXTRACTORS = {"resiliparse": resiliparse_text, "trafilatura": trafilatura_text}


def _robots(tree: HTMLTree, markup: str) -> str | None:
    if tree.document is None or not ("obots" in markup or "OBOTS" in markup):
        return None
    found = [
        (element.getattr("content") or "").strip()
        for element in tree.document.get_elements_by_tag_name("meta")
        if (element.getattr("name") or "").strip().lower() == "robots"
    ]
    return ", ".join(value for value in found if value) or None


def paragraphs_of(text: str) -> list[str]:
    """Paragraphs of an extracted text (blank lines part them); lines and cells lose margins."""
    if "\t" in text:
        text = "\n".join(map(_cells, text.split("\n")))
    elif "\n " in text or " \n" in text:
        text = "\n".join(line.strip(" ") for line in text.split("\n"))
    return [part for part in map(str.strip, text.split("\n\n")) if part]


def _cells(line: str) -> str:
    """A line with one tab between cells; empty cells leave nothing."""
    return "\t".join(cell for part in line.split("\t") if (cell := part.strip(" ")))
