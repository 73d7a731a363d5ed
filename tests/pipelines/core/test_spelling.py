from __future__ import annotations

from pathlib import Path

import pytest
from transformers import BertTokenizer

from pipelines.core.foreign import foreign_vocabulary
from pipelines.core.spelling import speller
from pipelines.core.vocabulary import Vocabulary
from tests.pipelines.core.foreign_folders import bert_folder, files_of
from tests.pipelines.train_vocabulary.known_models import model_of


def test_pieces_are_spelled_as_they_are_written() -> None:
    vocabulary = Vocabulary(model_of(["▁", "a", "b", "▁a", "ab", "é"]))
    spell = speller(vocabulary)
    ids, lengths = spell(["▁a", "▁aab", "ab", "abb", "▁", "ａ", "x▁b"])

    # No blank is put in front, and nothing is normalised: U+FF41 is no "a" any more.
    assert lengths.tolist() == [1, 2, 1, 2, 1, 1, 3]
    cut = [vocabulary.token(int(i)) for i in ids]
    assert cut == ["▁a", "▁a", "ab", "ab", "ab", "b", "▁", "<unk>", "<unk>", "▁", "b"]


def test_no_pieces() -> None:
    ids, lengths = speller(Vocabulary(model_of(["▁", "a"])))([])
    assert (len(ids), len(lengths)) == (0, 0)


@pytest.mark.parametrize("word", ["abcab", "cab", "ab", "c", "xab", "abx", "##"])
def test_wordpiece_cuts_as_bert_does(tmp_path: Path, word: str) -> None:
    folder = bert_folder(tmp_path, ["a", "ab", "##ab", "##a", "##b", "c", "##c", "#", "###"])
    theirs = BertTokenizer.from_pretrained(folder)
    found = foreign_vocabulary(files_of(folder))
    spell = speller(found.vocabulary)

    ids, lengths = spell([word])
    if "#" not in word:  # BERT's tokenizer cuts text at signs before it looks for pieces
        assert found.rows[ids].tolist() == theirs(word, add_special_tokens=False)["input_ids"]
    assert lengths.tolist() == [len(ids)]
    # A piece that goes on with a word is cut into such pieces alone.
    ids, _ = spell([f"##{word}"])
    cut = [found.vocabulary.token(int(i)) for i in ids]
    if "x" in word:
        assert cut == ["[UNK]"]
    else:
        assert all(token.startswith("##") for token in cut)
        assert "".join(token[2:] for token in cut) == word
