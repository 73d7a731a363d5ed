"""One code system: every name of a language becomes one tag."""

from __future__ import annotations

import langcodes
import pytest

from pipelines.core.languages import normalise, script_of, unicode_scripts_of, with_script


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        *[("iw", "he"), ("in", "id"), ("mo", "ro"), ("sh", "sr-Latn"), ("pt_BR", "pt-BR")],
        # ISO 639-3 individual languages -> the macro-language that CLDR uses for them
        *[("cmn", "zh"), ("arb_Arab", "ar"), ("pes_Arab", "fa"), ("swh_Latn", "sw")],
        *[("zsm_Latn", "ms"), ("ekk", "et"), ("lvs", "lv"), ("npi", "ne"), ("ory", "or")],
        *[("als_Latn", "sq"), ("uzn_Latn", "uz"), ("azj", "az"), ("khk", "mn"), ("plt", "mg")],
        *[("quy", "qu"), ("pbt_Arab", "ps"), ("ydd_Hebr", "yi"), ("gaz", "om"), ("twi", "ak")],
        *[("nob", "nb"), ("no", "nb"), ("nor", "nb"), ("nno", "nn"), ("tgl", "fil")],
        # a script that goes without saying, and one that does not
        *[("eng_Latn", "en"), ("jpn_Jpan", "ja"), ("kor_Hang", "ko"), ("uz-Latn", "uz")],
        *[("uz-Cyrl", "uz-Cyrl"), ("sr-Latn", "sr-Latn"), ("srp_Cyrl", "sr-Cyrl")],
        *[("zho_Hans", "zh-Hans"), ("zh", "zh"), ("cmn_Hani", "zh"), ("yue_Hant", "yue")],
        *[("arb_Latn", "ar-Latn"), ("kas_Deva", "ks-Deva"), ("kas_Arab", "ks")],
        *[("azb_Arab", "azb"), ("az-Arab", "azb"), ("pnb", "pnb"), ("pa-Arab", "pnb")],
        *[("zxx", "und"), ("und", "und"), ("de-1996", "de-1996"), ("en-Latn-US", "en-US")],
    ],
)
def test_the_one_form_of_a_tag(given: str, tag: str) -> None:
    assert normalise(given) == tag
    assert normalise(tag) == tag
    assert langcodes.tag_is_valid(tag)


@pytest.mark.parametrize("given", ["", "no-such-thing-at-all", "e", "x" * 9])
def test_what_is_no_tag_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="is not a language tag"):
        normalise(given)


def test_a_script_is_said_where_it_matters() -> None:
    assert [with_script("uz", s) for s in ("Latn", "Cyrl", None)] == ["uz", "uz-Cyrl", "uz"]
    assert [with_script("sr", s) for s in ("Latn", "Cyrl")] == ["sr-Latn", "sr-Cyrl"]
    assert with_script("fa-AF", "Latn") == "fa-Latn-AF" and with_script("fa-AF", "Arab") == "fa-AF"


def test_scripts_of_tags() -> None:
    assert [script_of(tag) for tag in ("sr-Latn", "kk", "azb", "und")] == [
        *["Latn", "Cyrl", "Arab", "Zyyy"]
    ]
    assert unicode_scripts_of("ja") == ("Hani", "Hira", "Kana")
    assert unicode_scripts_of("zh-Hant") == ("Hani",) and unicode_scripts_of("und") == ()
