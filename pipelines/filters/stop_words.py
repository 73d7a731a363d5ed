"""The filter on stop words: running text has its language's small words."""

from __future__ import annotations

from functools import cache

import regex
import stopwordsiso

from pipelines.config import StopWordsFilter
from pipelines.core.languages import script_of, unicode_scripts_of
from pipelines.core.manifest import Counters
from pipelines.core.records import Document
from pipelines.filters.base import Reason, below
from pipelines.filters.units import UNITS_PER_WORD, units_of

GOPHER_ENGLISH = frozenset({"the", "be", "to", "of", "and", "that", "have", "with"})
"""Rae et al. 2021, section A1.1."""

SAME_LIST = {"nb": "no", "nn": "no", "fil": "tl", "ckb": "ku", "kmr": "ku"}
"""Languages that the package lists under another code."""

LEAST_WORDS = 8
"""A list with fewer words in the language's own script is no list."""


@cache
def stop_words_of(language: str) -> frozenset[str]:
    """The stop words of a language, case-folded, in the language's own script; often empty.

    Digits, punctuation and, outside ideographic scripts, single letters are left out: they stand
    in any text. Source: stopwords-iso (MIT) as packaged by stopwordsiso; English: Gopher.
    """
    code = language.split("-")[0]
    if code == "en":
        return GOPHER_ENGLISH
    code = SAME_LIST.get(code, code)
    scripts = unicode_scripts_of(language)
    if not scripts or not stopwordsiso.has_lang(code):
        return frozenset()
    own = "".join(rf"\p{{sc={script}}}" for script in (*scripts, "Zinh"))
    least = 1 if script_of(language) in ("Hans", "Hant", "Jpan") else 2
    shape = regex.compile(rf"[{own}'’\u200c\u200d]{{{least},}}", flags=regex.V1)
    found = {word.casefold() for word in stopwordsiso.stopwords(code) if shape.fullmatch(word)}
    return frozenset(found) if len(found) >= LEAST_WORDS else frozenset()


@cache
def _folded(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word.casefold() for word in words)


def too_few_stop_words(
    document: Document, config: StopWordsFilter, count: Counters
) -> Reason | None:
    """Drop a document with fewer than `min_distinct` different stop words of its language.

    Case is ignored in the comparison. In scripts without blanks a stop word may stand anywhere in
    the text. A language without a list passes and is counted. Source: Gopher, A1.
    """
    known = _folded(tuple(config.words)) or stop_words_of(document.language)
    if not known:
        count[f"passed.no_stop_words/{document.language}"] += 1
        return None
    wanted, found = min(config.min_distinct, len(known)), set()
    if script_of(document.language) in UNITS_PER_WORD:
        text = document.text.casefold()
        candidates = (word for word in known if word in text)
    else:
        folded = (word.casefold() for word in units_of(document).words)
        candidates = (word for word in folded if word in known)
    for word in candidates:
        found.add(word)
        if len(found) >= wanted:
            return None
    return below("few_stop_words", "different stop words", len(found), wanted)
