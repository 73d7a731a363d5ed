"""Names that MediaWiki gives to things in many languages: tables, and what is built of them.

A dump's siteinfo names a namespace once, in the wiki's language of today; articles also use the
English name and older local ones, which the dump does not list. Names are compared in lower case
with blanks for underscores. Sources: MediaWiki's namespace aliases and magic words (its manual,
Help:Magic words), and the names of templates and categories on the Wikipedias themselves.
"""

from __future__ import annotations

import re


def _names(table: str) -> frozenset[str]:
    return frozenset(name.strip() for name in table.replace("\n", " ").split(",") if name.strip())


def _choice(table: str) -> str:
    """A pattern of the names, longest first."""
    return "|".join(re.escape(name) for name in sorted(_names(table), key=lambda n: (-len(n), n)))


FILES = _names("""
afbeelding, archivo, archivu, arquivo, attēls, berkas, bestand, bild, billede, dataja, datei,
datoteka, dealbh, delwedd, dokuments, dosiero, dosya, faidhle, fail, fasciculus, fayl, ficheiro,
fichier, fichièr, fil, file, fitxategi, fitxer, fişier, fișier, fájl, gambar, grafika,
hình, imachen, image, imagem, imagen, imagine, imago, imatge, imaxe, imej, immagine, irudi,
kuva, kép, larawan, lêer, media, mynd, obrázok, picha, pilt, plaetje, plik,
resim, restr, skeudenn, slika, soubor, súbor, talaksan, tiedosto, triem, tập tin,
vaizdas, wobraz, íomhá, ôfbyld, şekil, şəkil, αρχείο, εικόνα, выява,
відэа, датотека, зображення, зураг, изображение, рәсем, слика, сурат, сурәт, сүрет,
файл, ӳкерчĕк, պատկեր, בילד, טעקע, קובץ, תמונה, تصویر, رسم, صورة, فائل, ملف, پرونده, चित्र,
संचिका, सञ्चिका, চিত্র, ਤਸਵੀਰ, ચિત્ર, படிமம், దస్త్రం, ಚಿತ್ರ, പ്രമാണം, ගොනුව, චිත්‍රය, ภาพ,
ไฟล์, ဖိုင်, სურათი, ფაილი, សំណាកឯកសារ, ファイル, 图像, 图片, 圖像, 圖片, 文件, 档案, 檔案,
画像, 그림, 파일
""")
"""Names of the File and Media namespaces."""

CATEGORIES = _names("""
bólkur, catagóir, categori, categoria, categorie, category, categorìa, categoría, categurio,
categurìa, categurîa, catigurìa, catégorie, flokkur, jamii, kaarangay, kategori, kategoria,
kategorie, kategorija, kategorio, kategoriya, kategória, kateqoriya, katiguria,
klassi, luokka, roinn-seòrsa, rummad, thể loại, turkum, κατηγορία, ангилал, гурӯҳ, категори,
категория, категорија, категорія, катэгорыя, санат, төркем, төркөм, կատեգորիա, קאטעגאריע,
קטגוריה, تصنيف, رده, زمرہ, ټولۍ, پۆل, वर्ग, वर्गः, श्रेणी, বিষয়শ্রেণী, ਸ਼੍ਰੇਣੀ, શ્રેણી,
பகுப்பு, వర్గం, ವರ್ಗ, വർഗ്ഗം, ප්‍රවර්ගය, หมวดหมู่, ໝວດ, კატეგორია, ចំណាត់ថ្នាក់ကဏ္ဍ, カテゴリ,
カテゴリー, 分类, 分類, 분류
""")
"""Names of the Category namespace."""

CATEGORY_LINK = "|".join(re.escape(name) for name in sorted(CATEGORIES))

HIDDEN = FILES | CATEGORIES
"""Links into these namespaces show no running text."""

FILE_ENDING = re.compile(
    r"\.(?:jpe?g|png|gif|svg|tiff?|ogg|oga|ogv|webm|webp|pdf|djvu|xcf|mid|wav|flac|mp3)\s*$", re.I
)
"""A target that ends so is a file, whatever its namespace is called."""

DISAMBIGUATION_TEMPLATES = """
disambig, disambiguation, disamb, dab, hndis, geodis, begriffsklärung, begriffsklearung,
homonymie, patronyme, desambigua, desambiguação, desambiguación, disambigua, desambiguació,
неоднозначност, неоднозначность, багатозначність, неадназначнасць, вишезначна, вишезначност,
višeznačna, višeznačnost, razvrstavanje, razločitev, rozcestník, rozcestnik,
rozlišovacia stránka, ujednoznacznienie, egyért, egyértelműsítő, egyértelműsítés,
dezambiguizare, anlam ayrımı, anlam ayrım, dəqiqləşdirmə, täsmennyssivu, täsmennys, förgrening,
gren, flertydig, flertydige titler, aðgreiningarsíða, fleiri týdningar, αποσαφήνιση, 曖昧さ回避,
aimai, 消歧义, 消歧義, 消歧义页, 동음이의, פירושונים, توضيح, ابهام‌زدایی, ابہام, بهزمونینه,
बहुविकल्पी, দ্ব্যর্থতা নিরসন, ਗੁੰਝਲਖੋਲ੍ਹ, பக்கவழி நெறிப்படுத்தல், అయోమయ నివృత్తి, വിവക്ഷകൾ,
แก้ความกำกวม, แก้กำกวม, định hướng, trang định hướng, disambigpage, nyahkekaburan, disambiguasi,
maana, doorverwijspagina, dp, dubbelsinnig, trochferwiizing, betsjuttingsside, apartigilo,
argipen, homónimos, homônimos, idirdhealú, gwahaniaethu, gwa, disheñvelout, soilleireachadh,
täpsustusmär, täpsustuslehekülg, nuorodinis straipsnis, nozīmju atdalīšana, мәгънәләр,
айрыкча мәгънә, көп мағыналы, айрық, күп мәғәнәлелек, олон утга, ibtidoi, ko'p ma'nolilik,
kthjellim, bisongidila, mehrdüdig begreep, diskretiva, discretiva, désambiguisation, omonimi,
omònimia, მრავალმნიშვნელოვანი, բազմիմաստություն, paglilinaw, pagklaro, pansayod, disambigui
"""
DISAMBIGUATION_CATEGORIES = """
disambiguation, begriffsklärung, homonymie, desambiguación, desambiguação, desambiguació,
неоднозначности, многозначные термины, rozcestníky, ujednoznacznienia, disambigua, 消歧义,
消歧義, 曖昧さ回避, 동음이의, anlam ayrımı, razdvojba
"""
DISAMBIGUATION_TITLES = """
disambiguation, begriffsklärung, homonymie, desambiguación, desambiguação, disambigua,
desambiguació, значения, значення, значэнні, вишезначна одредница, višeznačna odrednica,
razdvojba, rozcestník, ujednoznacznienie, egyértelműsítő lap, dezambiguizare, anlam ayrımı,
dəqiqləşdirmə, täsmennyssivu, olika betydelser, flertydig, andre betydninger, doorverwijspagina,
αποσαφήνιση, 曖昧さ回避, 消歧义, 消歧義, 동음이의, פירושונים, توضيح, ابهام‌زدایی, ضد ابہام,
बहुविकल्पी, định hướng, apartigilo, argipena, пояснение, разграничение, nyahkekaburan,
disambiguasi, แก้ความกำกวม
"""
DISAMBIGUATION = re.compile(
    r"__[^\W\d_]{0,20}DISAMBIG[^\W\d_]{0,20}__"
    # "Geo disambiguation", but not "Zie dp" and its like, which point to such a page.
    r"|\{\{\s*(?:(?:[^\W_][\w.-]{0,30}[ _]){1,3}disambig(?:uation)?|"
    + _choice(DISAMBIGUATION_TEMPLATES)
    + ")"
    r"(?:[ _-](?:page|cleanup|geo|dab)|\d)?\s*[|}]"
    rf"|\[\[\s*(?:{CATEGORY_LINK})\s*:"
    r"\s*(?:[^\[\]|]{0,30}[ _])?(?:" + _choice(DISAMBIGUATION_CATEGORIES) + r")[^\[\]]{0,30}\]\]",
    re.IGNORECASE,
)
"""A page that only tells meanings apart, by magic word, template, or category."""

DISAMBIGUATION_TITLE = re.compile(
    rf"[(（]\s*(?:{_choice(DISAMBIGUATION_TITLES)})\s*[)）]\s*$", re.IGNORECASE
)

LIST_BEGINNINGS = """
list of, lists of, index of, outline of, liste de, liste des, liste du, liste d', liste d’,
liste der, liste von, liste over, listen der, lista de, lista di, lista delle, lista dei,
lista degli, lista da, lista das, lista dos, lista över, lista krajów, lista osób, listado de,
anexo:, lijst van, список, списък, спісак, списак, seznam, zoznam, popis, spisak, daftar,
senarai, danh sách, lêer van, lys van, rhestr o, zerrenda, listo de, llista de, llista d',
κατάλογος, فهرست, قائمة, רשימת, ցանկ, სია, listă de
"""
LIST_ENDINGS = """
一覧, 列表, 목록, listesi, siyahısı, sąrašas, saraksts, loend, jegyzéke, listája, luettelo,
की सूची, তালিকা
"""
LIST_TITLE = re.compile(
    rf"^(?:{_choice(LIST_BEGINNINGS)})(?:\b|(?<=\W))|(?:{_choice(LIST_ENDINGS)})$", re.IGNORECASE
)
"""Titles of pages that are lists by their name."""

REDIRECT = re.compile(r"\s*#[^\s\[\]:*#;|{}<]{2,40}\s*:?\s*\[\[[^\[\]\n]+\]\]")
"""`#REDIRECT [[X]]` in any language (MediaWiki allows no blank after the #)."""

VARIANT_CODES = (
    r"(?:zh|sr|sh|kk|ku|iu|ike|uz|tg|gan|wuu|shi|crh|ban|tly|mni|hz|en)(?:-[a-z]{2,8}){0,3}"
)
"""Codes of MediaWiki's language variants (LanguageConverter)."""

INTERLANGUAGE = re.compile(
    r"[a-z]{2,3}(?:-[a-z]{2,10}){0,2}|simple|be-x-old|zh-min-nan|zh-classical|tokipona",
    re.IGNORECASE,
)
"""Prefix of a link to the same article in another language; articles' titles with a colon begin
with longer words."""

PROJECTS = _names("""
b, c, commons, d, m, meta, mw, n, phab, q, s, species, v, voy, w, wikibooks, wikidata, wikinews,
wikipedia, wikiquote, wikisource, wikispecies, wikiversity, wikivoyage, wikt, wiktionary, wmf
""")
"""Prefixes of links to sister projects."""

APPENDIX_TITLES = """
reference, references, references and notes, notes, notes and references, footnotes, citations,
sources, bibliography, further reading, external link, external links, see also, works cited,
related pages, other websites, einzelnachweise, weblink, weblinks, literatur, siehe auch,
belege, quellen, anmerkungen, fußnoten, externe links, références, notes et références,
bibliographie, voir aussi, lien externe, liens externes, articles connexes, annexes,
referencias, enlaces externos, véase también, bibliografía, notas, notas y referencias,
referências, ligações externas, ver também, bibliografia, note, collegamenti esterni,
altri progetti, voci correlate, riferimenti, примечания, ссылки, литература, см. также,
источники, комментарии, посилання, примітки, література, див. також, джерела, спасылкі, зноскі,
літаратура, източници, външни препратки, бележки, вижте също, референце, спољашње везе,
види још, извори, напомене, наводи, spoljašnje veze, vidi još, izvori, literatura,
vanjske poveznice, vanjske veze, poznámky, externí odkazy, odkazy, související články,
referencie, externé odkazy, pozri aj, przypisy, linki zewnętrzne, uwagi, zobacz też, jegyzetek,
források, irodalom, további információk, kapcsolódó szócikkek, külső hivatkozások, lásd még,
referințe, legături externe, vezi și, bibliografie, kaynakça, dış bağlantılar, ayrıca bakınız,
notlar, istinadlar, xarici keçidlər, həmçinin bax, mənbə, manbalar, havolalar, yana qarang,
lähteet, aiheesta muualla, katso myös, viitteet, kirjallisuutta, referenser, externa länkar,
se även, källor, litteratur, fotnoter, vidare läsning, noter, tryckta källor, webbkällor,
referencer, eksterne henvisninger, se også, kilder, fodnoter, eksterne lenker, referanser,
bronnen, zie ook, referenties, literatuur, verwysings, eksterne skakels, sien ook, bronnelys,
heimildir, tengt efni, tenglar, ytri tenglar, παραπομπές, εξωτερικοί σύνδεσμοι, βιβλιογραφία,
δείτε επίσης, πηγές, σημειώσεις, 脚注, 出典, 注釈, 参考文献, 関連項目, 外部リンク, 外部链接,
外部連結, 参考资料, 參考資料, 參考文獻, 参见, 參見, 相关条目, 相關條目, 注释, 註釋, 延伸阅读,
延伸閱讀, 참고문헌, 참고 문헌, 외부 링크, 같이 보기, 각주, 주석, 출처, מקורות, קישורים חיצוניים,
ראו גם, הערות שוליים, לקריאה נוספת, وصلات خارجية, مراجع, المراجع, مصادر, انظر أيضًا, انظر أيضا,
هوامش, منابع, پیوند به بیرون, جستارهای وابسته, پانویس, حوالہ جات, بیرونی روابط, مزید دیکھیے,
सन्दर्भ, संदर्भ, बाहरी कड़ियाँ, इन्हें भी देखें, তথ্যসূত্র, বহিঃসংযোগ, আরও দেখুন, ਹਵਾਲੇ, સંદર્ભ,
மேற்கோள்கள், வெளி இணைப்புகள், మూలాలు, బయటి లింకులు, ಉಲ್ಲೇಖಗಳು, അവലംബം, อ้างอิง, แหล่งข้อมูลอื่น,
ดูเพิ่ม, tham khảo, liên kết ngoài, xem thêm, chú thích, referensi, pranala luar, lihat pula,
rujukan, pautan luar, lihat juga, sanggunian, mga panlabas na link, marejeo, viungo vya nje,
tanbihi, referències, enllaços externs, vegeu també, ligazóns externas, véxase tamén,
erreferentziak, kanpo estekak, ikus gainera, referencoj, eksteraj ligiloj, vidu ankaŭ, fontoj,
literaturo, tagairtí, naisc sheachtracha, cyfeiriadau, dolenni allanol, gweler hefyd, atsauces,
ārējās saites, skatīt arī, literatūra, išnašos, nuorodos, šaltiniai, taip pat skaitykite,
viited, välislingid, vaata ka, kirjandus, allikad, viri, zunanje povezave, glej tudi, opombe,
sklici, referime, lidhje të jashtme, shiko edhe, burime, ծանոթագրություններ, արտաքին հղումներ,
գրականություն, տես նաև, სქოლიო, რესურსები ინტერნეტში, ლიტერატურა, дереккөздер,
сыртқы сілтемелер, әдебиет, искәрмәләр, һылтанмалар, әҙәбиәт, сылтамалар, әдәбият, эзоҳ,
пайвандҳо, эзоҳот, нотæ, æрмæг, галерея, gallery, galleria, galerie, galería, galeria, galeri
"""
APPENDIX = _names(APPENDIX_TITLES)
"""Titles of sections that hold no running text: notes, sources, links, pictures."""
