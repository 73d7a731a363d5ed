"""The first sentence of a biography on Italian Wikipedia, which the template {{Bio}} writes."""

from __future__ import annotations

import re

from pipelines.sources.wikitext.template_arguments import Arguments

UNKNOWN = "…"
LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")


def biography(values: Arguments) -> str:
    """ "Nome Cognome (luogo, giorno anno – luogo, giorno anno) è stato un attività nazionalità."

    Source: the documentation of Template:Bio on it.wikipedia.

    Returns:
        Nothing when name, or what the person was, is not there: half a sentence is none.
    """
    name = _name(values)
    if not name:
        return ""
    what = values.get("fineincipit") or _what(values)
    if not what:
        return ""
    dates = _dates(values)
    joint = "" if what[0] in ",.;:" else " "
    sentence = f"{name}{f' ({dates})' if dates else ''}{joint}{what}"
    # "e" joins it to the next biography of a pair.
    whole = sentence.endswith((".", "!", "?")) or what in ("e", "ed") or values.get("punto") == "no"
    return sentence + (" " if whole else ". ")


def _name(values: Arguments) -> str:
    parts = [values.get("nome"), values.get("cognome")]
    if not parts[0]:
        return ""
    if values.get("cognomeprima"):
        parts.reverse()
    name = " ".join(part for part in (values.get("titolo"), *parts) if part)
    after = values.get("postcognome", "postcognomevirgola")
    if not after:
        return name
    comma = "," if values.get("postcognomevirgola") and not values.get("postcognome") else ""
    return f"{name}{comma}{'' if after[0] in ',;' else ' '}{after}"


def _dates(values: Arguments) -> str:
    """What stands in the brackets: birth, and a dash and death for the dead."""
    born = _place_and_time(values, "nascita")
    dead = _place_and_time(values, "morte")
    if dead or values.get("annomorte"):
        life = f"{born or UNKNOWN} – {dead or UNKNOWN}" if born or dead else ""
    else:
        life = born
    before = values.get("predata")
    return "; ".join(part for part in (before, life) if part)


def _place_and_time(values: Arguments, event: str) -> str:
    place, year = values.get(f"luogo{event}"), values.get(f"anno{event}")
    place += f" {more}" if (more := values.get(f"luogo{event}alt")) and place else ""
    time = f"{values.get(f'giornomese{event}')} {year}".strip() if _is_known(year) else ""
    return ", ".join(part for part in (place if _is_known(place) else "", time) if part)


def _is_known(value: str) -> bool:
    return bool(value) and "?" not in value


def _what(values: Arguments) -> str:
    """ "è stato un matematico e fisico francese, noto per …", or nothing."""
    activities = [
        value for key in ("attività", "attività2", "attività3") if (value := values.get(key))
    ]
    nation = values.get("nazionalità", "cittadinanza")
    if not activities or not nation:
        return ""
    female = values.get("sesso").upper() == "F"
    verb = ("è stata" if female else "è stato") if values.get("annomorte") else "è"
    others = values.get("attivitàaltre")
    if others:
        listed = ", ".join(activities) + ("" if others[0] in ",;" else " ") + others
    else:
        listed = ", ".join(activities[:-1])
        joint = " ed " if _plain(activities[-1])[:1].lower() == "e" else " e "
        listed += (joint if listed else "") + activities[-1]
    if naturalised := values.get("nazionalitànaturalizzato"):
        nation += f" naturalizzat{'a' if female else 'o'} {naturalised}"
    sentence = f"{verb} {article_of(_plain(activities[0]), female=female)}{listed} {nation}"
    after = values.get("postnazionalità")
    if not after:
        return sentence
    return sentence + ("" if after[0] in ",.;:" else " ") + after


def article_of(noun: str, *, female: bool) -> str:
    """The indefinite article before a noun, with the blank that follows it: uno, un, una, un'."""
    start = noun.lower()
    if female:
        return "un'" if start[:1] in set("aeiouàèéìòù") else "una "
    hard = re.match(r"s[^aeiouàèéìòù\W]|z|gn|p[ns]|x|y|i[aeou]", start)
    return "uno " if hard else "un "


def _plain(text: str) -> str:
    """Without the marks of a link."""
    return LINK.sub(r"\1", text).strip("'[] ")
