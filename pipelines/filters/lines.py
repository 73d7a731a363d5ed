"""The filter that takes lines out of documents: boilerplate, debris, and what a person asks for."""

from __future__ import annotations

from functools import cache

import numpy as np

from pipelines.config import LinesFilter
from pipelines.core.manifest import Counters
from pipelines.core.records import PARAGRAPH_BREAK, Document
from pipelines.core.sections import renumbered
from pipelines.filters.base import Reason
from pipelines.filters.characters import BLANK, LETTER, MARK, Integers, Mask
from pipelines.filters.quality import NO_END_PUNCTUATION, ends_sentence
from pipelines.filters.units import Units, units_of

BOILERPLATE = (
    # C4's own (Raffel et al. 2020, section 2.2), and what its code adds to them
    *("lorem ipsum", "javascript", "terms of use", "privacy policy", "cookie policy"),
    *("uses cookies", "use of cookies", "use cookies"),
    # the same notices in other languages
    *("verwendet cookies", "verwenden cookies", "utilise des cookies", "utilisons des cookies"),
    *("utiliza cookies", "utilizamos cookies", "usa cookies", "utilizza cookie", "usa i cookie"),
    *("gebruikt cookies", "gebruiken cookies", "bruger cookies", "använder cookies"),
    *("bruker cookies", "informasjonskapsler", "käyttää evästeitä", "używa plików cookie"),
    *("používá cookies", "soubory cookie", "súbory cookie", "folosește cookie", "sütiket használ"),
    *("çerezleri kullan", "çerez politikası", "использует cookie", "файлы cookie", "файли cookie"),
    *("χρησιμοποιεί cookies", "ملفات تعريف الارتباط", "עוגיות (cookies)", "sử dụng cookie"),
    *("menggunakan cookie", "使用cookie", "使用 cookie", "cookieを使用", "쿠키를 사용"),
)
"""Case-folded. A line that holds one, and is short, is taken out."""

COOKIE = "cookie"
NEWLINE = ord("\n")


@cache
def _phrases(own: tuple[str, ...], usual: bool) -> tuple[str, ...]:
    return (*(phrase.casefold() for phrase in own), *(BOILERPLATE if usual else ()))


def poor_lines_out(document: Document, config: LinesFilter, count: Counters) -> Reason | None:
    """Take lines out of the text; drop a document of which nothing is left.

    Changes the text: lines are taken out whole, paragraphs without lines vanish with their blank
    line, and the lines that stay keep every character. A text without a poor line is untouched.
    Counts `dropped_lines.WHY` and `dropped_characters.lines`. Source: C4, section 2.2, with the
    limits that the section's settings state.
    """
    text = document.text
    if not text.strip():
        return None
    wrong = _wrong_lines(config, units_of(document))
    if not wrong:
        return None
    kept: list[str] = []
    places: list[int] = []
    number = 0
    for place, paragraph in enumerate(text.split(PARAGRAPH_BREAK)):
        lines = []
        for line in paragraph.split("\n"):
            why = wrong.get(number)
            number += 1
            if why is None:
                lines.append(line)
                continue
            count[f"dropped_lines.{why}"] += 1
            count[f"dropped_lines.{why}/{document.language}"] += 1
            count[f"dropped_characters.lines/{document.language}"] += len(line)
        number += 1  # the blank line between paragraphs
        if any(line.strip() for line in lines):
            kept.append("\n".join(lines))
            places.append(place)
    if not kept:
        return Reason("no_lines_left", f"all {len(wrong)} lines are boilerplate or debris")
    document.text = PARAGRAPH_BREAK.join(kept)
    document.metadata = renumbered(document.metadata, places)
    return None


def _wrong_lines(config: LinesFilter, units: Units) -> dict[int, str]:
    """Numbers of the poor lines of text.split("\\n"), and what is wrong with each."""
    bounds = np.concatenate(([0], np.flatnonzero(units.codes == NEWLINE), [len(units.codes)]))

    def number_of(wanted: Mask) -> Integers:
        before = np.zeros(len(wanted) + 1, dtype=np.int64)
        np.cumsum(wanted, out=before[1:])
        return np.diff(before[bounds])

    filled = number_of(units.classes & BLANK == 0)
    letters = number_of(units.classes & (LETTER | MARK) != 0)
    found: dict[int, str] = {}
    checks = [("few_letters", letters / np.maximum(filled, 1) < config.min_share_of_letters)]
    if config.min_words:
        words = number_of(units.unit_starts) / units.per_word
        checks.append(("few_words", words < config.min_words))
    for why, poor in checks:
        for number in np.flatnonzero(poor & (filled > 0)).tolist():
            found.setdefault(number, why)
    folded = units.text.casefold()
    known = _phrases(tuple(config.phrases), config.boilerplate)
    cookies = COOKIE in folded  # one search in place of thirty
    phrases = [p for p in known if (cookies or COOKIE not in p) and p in folded]
    ends = config.end_punctuation and units.script not in NO_END_PUNCTUATION
    for number, line in enumerate(units.text.split("\n") if phrases or ends else ()):
        if ends and line.strip() and not ends_sentence(line.strip()):
            found.setdefault(number, "no_end_punctuation")
        if len(line) <= config.max_boilerplate_characters:
            own = line.casefold() if phrases else ""
            if any(phrase in own for phrase in phrases):
                found[number] = "boilerplate"
    return found
