"""The templates that stand inside a sentence, and the text they show there.

Names and arguments are those of the templates on the Wikipedias of many languages; a template that
is not listed shows nothing. What an argument holds (links, quotes) is cleaned later.
"""

from __future__ import annotations

import re
from collections.abc import Callable

NAMED = re.compile(r"\s*([^\W_][\w -]{0,39}?)\s*=(?!=)")
NUMBER = re.compile(r"[+−-]?\d[\d.,  ]*")
JOINTS = {
    "–",
    "-",
    "−",
    "x",
    "×",
    "±",
    "to",
    "and",
    "or",
    "by",
    "à",
    "et",
    "a",
    "e",
    "y",
    "bis",
    "und",
}
"""What stands between two numbers of a quantity."""
SAME_TEXT_FUNCTIONS = frozenset({"lc", "uc", "lcfirst", "ucfirst", "formatnum"})
LANGUAGE_TEMPLATE = re.compile(
    r"(?:langx?|язык|dil|јез|vol|limba|lfe)-[\w-]{2,12}|(?:en|de|fr|it|es|la|ru)s"
)
CENTURY = re.compile(r"[IVX]+(?:e|er) siècle(?: av\. J\.-C\.)?")


def template_text(content: str) -> str:
    """The text that a template shows in a sentence; most show none.

    Args:
        content: what stands between the braces.
    """
    head, bar, rest = content.partition("|")
    name = head.strip().replace("_", " ").lower()
    prefix, colon, value = head.partition(":")
    if colon and prefix.strip().lower() in SAME_TEXT_FUNCTIONS:
        return value.strip()
    if not bar:
        word = WORDS.get(name)
        if word is None and CENTURY.fullmatch(head.strip()):
            return head.strip()
        return word or ""
    function = TEMPLATES.get(name) or (first if LANGUAGE_TEMPLATE.fullmatch(name) else None)
    if function is None:
        return ""
    values = arguments(rest)
    return function(values) if values else ""


def arguments(content: str) -> list[str]:
    """Arguments without a name, in order; `1=` and its like count as such."""
    values: list[str] = []
    for part in _split(content):
        named = NAMED.match(part)
        if named is None:
            values.append(part.strip())
        elif named[1].isdigit() and int(named[1][:9]) == len(values) + 1:
            values.append(part[named.end() :].strip())
    return values


def _split(content: str) -> list[str]:
    """Split at the bars that stand outside of links."""
    if "[[" not in content:
        return content.split("|")
    pieces: list[str] = []
    current: list[str] = []
    depth = 0
    for token in re.split(r"(\[\[|\]\]|\|)", content):
        depth += (token == "[[") - (token == "]]" and depth > 0)
        if token == "|" and depth == 0:
            pieces.append("".join(current))
            current = []
        else:
            current.append(token)
    return [*pieces, "".join(current)]


def first(values: list[str]) -> str:
    """{{nowrap|text}}."""
    return values[0]


def second(values: list[str]) -> str:
    """{{lang|fr|mot}}."""
    return values[1] if len(values) > 1 else ""


def second_or_first(values: list[str]) -> str:
    """{{нп5|target|shown}}."""
    return values[1] if len(values) > 1 and values[1] else values[0]


def together(values: list[str]) -> str:
    """{{chem|H|2|O}}."""
    return "".join(values)


def spaced(values: list[str]) -> str:
    """{{date|1|mai|2020}}."""
    return " ".join(value for value in values if value)


def quantity(values: list[str]) -> str:
    """The number, a second one with its word, and the first unit: {{convert|5|to|7|km|mi}}."""
    shown, rest = values[0], values[1:]
    if len(rest) > 1 and rest[0] in JOINTS and NUMBER.match(rest[1]):
        shown += (rest[0] if rest[0] in "–-−" else f" {rest[0]} ") + rest[1]
        rest = rest[2:]
    unit = rest[0] if rest and not NUMBER.fullmatch(rest[0]) else ""
    return f"{shown} {unit}".strip()


def fraction(values: list[str]) -> str:
    """{{frac|1|2}} shows 1/2; {{frac|3|1|2}} shows 3 1/2; {{frac|3}} shows 1/3."""
    if len(values) == 1:
        return f"1/{values[0]}"
    return " ".join([*values[:-2], "/".join(values[-2:])])


def original(values: list[str]) -> str:
    """{{nihongo|bayonet|銃剣|jūken}} shows bayonet (銃剣, jūken)."""
    inside = ", ".join(value for value in values[1:3] if value)
    return f"{values[0]} ({inside})" if inside and values[0] else values[0] or inside


def reading(values: list[str]) -> str:
    """{{読み仮名|銃剣|じゅうけん}} shows both."""
    return f"{values[0]}（{values[1]}）" if len(values) > 1 and values[1] else values[0]


def century(values: list[str]) -> str:
    """{{s|XII}} shows XIIe siècle; {{s|XII|e}} as well."""
    if not re.fullmatch(r"[IVX]+", values[0]):
        return ""
    ending = values[1] if len(values) > 1 and values[1] else "er" if values[0] == "I" else "e"
    return f"{values[0]}{ending} siècle"


def interlanguage(values: list[str]) -> str:
    """{{ill|Title|de|Titel}} shows Title; the old order {{ill|de|Titel|Title}} shows it too."""
    if len(values) > 1 and re.fullmatch(r"[a-z]{2,3}", values[0]):
        return values[2] if len(values) > 2 else values[1]
    return values[0]


def framed(pattern: str) -> Callable[[list[str]], str]:
    """The first argument with words around it: {{circa|1900}} shows c. 1900."""
    return lambda values: pattern.format(*values, "", "").strip()


GROUPS: tuple[tuple[Callable[[list[str]], str], str], ...] = (
    (
        second,
        """lang; langue; wikt-lang; langx; llang; rtl-lang; transl; translit; transliteration;
        språk; язык; lang2; en langue; jezik; dil""",
    ),
    (
        first,
        """nowrap; nobr; nobreak; nbr; small; smaller; big; large; em; strong; abbr; abbrev;
        comment; tooltip; smallcaps; sc; sc1; caps; maiuscoletto; petites capitales; linktext;
        nq; gray; unicode; polytonic; script; latin; graeca; hebrew; coptic; arabic; greek; mvar;
        math; var; angbr; tutto attaccato; numero; nombre; num; fmtn; nb; formatnum; val; число;
        formatnumber; incise; citation needed span; cn-span; cita richiesta; unbulleted list;
        plainlist; flag; flagcountry; flagu; bandera2; drapeau2; 仮リンク; jis2004フォント; ruby;
        補助漢字フォント; lang-de-short; lang-en-short; enlink; нп; нп1; нп2; нп4; iw; iwiki;
        не переведено; не переведено 2; ألمانية; إنجليزية; فرنسية; لغة-أل; إنج; ص; لاتينية; تركية;
        روسية; اینگیلیسجه; به انگلیسی; به آلمانی; russo; tedesco; latino; inglese; francese; greco;
        arabo; cinese; ebraico; giapponese; blockquote; quote; cquote; quotation; zitat; citat;
        citação; citation bloc; цитата; link-en; link-de; link-fr; link-ja; link-ru;
        le; railgauge""",
    ),
    (second_or_first, "нп3; нп5; не переведено 3; не переведено 5"),
    (interlanguage, "ill; interlanguage link; illm; interlanguage link multi; lien; iwlink"),
    (original, "nihongo; nihongo2; nihongo3; korean"),
    (reading, "読み仮名; ふりがな"),
    (
        quantity,
        """convert; cvt; unité; unit; units; unidad; conversie; conv; converter; unite; tmp;
        einheit; mnm""",
    ),
    (
        spaced,
        "date; date-; date de naissance; date de décès; daton; дата; datum; fecha; oldstyledate",
    ),
    (together, "chem; chem2; ce; sub; sup; m"),
    (fraction, "frac; sfrac; fraction; tfrac"),
    (century, "s; s-; sp; sp-; siècle; siecle"),
    (framed("século {0}"), "séc; século"),
    (framed("segle {0}"), "segle"),
    (framed("siglo {0}"), "siglo"),
    (framed("c. {0}"), "circa; c.; ca.; ca"),
    (framed("As of {0}"), "as of"),
    (framed("US${0}"), "us$"),
    (framed("{0} €"), "euro"),
    (framed("{0} t.a."), "ta"),
    (framed("USS {0}"), "uss"),
    (framed("{0} h {1}"), "heure"),
    (framed("« {0} »"), "citation; guil; guillemets; «"),
    (framed("„{0}“"), '"'),
    (framed("×10^{0}"), "e"),
)
TEMPLATES = {
    " ".join(name.split()): function for function, names in GROUPS for name in names.split(";")
}
"""By a template's name in lower case."""

WORDS = {
    "ndash": "–",
    "spaced ndash": " – ",
    "snd": " – ",
    "mdash": "—",
    "mdashb": "—",
    "spaced mdash": " — ",
    "nbsp": " ",
    "spaces": " ",
    "space": " ",
    "·": " · ",
    "•": " • ",
    "'": "'",
    "'s": "'s",
    "' \"": "' \"",
    '-"': '"',
    ",": ", ",
    "ier": "Ier",
    "er": "er",
    "e": "e",
    "okina": "ʻ",
    "ayin": "ʿ",
    "hamza": "ʾ",
    "esd": " ",
    "=": "=",
    "m s.l.m.": "m s.l.m.",
    "tex": "TeX",
    "latex": "LaTeX",
}
"""Templates without arguments that are a sign or a word."""
