"""The templates that stand inside a sentence, and the text they show there.

Names and arguments are those of the templates on the Wikipedias of many languages. A template that
is not listed shows nothing, but for one in the middle of a sentence that holds one text and nothing
else: see template_inline.py. What an argument holds (links, quotes) is cleaned later.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from pipelines.sources.wikitext.template_arguments import Arguments
from pipelines.sources.wikitext.template_biography import biography
from pipelines.sources.wikitext.template_names import (
    CENTURY,
    CURRENCIES,
    ELEMENTS,
    MONTH_OF_NOTE,
    MUSIC,
    ORDINAL,
    SHIPS,
    TEXT_NAMES,
    WORDS,
)
from pipelines.sources.wikitext.template_units import (
    as_of,
    date_of,
    french_quantity,
    old_style_date,
    quantity,
    scientific,
    times_power,
    value_with_unit,
)

SAME_TEXT_FUNCTIONS = frozenset({"lc", "uc", "lcfirst", "ucfirst", "formatnum"})
TITLE_WORDS = frozenset({"PAGENAME", "FULLPAGENAME", "BASEPAGENAME", "SUBPAGENAME", "PAGENAMEE"})
LANGUAGE_TEMPLATE = re.compile(
    r"(?:langx?|язык|dil|јез|vol|limba|lfe)-[\w-]{2,12}|(?:en|de|fr|it|es|la|ru)s"
)


def template_text(content: str, title: str = "") -> str | None:
    """The text that a template shows in a sentence; most show none.

    Args:
        content: what stands between the braces.
        title: of the page, where it is known.

    Returns:
        None for a template that is not known.
    """
    head, bar, rest = content.partition("|")
    given = head.strip()
    prefix, colon, value = head.partition(":")
    if colon and prefix.strip().lower() in SAME_TEXT_FUNCTIONS:
        return value.strip()
    return _word(given, title) if not bar else _shown(given, Arguments(rest))


def _word(name: str, title: str) -> str | None:
    """What a template without arguments shows."""
    if name in TITLE_WORDS:
        return title
    if CENTURY.fullmatch(name) or ORDINAL.fullmatch(name):
        return name
    key = name.replace("_", " ").lower()
    word = WORDS.get(key)
    return ELEMENTS.get(key) if word is None else word


def _shown(name: str, values: Arguments) -> str | None:
    """What a template with arguments shows."""
    key = name.replace("_", " ").lower()
    function = TEMPLATES.get(key) or (first if LANGUAGE_TEMPLATE.fullmatch(key) else None)
    if function is not None:
        if function in SHOW_TEXT and (text := values.get(*TEXT_NAMES)):
            return text
        return function(values) if values or function in NAMED_ONLY else ""
    if key in ELEMENTS:
        return ELEMENTS[key] + "".join(values[:1])
    if key in SHIPS or ORDINAL.fullmatch(name):
        return " ".join([name, *values[:1]])
    return None


def first(values: Arguments) -> str:
    """{{nowrap|text}}."""
    return values[0] if values else ""


def second(values: Arguments) -> str:
    """{{lang|fr|mot}}."""
    return values[1] if len(values) > 1 else ""


def last(values: Arguments) -> str:
    """{{transl|ar|ALA|text}}, {{script|Arab|text}}, {{colore|navy|80}}."""
    return values[-1]


def transliterated(values: Arguments) -> str:
    """{{transl|ar|ALA|text}}: the last, but not a lone language."""
    return values[-1] if len(values) > 1 else ""


def second_or_first(values: Arguments) -> str:
    """{{нп5|target|shown}}."""
    return values[1] if len(values) > 1 and values[1] else values[0]


def together(values: Arguments) -> str:
    """{{chem|H|2|O}}."""
    return "".join(values)


def spaced(values: Arguments) -> str:
    """{{passo biblico|Rm|16,11}}."""
    return " ".join(value for value in values if value)


def upper(values: Arguments) -> str:
    """{{versaleta|xx}}."""
    return values[0].upper()


def nothing(values: Arguments) -> str:
    """A note that has arguments like a text."""
    return ""


def marked(values: Arguments) -> str:
    """Text that a note is about: {{citazione necessaria|text}}; a date of the note is no text."""
    return "" if not values or MONTH_OF_NOTE.fullmatch(values[0]) else values[0]


def flag_with_name(values: Arguments) -> str:
    """{{bandiera|Francia|nome}} shows flag and name; without the word only the flag."""
    return values[0] if "nome" in values[1:] else ""


def money(values: Arguments) -> str:
    """{{currency|13 billion|USD}} shows US$13 billion."""
    code = values[1].upper() if len(values) > 1 else "USD"
    return f"{CURRENCIES[code]}{values[0]}" if code in CURRENCIES else f"{values[0]} {code}"


def music(values: Arguments) -> str:
    """{{music|flat}} shows ♭."""
    return MUSIC.get(values[0], "")


def height(values: Arguments) -> str:
    """{{Höhe|115|DE-NHN}} shows 115 m ü. NHN."""
    return f"{values[0]} m ü. NHN" if values[1:2] == ["DE-NHN"] else f"{values[0]} m"


def range_of_years(values: Arguments) -> str:
    """{{dash year|1943|1945}}."""
    return "–".join(value for value in values[:2] if value)


def fraction(values: Arguments) -> str:
    """{{frac|1|2}} shows 1/2; {{frac|3|1|2}} shows 3 1/2; {{frac|3}} shows 1/3."""
    if len(values) == 1:
        return f"1/{values[0]}"
    return " ".join([*values[:-2], "/".join(values[-2:])])


def original(values: Arguments) -> str:
    """{{nihongo|bayonet|銃剣|jūken}} shows bayonet (銃剣, jūken)."""
    inside = ", ".join(value for value in values[1:3] if value)
    return f"{values[0]} ({inside})" if inside and values[0] else values[0] or inside


def reading(values: Arguments) -> str:
    """{{読み仮名|銃剣|じゅうけん}} shows both."""
    return f"{values[0]}（{values[1]}）" if len(values) > 1 and values[1] else values[0]


def century(values: Arguments) -> str:
    """{{s|XII}} shows XIIe siècle; {{s|XII|e}} as well."""
    if not re.fullmatch(r"[IVX]+", values[0]):
        return ""
    ending = values[1] if len(values) > 1 and values[1] else "er" if values[0] == "I" else "e"
    return f"{values[0]}{ending} siècle"


def interlanguage(values: Arguments) -> str:
    """{{ill|Title|de|Titel}} shows Title; the old order {{ill|de|Titel|Title}} shows it
    too. An argument `lt` or `texte` is shown instead."""
    if shown := values.get("lt", "texte", "text", "trad"):
        return shown
    if not values:
        return values.get("fr")
    if len(values) > 1 and re.fullmatch(r"[a-z]{2,3}", values[0]):
        return values[2] if len(values) > 2 else values[1]
    return values[0]


def framed(pattern: str) -> Callable[[Arguments], str]:
    """The first argument with words around it: {{circa|1900}} shows c. 1900."""
    return lambda values: pattern.format(*values, "", "").strip() if values[0] else ""


GROUPS: tuple[tuple[Callable[[Arguments], str], str], ...] = (
    (
        second,
        """lang; langue; wikt-lang; langx; llang; rtl-lang; språk; язык; lang2; en langue; jezik;
        dil; v jazyku; colored; fontcolor; font color; color; colour; цвет""",
    ),
    (transliterated, "transl; translit; transliteration; romanisation; transcription"),
    (last, "script; colore; kolor"),
    (
        marked,
        """citazione necessaria; senza fonte; cn; chiarire; da chiarire; non chiaro; cita richiesta;
        refnec; référence nécessaire; référence souhaitée; citation nécessaire; passage non neutre;
        quoi; carece de fontes2; нет аи 2; что?; fakt; bron?; cita requerida; citation needed span;
        cn-span; better source needed span; clarify span""",
    ),
    (nothing, "enlink"),
    (together, "linktext"),
    (flag_with_name, "bandiera"),
    (money, "currency"),
    (music, "music"),
    (as_of, "as of"),
    (height, "höhe"),
    (range_of_years, "dash year"),
    (biography, "bio"),
    (upper, "versaleta; versalita"),
    (value_with_unit, "val"),
    (french_quantity, "unité; unite; nombre"),
    (times_power, "e"),
    (scientific, "exp"),
    (old_style_date, "oldstyledate"),
    (partial(date_of, language="fr"), "date; date-; date de naissance; date de décès"),
    (partial(date_of, language="es"), "fecha"),
    (partial(date_of, language="ru"), "дата"),
    (partial(date_of, language=""), "daton; datum"),
    (
        first,
        """nowrap; nobr; nobreak; nbr; small; smaller; big; large; em; strong; abbr; abbrev;
        comment; tooltip; smallcaps; sc; sc1; caps; maiuscoletto; petites capitales; vanchor;
        nq; gray; unicode; polytonic; latin; graeca; hebrew; coptic; arabic; greek; mvar;
        math; var; vr; cas; tutto attaccato; ta; numero; num; fmtn; nb; formatnum; formnum; число;
        formatnumber; incise; unbulleted list; boxarrotondato;
        plainlist; flag; flagcountry; flagu; bandera2; drapeau2; 仮リンク; jis2004フォント; ruby;
        補助漢字フォント; lang-de-short; lang-en-short; нп; нп1; нп2; нп4; iw; iwiki;
        не переведено; не переведено 2; ألمانية; إنجليزية; فرنسية; لغة-أل; إنج; ص; لاتينية; تركية;
        روسية; اینگیلیسجه; به انگلیسی; به آلمانی; russo; tedesco; latino; inglese; francese; greco;
        arabo; cinese; ebraico; giapponese; blockquote; quote; cquote; quotation; zitat; citat;
        citação; citation bloc; цитата; link-en; link-de; link-fr; link-ja; link-ru;
        le; railgauge""",
    ),
    (second_or_first, "нп3; нп5; не переведено 3; не переведено 5"),
    (interlanguage, "ill; interlanguage link; illm; interlanguage link multi; lien; iwlink"),
    (original, "nihongo; nihongo2; nihongo3; nihongo4; korean"),
    (reading, "読み仮名; ふりがな"),
    (
        quantity,
        "convert; cvt; unit; units; unidad; conversie; conv; converter; tmp; einheit",
    ),
    (spaced, "passo biblico; bibleref; bibleverse"),
    (framed("{0} m n. m."), "mnm"),
    (framed("{0} km"), "km"),
    (framed("née {0}"), "née; nee"),
    (framed("né {0}"), "né"),
    (framed("U.S. Patent {0}"), "us patent"),
    (framed("Article {0} EPC"), "epc article"),
    (framed("Rule {0} EPC"), "epc rule"),
    (framed("⟨{0}⟩"), "angbr"),
    (together, "chem; chem2; ce; sub; sup; m"),
    (fraction, "frac; sfrac; fraction; tfrac"),
    (century, "s; s-; sp; sp-; siècle; siecle"),
    (framed("século {0}"), "séc; século"),
    (framed("segle {0}"), "segle"),
    (framed("siglo {0}"), "siglo"),
    (framed("c. {0}"), "circa; c.; ca.; ca"),
    (framed("US${0}"), "us$"),
    (framed("{0} €"), "euro"),
    (framed("{0} h {1}"), "heure"),
    (framed("« {0} »"), "citation; guil; guillemets; «"),
    (framed("„{0}“"), '"'),
)
TEMPLATES = {
    " ".join(name.split()): function for function, names in GROUPS for name in names.split(";")
}
"""By a template's name in lower case."""
SHOW_TEXT = frozenset({first, second, french_quantity, marked})
"""Functions before which a named argument with the text goes."""
NAMED_ONLY = frozenset({biography, interlanguage, value_with_unit})
"""Functions that can do without an argument that has no name."""
