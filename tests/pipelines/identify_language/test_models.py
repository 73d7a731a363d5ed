"""One suite for every registered model, and what is special about files."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import langcodes
import pytest

from pipelines.config import LanguageIdentificationSection
from pipelines.core.config import ConfigError
from pipelines.identify_language import identify, identify_many, known_languages, shown_text
from pipelines.identify_language.models import MODELS, load_model
from tests.pipelines.identify_language.fasttext_format import probabilities, section, write_model

WORDS = {
    "eng_Latn": ["the", "house"],
    "swh_Latn": ["nyumba", "yetu"],
    "cmn_Hani": ["这个", "這個", "一"],
    "zho_Hans": ["我们"],
    "als_Latn": ["shtëpia", "jonë"],
    "arb_Arab": ["البيت"],
    "kaz_Cyrl": ["үй"],
    "uzn_Latn": ["uy", "уй"],
    "zxx_Latn": ["lorem"],
}
SENTENCES = {
    "en": "All human beings are born free and equal in dignity and rights.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "ru": "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
    "ja": "すべての人間は、生まれながらにして自由であり、尊厳と権利とについて平等である。",
}


@pytest.fixture
def model_file(tmp_path: Path) -> LanguageIdentificationSection:
    path = tmp_path / "model.bin"
    return section(path, write_model(path, WORDS))


@pytest.fixture(params=MODELS)
def config(request: pytest.FixtureRequest) -> LanguageIdentificationSection:
    if request.param == "fasttext_file":
        loaded = request.getfixturevalue("model_file")
        assert isinstance(loaded, LanguageIdentificationSection)
        return loaded
    if request.param != "lid.176":
        pytest.importorskip(request.param, reason="an optional package")
    return LanguageIdentificationSection.model_validate({"model": request.param})


def test_what_a_model_predicts_is_among_its_labels_best_first(
    config: LanguageIdentificationSection,
) -> None:
    model = load_model(config).model
    lines = [shown_text(text, 500) for text in SENTENCES.values()] + ["the house 这个", "x"]
    for found in model.predict(lines, 3):
        assert len(found) <= 3
        scores = [score for _, score in found]
        assert all(0 <= score <= 1 for score in scores) and sum(scores) <= 1 + 1e-4
        assert all(a >= b for a, b in pairwise(scores))
        assert {label for label, _ in found} <= set(model.labels())
    assert model.predict([], 3) == []


def test_a_line_does_not_depend_on_its_batch(config: LanguageIdentificationSection) -> None:
    texts = [*SENTENCES.values(), "", "the house", "nyumba yetu", "42", "这个 我们"]
    alone = [identify(text, config) for text in texts]
    assert identify_many(texts, config) == alone
    assert identify_many(texts[::-1], config) == alone[::-1]
    assert identify_many(texts[:3], config) + identify_many(texts[3:], config) == alone


def test_every_tag_is_bcp47_in_its_one_form(config: LanguageIdentificationSection) -> None:
    tags = known_languages(config)
    assert "en" in tags and "sw" in tags and "zh-Hans" in tags
    assert not {"und", "zh", "sr", "no", "swh", "cmn", "arb", "hbs", "msa"} & tags
    assert all(langcodes.tag_is_valid(tag) for tag in tags)


def test_all_models_but_the_toy_name_plain_sentences_alike(
    config: LanguageIdentificationSection,
) -> None:
    if config.model == "fasttext_file":
        pytest.skip("knows eight words")
    found = {tag: identify(text, config) for tag, text in SENTENCES.items()}
    assert {tag: one.language for tag, one in found.items()} == {tag: tag for tag in SENTENCES}
    for one in found.values():
        assert one.second != one.language and one.second_score < one.score


@pytest.mark.parametrize("text", ["", "\n\n", "12345 678", "😀😀 🎉", "https://a.test " * 9, "!?"])
def test_text_without_words_is_unknown_to_all(
    config: LanguageIdentificationSection, text: str
) -> None:
    assert identify(text, config).language == "und"


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("the house", "en"),
        ("nyumba yetu", "sw"),
        ("shtëpia jonë", "sq"),  # GlotLID's `als` is Albanian, lid.176's is Alemannic
        ("البيت", "ar"),
        ("这个 一 一", "zh-Hans"),
        ("這個 一 一", "zh-Hant"),
        ("uy uy uy", "uz"),
        ("уй уй уй", "uz-Cyrl"),  # the script is the text's own, whatever the label says
    ],
)
def test_labels_of_a_file_become_tags(
    model_file: LanguageIdentificationSection, text: str, tag: str
) -> None:
    found = identify(text, model_file)
    assert found.language == tag
    assert found.score == pytest.approx(
        probabilities(len(text.split()), labels=len(WORDS))[0], abs=5e-5
    )


def test_labels_with_the_same_tag_are_added_and_the_next_is_the_runner_up(
    model_file: LanguageIdentificationSection,
) -> None:
    found = identify("这个 我们 the", model_file.model_copy(update={"min_score": 0.0}))
    expected = probabilities(1, 1, 1, labels=len(WORDS))
    assert found.language == "zh-Hans" and found.second == "en"
    assert found.score == pytest.approx(expected[0] + expected[1], abs=5e-5)
    assert found.second_score == pytest.approx(expected[2], abs=5e-5)


def test_no_language_is_unknown_and_known_languages_leave_it_out(
    model_file: LanguageIdentificationSection,
) -> None:
    found = identify("lorem lorem the", model_file)
    assert found.language == "und" and found.second == "en" and found.score > found.second_score
    assert identify("quux quux", model_file).language == "und"  # no known word at all
    assert {"zh-Hans", "zh-Hant", "kk", "kk-Arab", "uz-Cyrl"} <= known_languages(model_file)


def test_lid_176_as_a_file_is_lid_176(shared_data: Path) -> None:
    sha256 = "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"
    by_path = section(shared_data / "lid" / "lid.176.ftz", sha256)
    default = LanguageIdentificationSection()
    assert known_languages(by_path) == known_languages(default) >= {"gsw", "egl", "sr-Latn"}
    texts = list(SENTENCES.values())
    assert identify_many(texts, by_path) == identify_many(texts, default)


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    right = write_model(path, WORDS)
    with pytest.raises(ConfigError, match=f"has SHA-256 {right}, and .*sha256 says {'0' * 64}"):
        identify("the house", section(path, "0" * 64))


def test_a_model_at_a_url_is_fetched_once_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    sha256 = write_model(tmp_path / "model.bin", WORDS)
    memory = fsspec.filesystem("memory")
    memory.pipe("/models/one.bin", (tmp_path / "model.bin").read_bytes())
    config = section(Path("x"), sha256).model_copy(update={"path": "memory://models/one.bin"})
    assert identify("nyumba yetu", config).language == "sw"
    assert [p.name for p in (tmp_path / "tmp" / "babelmill-models").iterdir()] == [sha256]
    memory.pipe("/models/two.bin", b"something else")
    wrong = config.model_copy(update={"path": "memory://models/two.bin", "sha256": "0" * 64})
    with pytest.raises(ConfigError, match=r"two\.bin'.* has SHA-256"):
        identify("the house", wrong)
    assert [p.name for p in (tmp_path / "tmp" / "babelmill-models").iterdir()] == [sha256]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not a fastText classifier"), (b"GET / HTTP/1.1" * 99, "not a fastText classifier")],
)
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    import hashlib

    path = tmp_path / "broken.bin"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        identify("the house", section(path, hashlib.sha256(content).hexdigest()))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"path = '.*absent\.bin': cannot be read"):
        identify("the house", section(tmp_path / "absent.bin", "0" * 64))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("positive", "negative"), "no language identifier: '(posi|nega)tive' is not a language"),
        (("hq", "qx", "en"), "no language identifier: 2 of its 3 labels .*'(hq|qx)' for one"),
    ],
)
def test_a_classifier_of_something_else_is_refused(
    tmp_path: Path, labels: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "quality.bin"
    sha256 = write_model(path, {label: [f"word{i}"] for i, label in enumerate(labels)})
    with pytest.raises(ConfigError, match=message):
        identify("good good", section(path, sha256))


@pytest.mark.parametrize("package", ["py3langid", "heliport"])
def test_a_model_that_is_not_installed_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (package, f"{package}.langid"):
        monkeypatch.setitem(sys.modules, module, None)
    section = LanguageIdentificationSection.model_validate({"model": package})
    with pytest.raises(ConfigError, match=rf"pip install 'babelmill\[{package}\]'"):
        MODELS[package](section)
