"""Quantities, powers and dates that templates show."""

from __future__ import annotations

import re

from pipelines.sources.wikitext.template_arguments import Arguments

NUMBER = re.compile(r"[+−-]?\d[\d.,\s⁄/e−+-]*")
JOINTS = {
    **{sign: sign for sign in "–-−"},
    **{
        word: f" {word} "
        for word in ("x", "×", "±", "to", "and", "or", "by", "à", "et", "a", "e", "y", "bis", "und")
    },
    "to(-)": " to ",
    "and(-)": " and ",
    "to about": " to about ",
    "*": " × ",
    "+/-": " ± ",
    "+": " + ",
}
"""What stands between two numbers of a quantity, and what it shows."""
SMALLER = {("ft", "in"), ("st", "lb"), ("lb", "oz"), ("mi", "yd"), ("yd", "ft"), ("mi", "ft")}
"""A unit and its part: {{convert|5|ft|11|in}} is one quantity."""

UNITS = {
    "C": "°C", "F": "°F", "C-change": "°C", "F-change": "°F", "sqmi": "sq mi", "sqft": "sq ft",
    "sqm": "m²", "sqkm": "km²", "sqin": "sq in", "sqyd": "sq yd", "cuft": "cu ft", "cuin": "cu in",
    "cuyd": "cu yd", "cumi": "cu mi", "acre": "acres", "mpgimp": "mpg", "mpgus": "mpg",
    "mpgUS": "mpg", "lbft": "lb⋅ft", "lb.ft": "lb⋅ft", "ftlb": "ft⋅lb", "Nm": "N⋅m", "mi/h": "mph",
    "kph": "km/h", "PD/sqmi": "per square mile", "PD/km2": "per square kilometre", "CID": "cu in",
    "fathom": "fathoms", "oilbbl": "barrels", "oilbbl/d": "barrels per day",
    "koilbbl": "thousand barrels", "koilbbl/d": "thousand barrels per day",
    "Moilbbl": "million barrels", "Moilbbl/d": "million barrels per day",
    "Goilbbl": "billion barrels", "USgal": "US gal", "usgal": "US gal", "impgal": "imp gal",
    "Tcuft": "trillion cu ft", "LT": "long tons", "ST": "short tons", "MT": "tonnes",
    "carat": "carats", "smi": "mi", "nmi": "nmi", "AU": "AU",
}  # fmt: skip
"""Codes of {{convert}} that are not what a reader sees."""
POWERED = re.compile(r"(?:[mkcd]?m|ft|in|yd|mi)[23](?:/[a-z]+)?")
MILLIONS = {"e3": "thousand ", "e6": "million ", "e9": "billion ", "e12": "trillion "}
SUPERSCRIPTS = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")

MONTH_NAMES = {
    "fr": """janvier février mars avril mai juin juillet août septembre octobre novembre
    décembre""",
    "es": """enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre
    diciembre""",
    "en": """January February March April May June July August September October November
    December""",
    "ru": """января февраля марта апреля мая июня июля августа сентября октября ноября
    декабря""",
}
MONTHS = {language: names.split() for language, names in MONTH_NAMES.items()}
DATE_PATTERNS = {"fr": "{0} {1} {2}", "es": "{0} de {1} de {2}", "ru": "{0} {1} {2}"}
NUMERIC_DATE = re.compile(r"(\d{1,2})\s(\d{1,2})\s(\d{3,4})")
LONG_NUMBER = re.compile(r"(?<![\d.,])\d{4,}(?!\d)")


def power(exponent: str) -> str:
    """Raised: 2 shows ², −3 shows ⁻³."""
    return exponent.strip().translate(SUPERSCRIPTS)


def unit_text(code: str) -> str:
    """What a reader sees of a unit's code; of several units the first."""
    code = code.strip()
    if code not in UNITS and " " in code:
        code = code.split()[0]
    if prefix := re.match(r"e(?:3|6|9|12)(?=[A-Za-z])", code):
        return MILLIONS[prefix[0]] + unit_text(code[prefix.end() :])
    if POWERED.fullmatch(code):
        return re.sub("[23]", lambda digit: power(digit[0]), code)
    return UNITS.get(code, code)


def quantity(values: Arguments) -> str:
    """Numbers with the words between them, and the first unit.

    {{convert|5|to|7|km|mi}} shows 5 to 7 km; {{convert|5|ft|11|in|m}} shows 5 ft 11 in.
    """
    shown, rest = values[0], values[1:]
    while len(rest) > 1 and rest[0] in JOINTS and NUMBER.match(rest[1]):
        shown += JOINTS[rest[0]] + rest[1]
        rest = rest[2:]
    if not rest or NUMBER.fullmatch(rest[0]):
        return shown
    shown = f"{shown} {unit_text(rest[0])}".strip()
    if len(rest) > 2 and (rest[0], rest[2]) in SMALLER and NUMBER.fullmatch(rest[1]):
        shown += f" {rest[1]} {rest[2]}"
    return shown


def french_quantity(values: Arguments) -> str:
    """{{unité|10236|km|2}} shows 10 236 km²; {{unité|8|m|s|-1}} shows 8 m⋅s⁻¹.

    Numbers are grouped by three with a blank, as French Wikipedia shows them.
    """
    units: list[str] = []
    for value in values[1:]:
        if re.fullmatch(r"[−-]?\d{1,2}", value) and units:
            units[-1] += power(value)
        elif value:
            units.append(value)
    number = LONG_NUMBER.sub(lambda digits: f"{int(digits[0]):,}".replace(",", " "), values[0])
    return f"{number} {'⋅'.join(units)}".strip()


def value_with_unit(values: Arguments) -> str:
    """{{val|6.02|e=23|u=mol}} shows 6.02×10²³ mol; {{val|de|Berlin}} shows the second.

    The latter is Latvian Wikipedia's template for a word of another language.
    """
    if values and re.fullmatch("[a-z]{2,3}", values[0]):
        return values[1] if len(values) > 1 else ""
    error = ""
    if len(values) > 1 and values[1]:
        error = values[1] if values[1].startswith("(") else f"±{values[1]}"
    shown = (values[0] if values else "") + error
    if exponent := values.get("e", "e10"):
        shown += f"×10{power(exponent)}"
    unit = values.get("u", "ul")
    return f"{shown} {unit}".strip() if shown else ""


def times_power(values: Arguments) -> str:
    """{{e|24}} shows ×10²⁴."""
    return f"×10{power(values[0])}"


def scientific(values: Arguments) -> str:
    """{{Exp|1,9|19}} shows 1,9×10¹⁹."""
    return f"{values[0]}×10{power(values[1])}" if len(values) > 1 else f"10{power(values[0])}"


def date_of(values: Arguments, language: str) -> str:
    """{{date|29|9|2019}} shows 29 septembre 2019; what has no number for a month stays."""
    plain = " ".join(value for value in values if value)
    numeric = NUMERIC_DATE.fullmatch(plain)
    if numeric is None or not 1 <= int(numeric[2]) <= 12:
        return plain
    day, month, year = int(numeric[1]), int(numeric[2]), numeric[3]
    if language not in MONTHS:
        return f"{day}.{month}.{year}"
    return DATE_PATTERNS[language].format(day, MONTHS[language][month - 1], year)


def as_of(values: Arguments) -> str:
    """{{as of|2013|6|8|lc=y}} shows as of 8 June 2013."""
    if alternative := values.get("alt"):
        return alternative
    parts = [value for value in values[:3] if value]
    if len(parts) > 1 and parts[1].isdigit() and 1 <= int(parts[1][:3]) <= 12:
        parts[1] = MONTHS["en"][int(parts[1]) - 1]
    if len(parts) == 3:
        parts[2] = parts[2].lstrip("0")
    return f"{'as' if values.get('lc') else 'As'} of {' '.join(reversed(parts))}"


def old_style_date(values: Arguments) -> str:
    """{{OldStyleDate|February 2|1905|January 20}} shows February 2 [O.S. January 20] 1905."""
    old = f"[O.S. {values[2]}]" if len(values) > 2 and values[2] else ""
    return " ".join(part for part in (values[0], old, *values[1:2]) if part)
