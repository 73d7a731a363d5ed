"""Labels of all identifiers and data sets meet in the same tags; the text decides the script."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from pipelines.core.languages import normalise
from pipelines.identify_language.labels import (
    _han_tables,
    han_variant,
    parse_label,
    tag_of,
    tags_of,
)

SIMPLIFIED = "汉字简化后，学习更容易。"
TRADITIONAL = "漢字簡化後，學習更容易。"


def tag(label: str, text: str) -> str:
    return tag_of(parse_label(label), text)


@pytest.mark.parametrize(
    ("label", "language", "script"),
    [
        ("__label__eng_Latn", "en", "Latn"),
        ("__label__en", "en", None),
        ("cmn_Hani", "zh", None),
        ("zho_Hant", "zh", "Hant"),
        ("kor_Hang", "ko", "Kore"),
        ("azb_Arab", "azb", "Arab"),
        ("prs_Arab", "fa-AF", "Arab"),
        ("srp", "sr", None),
    ],
)
def test_labels_are_taken_apart(label: str, language: str, script: str | None) -> None:
    assert parse_label(label) == (language, script)


@pytest.mark.parametrize("label", ["cmn_Hani", "zho_Hans", "zho_Hant", "zh", "__label__zh"])
def test_chinese_is_in_the_script_of_the_text(label: str) -> None:
    assert tag(label, SIMPLIFIED) == "zh-Hans"
    assert tag(label, TRADITIONAL) == "zh-Hant"


def test_where_the_text_does_not_decide_the_label_does() -> None:
    both = "一二三人大小中"
    assert han_variant(both) is None and han_variant("") is None
    assert [tag(label, both) for label in ("zho_Hant", "zho_Hans", "cmn_Hani")] == [
        *["zh-Hant", "zh-Hans", "zh-Hans"]
    ]
    assert [tag(label, "123") for label in ("kaz_Arab", "kaz_Cyrl", "kk")] == [
        *["kk-Arab", "kk", "kk"]
    ]


def test_cantonese_is_traditional_unless_written_otherwise() -> None:
    assert tag("yue_Hant", TRADITIONAL) == "yue" and tag("yue", SIMPLIFIED) == "yue-Hans"


@pytest.mark.parametrize(
    ("label", "text", "right"),
    [
        ("sr", "Ово је реченица.", "sr-Cyrl"),
        ("srp_Cyrl", "Ovo je rečenica.", "sr-Latn"),
        ("uzn_Latn", "Бу гап.", "uz-Cyrl"),
        ("kk", "بۇل سويلەم", "kk-Arab"),
        ("az", "بو جمله", "azb"),
        ("pan_Guru", "یہ جملہ", "pnb"),
        ("hin_Latn", "yah vakya", "hi-Latn"),
        ("min_Arab", "كليمت", "min-Arab"),
        ("de", "Ово је реченица.", "de"),  # a wrong label stays wrong; German has one script
    ],
)
def test_the_script_is_the_texts_own(label: str, text: str, right: str) -> None:
    assert tag(label, text) == right
    assert right in tags_of(parse_label(label))


def test_tables_of_han_characters_tell_pairs_apart() -> None:
    simplified, traditional = _han_tables()
    pairs = [("这", "這"), ("个", "個"), ("国", "國"), ("发", "發"), ("龙", "龍"), ("书", "書")]
    assert {a for a, _ in pairs} <= simplified and {b for _, b in pairs} <= traditional
    assert not simplified & traditional and not (simplified | traditional) & set("一人大中日，a")
    assert len(simplified) > 1000 and len(traditional) > 1000


def test_labels_of_sib_200_are_tags_and_texts_keep_their_script(shared_data: Path) -> None:
    """Every text of a set that names its script gets that script from its own characters."""
    archive = shared_data / "labelled" / "topic" / "sib200-shared.tar.xz"
    wrong = {}
    labels = set()
    with tarfile.open(archive) as tar:
        for member in tar:
            label, _, name = member.name.removeprefix("./").partition("/")
            content = tar.extractfile(member) if name == "test.tsv" else None
            if content is None:
                continue
            labels.add(label)
            text = content.read().decode()
            text = "\n".join(line.split("\t")[2] for line in text.split("\n")[1:] if line)
            if tag(label, text) != normalise(label):
                wrong[label] = tag(label, text)
    assert len(labels) == 140 and wrong == {}
    assert len({normalise(label) for label in labels}) == 140  # no two languages fall together
