from __future__ import annotations

import lzma
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2

from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.core.normalizers import normalizer_spec
from pipelines.train_vocabulary.quantise import STEP
from pipelines.train_vocabulary.unigram_trainer import train_on_lines, train_on_words
from pipelines.train_vocabulary.word_counts import WORD_COUNTS, count_words
from tests.pipelines.train_vocabulary.corpus import ALPHABETS, texts_of


def section(size: int = 500, **more: object) -> VocabularySection:
    return VocabularySection.model_validate({"size": size, "num_threads": 2, **more})


def words_of(texts: Sequence[str], rule: str = "nmt_nfkc") -> pa.Table:
    spec = normalizer_spec(rule)
    return count_words(texts, spm.SentencePieceNormalizer(normalizer_spec=spec))


def texts(seed: int = 1) -> list[str]:
    return [text for tag in ALPHABETS for text in texts_of(tag, 40, seed)]


def table(words: dict[str, int]) -> pa.Table:
    return pa.table([list(words), list(words.values())], schema=WORD_COUNTS)


def proto_of(model: bytes) -> sentencepiece_model_pb2.ModelProto:
    return sentencepiece_model_pb2.ModelProto.FromString(model)


def tokens(model: bytes, lines: Sequence[str]) -> int:
    processor = spm.SentencePieceProcessor(model_proto=model)
    return sum(len(ids) for ids in processor.encode(list(lines)))


@pytest.fixture(scope="module")
def model() -> bytes:
    return train_on_words(words_of(texts()), section())


@pytest.fixture
def lines_file(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(texts()) + "\n", encoding="utf-8")
    return path


def test_the_model_is_an_ordinary_one(model: bytes) -> None:
    proto = proto_of(model)
    assert [piece.piece for piece in proto.pieces][:3] == ["<unk>", "<s>", "</s>"]
    assert len(proto.pieces) == 500
    assert all(piece.score % STEP == 0 for piece in proto.pieces)
    assert proto.normalizer_spec == normalizer_spec("nmt_nfkc")
    assert not proto.trainer_spec.input and not proto.trainer_spec.model_prefix
    assert not proto.trainer_spec.seed_sentencepieces_file
    assert b"/tmp" not in model and b"babelmill" not in model
    processor = spm.SentencePieceProcessor(model_proto=model)
    line = texts()[0].replace("\n", " ")
    assert processor.decode(processor.encode(f"  {line} ")) == line


def test_the_order_of_the_words_does_not_matter(model: bytes) -> None:
    words = words_of(texts())
    order = list(range(len(words)))
    random.Random(2).shuffle(order)
    assert train_on_words(words.take(order), section()) == model


def test_whole_words_and_their_spans_give_the_same(model: bytes) -> None:
    normalizer = spm.SentencePieceNormalizer(normalizer_spec=normalizer_spec("nmt_nfkc"))
    whole = Counter(
        "▁" + word for text in texts() for word in normalizer.normalize(text).split("▁") if word
    )
    assert any(word.endswith(".") for word in whole)
    assert train_on_words(table(dict(whole)), section()) == model


def test_a_count_is_worth_as_many_repetitions() -> None:
    """Weights decide what gets a piece: `rare` words weigh most here."""
    rng = random.Random(4)
    rare = ["".join(rng.choices("abcdefgh", k=7)) for _ in range(20)]
    common = ["".join(rng.choices("abcdefgh", k=7)) for _ in range(400)]
    words = {f"▁{word}": 1 for word in common} | {f"▁{word}": 1000 for word in rare}
    proto = proto_of(train_on_words(table(words), section(size=120)))
    pieces = {piece.piece for piece in proto.pieces}
    assert {f"▁{word}" for word in rare} <= pieces
    assert len(pieces & {f"▁{word}" for word in common}) == 0


def test_about_as_good_as_on_lines(model: bytes, lines_file: Path) -> None:
    held_out = [line for text in texts(seed=2) for line in text.split("\n")]
    on_words, on_lines = (
        tokens(model, held_out),
        tokens(train_on_lines(lines_file, section()), held_out),
    )
    assert on_words <= 1.002 * on_lines


def test_about_as_good_as_on_lines_of_a_novel(shared_data: Path, tmp_path: Path) -> None:
    novel = lzma.decompress((shared_data / "models" / "botchan.txt.xz").read_bytes()).decode()
    paragraphs = [line for line in novel.split("\n") if line.strip()]
    training = [line for number, line in enumerate(paragraphs) if number % 10]
    held_out = paragraphs[::10]
    path = tmp_path / "novel.txt"
    path.write_text("\n".join(training) + "\n", encoding="utf-8")
    settings = section(size=4000)
    on_words = train_on_words(words_of(training), settings)
    assert tokens(on_words, held_out) <= 1.002 * tokens(train_on_lines(path, settings), held_out)


@pytest.mark.parametrize("rule", ["nmt_nfkc_joiners", "nfkc", "identity"])
def test_the_rule_of_the_section_goes_into_the_model(rule: str, lines_file: Path) -> None:
    settings = section(normalization=rule)
    persian = ["می‌خواهم می‌روم"] * 50
    with lines_file.open("a", encoding="utf-8") as file:
        file.write("\n".join(persian) + "\n")
    for made in (
        train_on_words(words_of([*texts(), *persian], rule), settings),
        train_on_lines(lines_file, settings),
    ):
        assert proto_of(made).normalizer_spec == normalizer_spec(rule)
        processor = spm.SentencePieceProcessor(model_proto=made)
        assert processor.unk_id() not in processor.encode(persian[0])
        assert processor.decode(processor.encode(persian[0])) == persian[0]


def test_required_characters_get_pieces_however_rare() -> None:
    words = words_of([*texts(), "ᏣᎳᎩ"])
    settings = section(character_coverage=0.98)
    without = {piece.piece for piece in proto_of(train_on_words(words, settings)).pieces}
    assert not {"Ꮳ", "Ꮃ", "Ꭹ"} & without
    made = train_on_words(words, settings, required_characters="ᏣᎳᎩ")
    assert {"Ꮳ", "Ꮃ", "Ꭹ"} <= {piece.piece for piece in proto_of(made).pieces}
    assert len(proto_of(made).pieces) == 500


def test_byte_fallback() -> None:
    made = train_on_words(words_of(texts()), section(size=800, byte_fallback=True))
    processor = spm.SentencePieceProcessor(model_proto=made)
    assert processor.decode(processor.encode("🦊")) == "🦊"
    assert processor.unk_id() not in processor.encode("🦊")


def test_byte_fallback_has_pieces_for_the_names_of_special_tokens(lines_file: Path) -> None:
    cyrillic = ["бвг где жзи " * 5] * 20
    lines_file.write_text("\n".join(cyrillic) + "\n", encoding="utf-8")
    settings = section(size=280, byte_fallback=True, character_coverage=1.0)
    for made in (
        train_on_words(words_of(cyrillic), settings),
        train_on_lines(lines_file, settings),
    ):
        pieces = {piece.piece for piece in proto_of(made).pieces}
        assert set("</>adkmnpsuбвгдежзи") <= pieces


def test_pieces_of_bytes_are_not_taken_for_characters_of_the_text() -> None:
    words = words_of(["бвг где жзи"] * 20)  # 8 letters, the blank's mark, 11 of the names
    settings = section(size=275, byte_fallback=True, character_coverage=1.0)
    message = (
        r"size = 275: the text has 20 characters at .*beside 256 bytes and 3 control pieces; "
        r"set vocabulary\.size well above 279"
    )
    with pytest.raises(ConfigError, match=message):
        train_on_words(words, settings)


def test_a_size_the_text_does_not_support(lines_file: Path) -> None:
    words = words_of(texts())
    with pytest.raises(ConfigError, match=r"vocabulary.size = 60000: the text supports at most"):
        train_on_lines(lines_file, section(size=60_000))
    with pytest.raises(ConfigError) as error:
        train_on_words(words, section(size=60_000))
    most = int(str(error.value).split("at most ")[1].split()[0])
    assert len(proto_of(train_on_words(words, section(size=most))).pieces) == most


def test_few_seeds_are_no_limit_of_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.train_vocabulary.unigram_trainer.SEEDS_PER_PIECE", 0)
    monkeypatch.setattr("pipelines.train_vocabulary.unigram_trainer.LEAST_SEEDS", 300)
    assert len(proto_of(train_on_words(words_of(texts()), section())).pieces) == 500


def test_a_size_below_the_alphabet(lines_file: Path) -> None:
    message = r"vocabulary.size = 100: the text has \d+ characters at character_coverage 1.0"
    settings = section(size=100, character_coverage=1.0)
    words = words_of([*texts(), "".join(chr(0x4E00 + n) for n in range(200))])
    with pytest.raises(ConfigError, match=message):
        train_on_words(words, settings)
    with lines_file.open("a", encoding="utf-8") as file:
        file.write("".join(chr(0x4E00 + n) for n in range(200)) + "\n")
    with pytest.raises(ConfigError, match=message):
        train_on_lines(lines_file, settings)


def test_no_text_at_all(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no text to train on"):
        train_on_words(WORD_COUNTS.empty_table(), section())
    with pytest.raises(ConfigError, match="no text to train on"):
        train_on_lines(empty, section())
    for own in ("\u2585", "\u2581"):  # the trainer's marks of unknown text and of a blank
        empty.write_text(f"{own}\n" * 9, encoding="utf-8")
        with pytest.raises(ConfigError, match="no text to train on"):
            train_on_lines(empty, section())


@pytest.mark.parametrize(("words", "most"), [({"a": 5, "b": 4}, 5), ({"▁ab": 1}, 6)])
def test_words_without_a_pair_that_repeats_have_characters_for_pieces(
    words: dict[str, int], most: int, capfd: pytest.CaptureFixture[str]
) -> None:
    # Each character, and three control pieces.
    with pytest.raises(ConfigError, match=rf"the text supports at most {most} pieces"):
        train_on_words(table(words), section())
    assert capfd.readouterr() == ("", "")


def test_the_trainer_writes_nothing_to_the_terminal(
    capfd: pytest.CaptureFixture[str], lines_file: Path
) -> None:
    train_on_words(words_of(texts()), section())
    train_on_lines(lines_file, section())
    with pytest.raises(ConfigError):
        train_on_words(words_of(texts()), section(size=60_000))
    assert capfd.readouterr() == ("", "")
