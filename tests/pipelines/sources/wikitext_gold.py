# ruff: noqa: E501 (articles have long lines)
"""Short articles written for these tests in the style of Wikipedia, and what a reader sees of them.

(language, wikitext, running text): paragraphs and list items, without titles, notes, boxes,
captions and lists of links. The facts in them are made up.
"""

from __future__ import annotations

from pipelines.sources.wikitext import to_article


def to_paragraphs(wikitext: str, namespaces: frozenset[str] = frozenset()) -> list[str]:
    return to_article(wikitext, namespaces).paragraphs


GOLD: tuple[tuple[str, str, str], ...] = (
    (
        "en",
        """{{Short description|River in Elsewhere}}
{{Infobox river
| name = Tavel
| image = {{photomontage|photo1a=Tavel.jpg}}
| length = {{convert|212|km|mi|abbr=on}}
}}
The '''Tavel''' ({{lang-fr|Tavelle}}; {{IPA|/ˈtævəl/}}) is a [[river]] in [[Elsewhere (province)|Elsewhere]].<ref name="a/b">{{cite web|url=https://x.test|title=Tavel}}</ref> It is {{convert|212|km|mi}} long and flows past [[Norburg]], where it meets the [[Osk]].<ref>See [[Atlas]], p.&nbsp;4.</ref>{{citation needed|date=May 2020}}

[[File:Tavel.jpg|thumb|upright=1.2|The Tavel near [[Norburg]] in {{circa|1900}}]]
== Course ==
Its source lies at 900&nbsp;m, in the ''Grey Hills''. <!-- check {{this -->From there it runs north&nbsp;– through five lakes.

{| class="wikitable"
! Lake !! Area
|-
| Upper || 12 km<sup>2</sup>
|}
=== Tributaries ===
The largest are:
* the [[Osk]], with an area of 310 km<sup>2</sup>;
* the Little Tavel.

== See also ==
* [[List of rivers of Elsewhere]]

== References ==
{{reflist}}
[[Category:Rivers]]
[[de:Tavel]]
""",
        """The Tavel (Tavelle) is a river in Elsewhere. It is 212 km long and flows past Norburg, where it
meets the Osk. Its source lies at 900 m, in the Grey Hills. From there it runs north – through five
lakes. The largest are: the Osk, with an area of 310 km²; the Little Tavel.""",
    ),
    (
        "de",
        """{{Begriffsklärungshinweis}}
{{Infobox Gemeinde|Art=Markt|Höhe=412|Wappen={{Wappen|x}}}}
'''Oberwies''' ({{enS|Upper Meadow}}) ist ein [[Markt (Ort)|Markt]] im [[Landkreis Halden]].<ref>''Blatt'', 3.&nbsp;Mai 1998.</ref>

[[Datei:Oberwies.jpg|mini|hochkant|Blick auf den Ort {{nowrap|um 1900}}]]
== Geschichte ==
Der Ort wurde 1178 als ''„Wisa“'' erwähnt; das ''Wies''{{'}}sche Tor stand bis 1803.<ref name="x" /> Um {{nowrap|1500 Menschen}} lebten damals hier.
__NOTOC__
== Söhne und Töchter ==
* [[Anna Holm]] (1901–1980), Malerin
* Karl Weiß (* 1944), Geiger

== Weblinks ==
* [https://oberwies.test Offizielle Seite]

== Einzelnachweise ==
<references />

[[Kategorie:Ort]]
""",
        """Oberwies (Upper Meadow) ist ein Markt im Landkreis Halden. Der Ort wurde 1178 als „Wisa“
erwähnt; das Wies'sche Tor stand bis 1803. Um 1500 Menschen lebten damals hier. Anna Holm
(1901–1980), Malerin Karl Weiß (* 1944), Geiger""",
    ),
    (
        "fr",
        """{{Infobox Commune|nom=Valtour}}
'''Valtour''' est une [[commune]] de {{unité|3797|habitants}}, citée dès le {{s|XII}}. L'{{lang|la|''Vallis turris''}} des moines a donné son nom à l'[[église]].<ref>{{Ouvrage|titre=X}}</ref>

[[Fichier:Valtour.jpg|vignette|gauche|L'église en {{date|3|mai|1920}}]]
== Histoire ==
Le {{date|12|mai|1843}}, un incendie {{incise|parti du [[moulin]]}} détruit la ville ; {{nobr|86 maisons}} brûlent.

<gallery>
A.jpg|Le moulin
</gallery>
== Notes et références ==
{{Références}}
{{Portail|France}}
[[Catégorie:Commune]]
""",
        """Valtour est une commune de 3 797 habitants, citée dès le XIIe siècle. L'Vallis turris des moines
a donné son nom à l'église. Le 12 mai 1843, un incendie parti du moulin détruit la ville ; 86 maisons
brûlent.""",
    ),
    (
        "ru",
        """{{Река|название=Тавель|длина=212}}
'''Таве́ль''' ({{lang-fr|Tavelle}}) — [[река]] в [[Край|крае]] Эльс{{нет АИ|1|1|2020}}. Длина — 212&nbsp;[[километр|км]], площадь бассейна 3100&nbsp;км².
[[Файл:Tavel.jpg|мини|справа|Тавель у [[Норбург]]а]]
== Течение ==
Исток лежит в {{нп5|Серые холмы|Серых холмах|en|Grey Hills}}<ref group="К">См. [[Атлас]].</ref> . Далее река течёт на север.

{| class="standard"
| a || b
|}
== Примечания ==
{{примечания}}
[[Категория:Реки]]
""",
        """Таве́ль (Tavelle) — река в крае Эльс. Длина — 212 км, площадь бассейна 3100 км². Исток лежит в
Серых холмах. Далее река течёт на север.""",
    ),
    (
        "zh",
        """{{Infobox river|name=塔河}}
'''塔河'''（{{lang-en|Tavel}}，{{IPA|x}}）是-{zh-hans:一条;zh-hant:一條}-[[河流|大河]]，全长212公里。<ref>《地图》</ref>它流经{{link-en|諾堡|Norburg}}，注入[[海]]。

[[檔案:Tavel.jpg|縮圖|塔河]]
== 地理 ==
河水清澈。-{H|zh-cn:a;zh-tw:b}-河上有桥五座。
== 参考资料 ==
{{reflist}}
[[Category:河流]]
""",
        "塔河（Tavel）是一条大河，全长212公里。它流经諾堡，注入海。\n河水清澈。河上有桥五座。",
    ),
)
