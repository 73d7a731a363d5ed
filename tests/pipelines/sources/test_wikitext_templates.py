"""Templates, formulas, tables and broken links inside sentences: the words that a reader sees."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.config import ExtractionSection
from pipelines.core.manifest import Counters
from pipelines.extract.documents import TextExtractor
from pipelines.sources.base import RawPage
from pipelines.sources.wikitext import to_article
from pipelines.sources.wikitext.formulas import formula_text
from pipelines.sources.wikitext.holes import sentences, without_holes
from pipelines.sources.wikitext.template_biography import article_of
from tests.pipelines.sources.wikitext_gold import to_paragraphs


@pytest.mark.parametrize(
    ("wikitext", "right"),
    [
        # The word is the last argument, or another one than the first
        ("Er hieß {{transl|ar|ALA|''Allāh''}}.", "Er hieß Allāh."),
        ("Name {{transliteration|zh|pinyin|Běijīng}} {{transl|ru|Mir}}.", "Name Běijīng Mir."),
        ("Schrift {{script|Arab|نص}}, Wort {{script|Goth}}", "Schrift نص, Wort Goth"),
        ("Tre classi ({{colore|maroon|9}}/{{colore|navy|80}})", "Tre classi (9/80)"),
        ("'''Berlīne''' ({{val|de|Berlin}})", "Berlīne (Berlin)"),
        ("ドイツ人{{enlink|History of X|a=on}}が増加", "ドイツ人が増加"),
        ("Das Zeichen {{linktext|三|星}} heißt", "Das Zeichen 三星 heißt"),
        ("in {{Interlanguage link|Quitzow (Ort)|de|lt=Quitzow}} geboren", "in Quitzow geboren"),
        ("la société {{Lien|langue=en|fr=A B|texte=AB}}.", "la société AB."),
        ("les (''{{langue|de|texte=Bahnen}}'') du", "les (Bahnen) du"),
        # Nothing is left of an empty italic
        ("les (''{{langue|de}}'') et '''{{x}}''' du", "les et du"),
        ("les ''<ref>n</ref>'' du", "les du"),
        # Quantities
        ("area di {{TA|892 km²}}.", "area di 892 km²."),
        ("fait {{unité|10236|km|2}} ou {{unité|8|m|s|-1}}", "fait 10 236 km² ou 8 m⋅s⁻¹"),
        (
            "{{unité|25000 km}}, {{unité|144.2|km|2}}, {{unité|950|m}}",
            "25 000 km, 144.2 km², 950 m",
        ),
        ("avec {{nombre|71|sièges}}", "avec 71 sièges"),
        ("at {{convert|525|C|F}} and {{convert|5|C-change|F-change}}", "at 525 °C and 5 °C"),
        ("between {{convert|60|and(-)|80|kg}}", "between 60 and 80 kg"),
        ("{{convert|2|x|3|x|4|m|ft}}", "2 x 3 x 4 m"),
        ("{{convert|43|mpgimp|L/100 km}}, {{convert|79|lbft|Nm|0}}", "43 mpg, 79 lb⋅ft"),
        ("{{convert|50|koilbbl/d|abbr=on}}", "50 thousand barrels per day"),
        ("{{convert|22|e6acre|ha}}, {{convert|2|km2|sqmi}}", "22 million acres, 2 km²"),
        ("At {{convert|6|ft|4|in|cm}} he", "At 6 ft 4 in he"),
        ("leží {{mnm|34|w}} a {{km|144|m}} trasy", "leží 34 m n. m. a 144 km trasy"),
        ("{{val|6.02|e=23|u=mol}}, {{val|1.5|0.1}}", "6.02×10²³ mol, 1.5±0.1"),
        ("5.98{{e|24}} kg, {{Exp|1,9|-19}} anni", "5.98×10²⁴ kg, 1,9×10⁻¹⁹ anni"),
        ("({{Höhe|115|DE-NHN}})", "(115 m ü. NHN)"),
        ("paid {{currency|13 billion|USD}} or {{currency|2|NOK}}", "paid US$13 billion or 2 NOK"),
        # Dates
        ("le {{date|29 9 2019}}, {{date|3|mai|1990}}", "le 29 septembre 2019, 3 mai 1990"),
        (
            "el {{fecha|29|9|2019}}, {{дата|1|2|1999}}",
            "el 29 de septiembre de 2019, 1 февраля 1999",
        ),
        ("la {{daton|29|9|2019}}", "la 29.9.2019"),
        (
            "work {{as of|2016|lc=y}}. {{As of|2015|6|30}}, he",
            "work as of 2016. As of 30 June 2015, he",
        ),
        ("({{OldStyleDate|May 2|1905|April 20}})", "(May 2 [O.S. April 20] 1905)"),
        ("in {{Dash year|1943|1945}} raids", "in 1943–1945 raids"),
        # Dashes, blanks and signs
        (
            "2009{{endash}}2014 a{{Em dash}}and b{{snds}}c{{spaced ndash}}d",
            "2009–2014 a—and b – c – d",
        ),
        ("A{{music|flat}} and C{{music|sharp}}, H{{eqm}}O", "A♭ and C♯, H⇌O"),
        ("{{Carbon}}<sub>n</sub>{{Hydrogen}}<sub>2n</sub>{{Oxygen|2}}", "CnH2nO2"),
        # Marked text stays
        (
            "crebbe; {{Senza fonte|in zone {{formatnum:1}} persona.}} La",
            "crebbe; in zone 1 persona. La",
        ),
        ("testo {{citazione necessaria|dedicato a [[X|Y]]|maggio 2010}}.", "testo dedicato a Y."),
        ("testo {{cn|maggio 2010}}, {{cn}} {{chiarire|spesso|quando?}}", "testo, spesso"),
        # Named arguments
        ("{{Zitat|Text=Ein Satz.|Autor=A}}", "Ein Satz."),
        ("{{quote|text=One two.|author=A}}", "One two."),
        # In the middle of a sentence
        ("However, {{vr|a}} occurs", "However, a occurs"),
        (
            "alongside {{HMS|Ajax|22|6}} and {{HMS|Exeter|68|6}}.",
            "alongside HMS Ajax and HMS Exeter.",
        ),
        ("In 1930, {{US patent|178}} was", "In 1930, U.S. Patent 178 was"),
        ("Ada ({{IPA|x}}; {{née|'''Holm'''}})", "Ada (née Holm)"),
        (
            "({{1re}} éd.) En {{XIIvet}} kantved {{84e|congrès}}",
            "(1re éd.) En XIIvet kantved 84e congrès",
        ),
        ("* {{bandiera|Francia|nome}}: [[A]], {{bandiera|Italia}} b", "Francia: A, b"),
        ("da {{Passo biblico|Rm|16,11}} si", "da Rm 16,11 si"),
        (
            "ein {{unbekannt|Wort}} hier, ({{Irgend-de|Berlin}}) dort",
            "ein Wort hier, (Berlin) dort",
        ),
        ("l'{{sconosciuto|arte}} e", "l'arte e"),
        # What is no text of the sentence shows nothing
        ("'''Berlin'''{{linfo|x}} es {{Audio|a.ogg}}, ({{x|a.ogg}}) {{ref-x|note}}.", "Berlin es."),
        ("{{Infokasten|Haus}} Text ({{y|[bɛɐ̯ˈliːn]}}) {{z|http://x.test}} {{w|[[a]]|b=c}}", "Text"),
        ("Ein {{w|Wort|b=c}}, hier.", "Ein, hier."),
        ("* {{MAR}}: [[Rabat]]", "Rabat"),
    ],
)
def test_a_template_shows_what_a_reader_sees(wikitext: str, right: str) -> None:
    assert to_paragraphs(wikitext) == [right]


def test_the_title_stands_for_its_magic_word() -> None:
    text = "'''{{PAGENAME}}''' ({{vol-vi|Đồng Hới}}) ir."
    assert to_article(text, title="Dong Hoi").paragraphs == ["Dong Hoi (Đồng Hới) ir."]
    assert to_paragraphs(text) == ["(Đồng Hới) ir."]


BIRTH = "|LuogoNascita=Roma|GiornoMeseNascita=1º maggio|AnnoNascita=1900"
DEATH = "|LuogoMorte=Pisa|GiornoMeseMorte=3 luglio|AnnoMorte=1980"


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        (
            f"|Nome=Ada|Cognome=Rossi|Sesso=F{BIRTH}{DEATH}|Attività=scrittrice|Attività2=attrice"
            "|Nazionalità=italiana",
            "Ada Rossi (Roma, 1º maggio 1900 – Pisa, 3 luglio 1980) è stata una scrittrice e "
            "attrice italiana.",
        ),
        (
            f"|Nome=Ugo|Cognome=Bo|Sesso=M{BIRTH}|LuogoMorte=|AnnoMorte=|Attività=storico"
            "|Attività2=poeta|Attività3=editore|Nazionalità=svizzero|PostNazionalità=, noto",
            "Ugo Bo (Roma, 1º maggio 1900) è uno storico, poeta ed editore svizzero, noto.",
        ),
        (
            "|Nome=Ivo|Cognome=Bo|PostCognome=, detto [[il Bo]]|Sesso=M|AnnoNascita=1130 circa"
            "|AnnoMorte=?|Attività=monaco|AttivitàAltre=e [[mistico]]|Nazionalità=franco"
            "|NazionalitàNaturalizzato=italiano",
            "Ivo Bo, detto il Bo (1130 circa – …) è stato un monaco e mistico franco naturalizzato"
            " italiano.",
        ),
        (
            f"|Titolo=Sir|Nome=Al|Cognome=Ba|PreData=in latino: B{BIRTH}|FineIncipit=fu re di X",
            "Sir Al Ba (in latino: B; Roma, 1º maggio 1900) fu re di X.",
        ),
        ("|Nome=Lu|CognomePrima=sì|Cognome=Xun|Attività=poeta|Nazionalità=cinese", None),
        ("|Nome=Ada|Cognome=Rossi|Attività=|Nazionalità=italiana", ""),
        ("|Nome=|Cognome=Rossi|Attività=poeta|Nazionalità=italiano", ""),
        ("|Nome=Ada|Attività=poetessa|Nazionalità=", ""),
    ],
)
def test_a_biography_begins_with_the_sentence_of_its_fields(fields: str, right: str | None) -> None:
    found = to_paragraphs("{{Bio\n" + fields.replace("|", "\n|") + "\n}}Nacque a [[Roma]].")
    right = "Xun Lu è un poeta cinese." if right is None else right
    assert found == [f"{right} Nacque a Roma.".strip()]


@pytest.mark.parametrize(
    ("noun", "female", "right"),
    [
        ("poeta", False, "un "),
        ("attore", False, "un "),
        ("scrittore", False, "uno "),
        ("zoologo", False, "uno "),
        ("psicologo", False, "uno "),
        ("sindaco", False, "un "),
        ("artista", True, "un'"),
        ("scrittrice", True, "una "),
    ],
)
def test_the_italian_article_fits_its_noun(noun: str, female: bool, right: str) -> None:
    assert article_of(noun, female=female) == right


@pytest.mark.parametrize(
    ("wikitext", "right", "holes"),
    [
        (
            "Eins ist da. Berlin hat {{EWZ|DE-BE}} Einwohner. Zwei ist da.",
            ["Eins ist da. Zwei ist da."],
            1,
        ),
        ("Der Ort (mit {{EWZ|x}} Einwohnern) liegt hier.", ["Der Ort liegt hier."], 0),
        ("Mit {{FLdez|DE|11}}&nbsp;km² groß.\n\nZwei.", ["Zwei."], 1),
        ("Žije zde {{Počet obyvatel}} obyvatel. Je to město.", ["Je to město."], 1),
        ("{{Metadaten Einwohnerzahl DE-BE|Berlin}} leben dort.\n\nZwei.", ["Zwei."], 1),
        ("人口は{{Population GER-BE|Berlin}}人である。市は大きい。", ["市は大きい。"], 1),
        ("Es {{#property:P1082}} sind viele. Gut.", ["Gut."], 1),
        ("mit {{Formnum|{{#expr:1+1}}}} Leuten. Gut.", ["Gut."], 1),
        ("Et {{fremd|a|b}} har lys. Gut.", ["Gut."], 1),
        ("{{EWZ|DE}}\nText.", ["Text."], 0),
        ("* {{MAR}} 322\n* [[Rabat]], gross", ["Rabat, gross"], 1),
        ("Es gilt <math>\\sum_i x_i</math> dort. Gut.", ["Gut."], 1),
        ("Es gilt:\n: <math>\\sum_i x_i</math>\nGut.", ["Es gilt:", "Gut."], 0),
        ("Es gilt\n<math>\\sum_i x_i</math>\nimmer. Gut.", ["Gut."], 1),
        ('Es gilt:\n<math display="block">\\sum_i x_i</math>\n\nGut.', ["Es gilt:", "Gut."], 0),
        ("Die Zahl <math>\\pi</math> und <math>x_1 \\le 2</math>.", ["Die Zahl π und x₁ ≤ 2."], 0),
        ("Am 3. Mai z. B. {{EWZ|x}} Leute. Gut.", ["Gut."], 1),
        ("== {{EWZ|x}} Titel ==\nText.", ["Text."], 0),
    ],
)
def test_a_sentence_with_a_hole_goes_and_is_counted(
    wikitext: str, right: list[str], holes: int
) -> None:
    article = to_article(wikitext)
    assert (article.paragraphs, article.holes) == (right, holes)


def test_sentences_that_went_are_counted_in_the_extraction() -> None:
    text = "Eins ist da. Es hat {{EWZ|x}} Leute. Es hat {{EWD|x}} Orte. Drei."
    counters: Counters = Counter()
    page = RawPage(content=text.encode(), content_kind="wikitext", url="u", offset=0)
    with TextExtractor(ExtractionSection(min_characters=1), counters) as extractor:
        assert extractor.text_of(page) == "Eins ist da. Drei."
    assert counters == {"dropped_sentences.hole": 2}


@given(st.text(alphabet="ab A.!?。\"' 1\x05()", max_size=60))
def test_sentences_joined_are_their_paragraph(paragraph: str) -> None:
    assert "".join(sentences(paragraph)) == paragraph
    kept, count = without_holes(paragraph)
    assert "\x05" not in kept and count <= paragraph.count("\x05")


@pytest.mark.parametrize(
    ("latex", "right"),
    [
        ("x^2 \\le \\pi", "x² ≤ π"),
        ("\\frac{1}{12n}", "1/(12n)"),
        ("\\tfrac{a_1}{2} + 1", "a₁/2 + 1"),
        ("\\mathbf{x}_{ij}, \\bar{v}", "xᵢⱼ, v̄"),
        ("\\sin^2(x)", "sin²(x)"),
        ("\\left\\{1, 2\\right\\}", "{1, 2}"),
        ("5\\%", "5%"),
        ("\\sqrt{2\\pi}", "√(2π)"),
        ("n = 3", "n = 3"),
        ("\\sum_i x_i", None),
        ("e^{i\\pi}", None),
        ("\\begin{matrix}a\\end{matrix}", None),
        ("x" * 130, None),
    ],
)
def test_a_short_formula_is_a_line_of_text_or_nothing(latex: str, right: str | None) -> None:
    assert formula_text(latex) == right


PROSE = "Das Tor steht am Platz und ist das bekannteste Bauwerk der Stadt. Es wurde " + "lang " * 60


@pytest.mark.parametrize(
    ("table", "kept"),
    [
        (
            '{| border="1"\n|+Titel\n|-\n| width=5 | ' + PROSE + "ja.\n||[[Datei:A.jpg|20px]]\n|}",
            True,
        ),
        ("{|\n|-\n! Kopf\n|-\n|" + PROSE + "ja.\n|}", False),
        ('{| class="wikitable"\n|' + PROSE + "ja.\n|}", False),
        ("{|\n|" + PROSE + "ja.\n|" + "1 || 2 || 3400 || 17 " * 60 + "\n|}", False),
        ("{|\n|\n" + "* [[Ort]] (1990).\n" * 40 + "|}", False),
    ],
)
def test_prose_of_a_table_for_layout_stays(table: str, kept: bool) -> None:
    found = to_paragraphs(f"Eins.\n{table}\nZwei.")
    assert found == (["Eins.", f"{PROSE}ja.", "Zwei."] if kept else ["Eins.", "Zwei."])


@pytest.mark.parametrize(
    ("wikitext", "right"),
    [
        ("([Ziel-volūda|praņciskai]] ''b'')", "(praņciskai b)"),
        ("* \nReich (1933)|Reich]] greift an", "Reich greift an"),
        ("In [[Ziel|Wort] und [[Haus]] so", "In Wort und Haus so"),
        ("In [[Ort] so", "In Ort so"),
        ("Er sagte [sic]] und [[a]]", "Er sagte sic und a"),
    ],
)
def test_a_link_with_one_mark_too_few_shows_its_label(wikitext: str, right: str) -> None:
    assert to_paragraphs(wikitext) == [right]


def test_a_sign_before_which_something_went_is_no_beginning() -> None:
    assert to_paragraphs("* {{x}}, 1995 (Ort)\n* ...und so\n* .de ist") == [
        "1995 (Ort)",
        "...und so",
        ".de ist",
    ]


def test_soft_hyphens_stay_as_they_are_in_the_source() -> None:
    assert to_paragraphs("Staats\u00adbiblio\u00adthek") == ["Staats\u00adbiblio\u00adthek"]
