"""Names of templates in many languages: what shows nothing, what is a number, what is a sign."""

from __future__ import annotations

import re

SILENT = re.compile(
    r"(?:ipa|api|afi|msapi|мфа|respell|audio|link audio|listen|pronon|prononc|pronunc|소리|lbf|cita"
    r"|cite|citace|citar|cytuj|citeer|citeș|ouvrage|article|lien web|literatur|книга|статья|isbn"
    r"|issn|oclc|doi|pmid|dnb|gnd|viaf|arxiv|coord|coor |koord|geo|sfn|harv|efn|ref|not[ae]|anchor"
    r"|ancora|anker|ancre|flag|bandi|bandera|drap|прап|флаг|lingue|clarify|when|who|which|where$"
    r"|by whom|dubious|fact$|page needed|sic$|webarchive|youtube|imdb|dmoz|commons|main|see also"
    r"|wikisource|portal|border|image|file|foto|ikona|icon|ico |color box|legend|philpapers|inpho"
    r"|ol author|planetmath|dental|zh$|clear|toc|noautoenlazada|info|нет аи|источник|уточнить|когда"
    r"|кто|حوالہ|מקור|要出典|誰|いつ|出典|來源|来源)"
    r"|.*(?:icon|needed|missing|inline|source|fuente|nécessaire|requerida|erforderlich|cat|stub)$"
    r"|/",
    re.IGNORECASE,
)
"""Notes, sources, sounds, flags and places on the map, by the beginning or end of the name."""

DATA = re.compile(
    r"(?:ewz|ewd|ewr|fl|fldez|fläche)(?: |-|$)|metadaten|wikidata|wd$|#property|#statements|#expr"
    r"|#time|#invoke|statisti|počet obyvatel|population|populacja|populație|populace|poblaci|popola"
    r"|einwohner|inflation(?!-)|age(?: |$)|currentyear|currentmonth|currentday|localyear|localmonth"
    r"|numberof|number of|progetto:|pop density|nr inwoners|inwoners|folkemengde|befolkning|fakta"
    r"|население|насел|кількість|численность|人口|人口数",
    re.IGNORECASE,
)
"""What shows a number that is kept elsewhere: on Wikidata, in other templates, in the clock."""

TEXT_NAMES = ("texte", "text", "texto", "testo", "tekst", "lt", "текст", "quote", "cita", "zitat")
"""Named arguments that hold what is shown."""

SHIP_PREFIXES = """
hms hmas hmcs hmnzs hmis uss usns uscgc ss mv ms mt rms rv sms ins orp
"""
SHIPS = frozenset(SHIP_PREFIXES.split())
"""Prefixes of ships' names, which are names of templates: {{HMS|Ajax|22}} shows HMS Ajax."""

MUSIC = {"flat": "♭", "sharp": "♯", "natural": "♮", "b": "♭", "#": "♯", "♭": "♭", "♯": "♯"}

CURRENCIES = {"USD": "US$", "EUR": "€", "GBP": "£", "JPY": "¥", "KRW": "₩", "INR": "₹", "AUD": "A$"}

SYMBOLS = """
hydrogen:H helium:He lithium:Li beryllium:Be boron:B carbon:C nitrogen:N oxygen:O fluorine:F neon:Ne
sodium:Na magnesium:Mg aluminium:Al silicon:Si phosphorus:P sulfur:S sulphur:S chlorine:Cl argon:Ar
potassium:K calcium:Ca titanium:Ti chromium:Cr manganese:Mn iron:Fe cobalt:Co nickel:Ni copper:Cu
zinc:Zn arsenic:As bromine:Br silver:Ag tin:Sn iodine:I xenon:Xe gold:Au lead:Pb uranium:U
"""
ELEMENTS = dict(pair.split(":") for pair in SYMBOLS.split())
"""Symbols of elements by the names of their templates."""

SIGNS = {
    "–": "ndash; endash; en dash; n-dash; dash; –; halbgeviertstrich; tiret",
    " – ": "spaced ndash; spaced en dash; snd; snds; sndash; spndash; spnd; spen; spaced endash",
    "—": "mdash; emdash; em dash; m-dash; mdashb; —; geviertstrich; тире",
    " — ": "spaced mdash; spaced em dash; smd; smdash; spaced emdash; spmd; spem",
    " ": """nbsp; spaces; space; esd; thinsp; thin space; hair space; hairsp; nnbsp; emsp; ensp;
    figure space; spc; thsp; espace; espacio; пробел; nbs""",
    "'": "'; apostrophe; apos; '-",
    '"': '-"; "-',
    " · ": "·; dot; middot; interpunct; dot operator",
}
WORDS = {
    name.strip(): sign for sign, names in SIGNS.items() for name in names.split(";")
} | {
    "•": " • ",
    "bull": " • ",
    "'s": "'s",
    "' \"": "' \"",
    ",": ", ",
    "ier": "Ier",
    "er": "er",
    "e": "e",
    "okina": "ʻ",
    "ayin": "ʿ",
    "hamza": "ʾ",
    "=": "=",
    "m s.l.m.": "m s.l.m.",
    "tex": "TeX",
    "latex": "LaTeX",
    "eqm": "⇌",
    "euro": "€",
    "times": "×",
    "deg": "°",
    "°": "°",
}  # fmt: skip
"""Templates without arguments that are a sign or a word."""
ORDINAL = re.compile(r"(?:\d{1,4}|[IVXLC]{1,7})(?:e|er|re|ère|ème|d|nd|de|st|th|rd|vet|ved|º|ª)")
"""{{1re}}, {{84e|congrès}}, {{XIIvet}}: the name is what is shown."""
CENTURY = re.compile(r"[IVX]+(?:e|er) siècle(?: av\. J\.-C\.)?")
MONTH_OF_NOTE = re.compile(r"[^\W\d_]+ \d{4}|\d{1,2} [^\W\d_]+ \d{4}")
"""When a note was set: {{cn|maggio 2010}}."""
