"""Links of wikitext: what a reader sees of them."""

from __future__ import annotations

import re

from pipelines.sources.wikitext.mediawiki_names import FILE_ENDING, HIDDEN, INTERLANGUAGE, PROJECTS

OPEN_LINK = "\x02"
"""Stands where a link was opened and perhaps is never closed."""
EXTERNAL_MARK = "\x03"
"""Stands before the label of a link to another site: a list of such links is no text."""
LONE_MARK = "\x04"
"""Stands before a list item that is one link and nothing else."""
DEEPEST = 40

EXTERNAL_LINK = re.compile(
    r"\[(?:(?:https?|ftps?|irc|news|gopher|git|svn)://|//|mailto:|news:)[^\s\[\]<>]*"
    r"[ \t\u00a0]*([^\[\]\n]*)\]",
    re.IGNORECASE,
)
LINES_OF_NAMESPACES = re.compile(
    r"^[ \t]*(?:\[\[[^\[\]|:\n]{1,40}:[^\[\]\n]*\]\][ \t]*)+$", re.MULTILINE
)
"""Lines of nothing but links into namespaces: categories and languages, whatever the wiki calls
them."""
LONE_ITEM = re.compile(r"^([*#]+[ \t]*)(?=\[\[[^\[\]\n]*\]\][ \t,;.]*$)", re.MULTILINE)
PIPE_TRICK = re.compile(r"\s*[(（][^()（）]*[)）]$")
BROKEN_TARGET = re.compile(f"{OPEN_LINK}(?:[^\n|{OPEN_LINK}]*\\|)?")
HALF_CLOSED = re.compile(rf"{OPEN_LINK}(?:[^\n|\]{OPEN_LINK}]*\|)?([^\n\[\]{OPEN_LINK}]*)\](?!\])")
"""[[target|label], of which the label stays."""
HALF_OPENED = re.compile(r"\[([^\[\]\n]*)$|(?:^|(?<=\n))([*#:; ]*)[^\[\]|{}\n]+\|([^\[\]|\n]*)$")
"""[target|label]] or, where a line begins, target|label]]."""
LONGEST_HALF = 200


def show_links(text: str, namespaces: frozenset[str] = frozenset()) -> str:
    """Replace links by the text they show; files, categories and other languages show none.

    The label of a link to another site has EXTERNAL_MARK before it, a list item that is one link
    has LONE_MARK.

    Of a link that is never closed the label stays; a file costs its line, for its caption cannot
    be told from its options.

    Args:
        text: wikitext without templates.
        namespaces: the wiki's own names of the file and category namespaces, in lower case.
    """
    hidden = HIDDEN | namespaces
    text = LONE_ITEM.sub(rf"\1{LONE_MARK}", LINES_OF_NAMESPACES.sub("", text))
    parts: list[str] = []
    stack: list[int] = []
    # Cut at the closing marks, then at the opening ones: ten times as fast as a pattern of both.
    for number, piece in enumerate(text.split("]]")):
        if number and stack:
            start = stack.pop()
            content = "".join(parts[start + 1 :])
            del parts[start:]
            # Too deep to be real: its text would be copied once a level.
            parts.append(_shown(content, hidden) if len(stack) < DEEPEST else "")
        elif number and parts:
            parts[-1] = _half_opened(parts[-1])
        before, *opened = piece.split("[[")
        parts.append(before)
        for after in opened:
            stack.append(len(parts))
            parts += (OPEN_LINK, after)
    whole = "".join(parts)
    if OPEN_LINK in whole:
        names = "|".join(re.escape(name) for name in sorted(hidden))
        broken_file = rf"{OPEN_LINK}\s{{0,5}}(?:{names})\s{{0,5}}:[^\n]*"
        whole = re.sub(broken_file, "", whole, flags=re.IGNORECASE)
        whole = BROKEN_TARGET.sub("", HALF_CLOSED.sub(r"\1", whole))
    return EXTERNAL_LINK.sub(EXTERNAL_MARK + r"\1", whole)


def _half_opened(text: str) -> str:
    """Text before closing marks that nothing opened: [target|label shows the label."""
    tail = text[-LONGEST_HALF:]
    if "|" not in tail and "[" not in tail:
        return text
    found = HALF_OPENED.search(tail)
    if found is None or (found.start() == 0 and len(text) > len(tail)):
        return text
    if found[1] is None:
        shown = found[2] + found[3]
    elif found[1].startswith(("http:", "https:", "//")):
        return text
    else:
        shown = found[1].rpartition("|")[2]
    return text[: len(text) - len(tail) + found.start()] + shown


def _shown(content: str, hidden: frozenset[str]) -> str:
    target, bar, rest = content.partition("|")
    prefix, colon, name = target.strip().partition(":")
    if colon and prefix:
        space = prefix.strip().lower().replace("_", " ")
        if space in hidden or FILE_ENDING.search(target):
            # Two line breaks in it: the closing marks are another link's.
            return content[content.index("\n") :] if "\n\n" in content else ""
        if not bar and name and prefix.islower() and INTERLANGUAGE.fullmatch(prefix):
            return ""
        if not bar and space in PROJECTS:
            return name.lstrip(":")
    if "\n" in content:
        return rest if bar and "\n" not in target else content
    if not bar:
        return target.strip().lstrip(":#") if not target.lstrip().startswith("//") else ""
    return rest.rpartition("|")[2] or PIPE_TRICK.sub("", name if colon else prefix)
