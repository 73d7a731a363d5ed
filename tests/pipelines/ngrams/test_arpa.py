from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from pipelines.ngrams.arpa import in_log10, write_arpa
from pipelines.ngrams.count import count_ngrams
from pipelines.ngrams.read_arpa import ArpaError, read_arpa
from pipelines.ngrams.scorer import BuiltInScorer
from pipelines.ngrams.smoothing import smooth
from tests.pipelines.ngrams.reference import zipf_sentences

SMALL = """a comment
\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1.0\t<unk>
-99\t<s>\t-0.5
-0.7\ta\t-0.25
-0.6\tb
-0.4\t</s>

\\2-grams:
-0.1\t<s> b
-0.2\ta b
-0.3\ta </s>

\\end\\
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "model.arpa"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_by_hand_is_read_and_scored_by_its_rules(tmp_path: Path) -> None:
    scorer = BuiltInScorer(read_arpa(write(tmp_path, SMALL)))

    scores = scorer.score([["b"], ["a", "b"], ["a"], [], ["b", "zzz", "a"]])

    assert scores.tolist() == pytest.approx(
        [
            -0.1 - 0.4,  # <s> b; b has no backoff
            (-0.5 - 0.7) - 0.2 - 0.4,
            (-0.5 - 0.7) - 0.3,
            -0.5 - 0.4,
            -0.1 - 1.0 - 0.7 - 0.3,
        ]
    )


@pytest.mark.parametrize("method", ["add_k", "good_turing", "katz", "kneser_ney"])
@pytest.mark.parametrize("ending", ["arpa", "arpa.gz"])
def test_what_is_written_is_read_back(tmp_path: Path, method: str, ending: str) -> None:
    model, _ = smooth(count_ngrams(zipf_sentences(2, 300, 30), 4), method)
    logs = in_log10(model)
    path = tmp_path / f"model.{ending}"

    write_arpa(path, logs)
    back = read_arpa(path)

    assert back.tables.vocabulary == logs.tables.vocabulary
    for order in range(4):
        assert np.array_equal(back.tables.keys[order], logs.tables.keys[order])
        assert np.array_equal(back.probabilities[order], logs.probabilities[order])
        if order < 3:
            assert np.array_equal(back.backoffs[order], logs.backoffs[order])
    exact = model.probabilities[3]
    assert 10 ** back.probabilities[3] == pytest.approx(exact, rel=1e-9)


def test_the_layout_is_that_of_the_format(tmp_path: Path) -> None:
    path = tmp_path / "model.arpa"
    write_arpa(path, in_log10(smooth(count_ngrams([["é", "b"]], 2), "add_k")[0]))

    lines = path.read_text(encoding="utf-8").splitlines()

    # V = 4: <unk>, </s>, b, é; the only bigrams have (1 + 1) / (1 + 4) and leave 4 / 5.
    uniform, seen, left = np.log10([1 / 4, 2 / 5, 4 / 5]).round(10).tolist()
    assert lines == [
        "\\data\\",
        "ngram 1=5",
        "ngram 2=3",
        "",
        "\\1-grams:",
        f"{uniform}\t<unk>\t0",
        f"-99\t<s>\t{left}",
        f"{uniform}\t</s>\t0",
        f"{uniform}\tb\t{left}",
        f"{uniform}\té\t{left}",
        "",
        "\\2-grams:",
        f"{seen}\t<s> é",
        f"{seen}\tb </s>",
        f"{seen}\té b",
        "",
        "\\end\\",
    ]


def test_a_compressed_file_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    model = in_log10(smooth(count_ngrams([["a"]], 2), "add_k")[0])
    for name in ("one.arpa.gz", "two.arpa.gz", "three.arpa"):
        write_arpa(tmp_path / name, model)

    one, two, plain = (
        (tmp_path / name).read_bytes() for name in ("one.arpa.gz", "two.arpa.gz", "three.arpa")
    )
    assert one == two
    assert gzip.decompress(one) == plain


def test_a_file_without_unk_gets_kenlm_s(tmp_path: Path) -> None:
    text = SMALL.replace("-1.0\t<unk>\n", "").replace("ngram 1=5", "ngram 1=4")

    scorer = BuiltInScorer(read_arpa(write(tmp_path, text)))

    assert scorer.score([["zzz"]]).tolist() == pytest.approx([-0.5 - 100 - 0.4])


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("ngram 2=3", "ngram 3=3", 4, "should be 'ngram 2='"),
        ("ngram 1=5", "ngram 1=6", 12, "6 n-grams of order 1 are announced, 5 are here"),
        ("ngram 1=5", "ngram 1=4", 11, "more than the 4 n-grams of order 1"),
        ("-0.7\ta\t-0.25", "-0.7\ta b\t-0.25", 9, "1 word(s) beside the numbers"),
        ("-0.2\ta b", "-0.2\ta", 15, "2 word(s) beside the numbers"),
        ("-0.2\ta b", "-0.2\ta b\t-0.1", 15, "2 word(s) beside the numbers"),
        ("-0.2\ta b", "x\ta b", 15, "numbers are expected"),
        ("-0.2\ta b", "0.2\ta b", 15, "must be 0 or less"),
        ("-0.2\ta b", "nan\ta b", 15, "must be 0 or less"),
        ("-0.7\ta\t-0.25", "-0.7\ta\tinf", 9, "a backoff must be finite"),
        ("-0.2\ta b", "-0.2\ta c", 15, "is not among the 1-grams"),
        ("-0.2\ta b", "-0.2\ta </s>", 16, "'a </s>' comes twice"),
        ("-0.6\tb", "-0.6\ta", 10, "'a' comes twice"),
        ("-0.4\t</s>", "-0.4\tc", 12, "</s> is not among the words"),
        ("\\2-grams:", "\\3-grams:", 13, "\\2-grams: is expected here"),
        ("\\end\\\n", "", 18, "the file ends before \\end\\"),
        ("-0.3\ta </s>\n\n\\end\\\n", "", 15, "the file ends, 1 n-grams of order 2 missing"),
        ("\\end\\", "\\3-grams:", 18, "\\end\\ is expected here"),
    ],
)
def test_errors_name_file_and_line(
    tmp_path: Path, old: str, new: str, line: int, what: str
) -> None:
    assert old in SMALL
    path = write(tmp_path, SMALL.replace(old, new))

    with pytest.raises(ArpaError) as error:
        read_arpa(path)

    assert str(path) in str(error.value)
    assert f"line {line}:" in str(error.value)
    assert what in str(error.value)


def test_an_ngram_without_its_beginning_is_refused(tmp_path: Path) -> None:
    text = SMALL.replace("ngram 2=3\n", "ngram 2=3\nngram 3=2\n").replace(
        "\\end\\", "\\3-grams:\n-0.1\t<s> b </s>\n-0.1\tb a b\n\n\\end\\"
    )

    with pytest.raises(ArpaError, match=r"line 21: 'b a b' is here, but its first 2 words"):
        read_arpa(write(tmp_path, text))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.arpa"
    path.write_bytes(SMALL.encode().replace(b"-0.6\tb", b"-0.6\t\xff"))

    with pytest.raises(ArpaError, match="line 10: not UTF-8"):
        read_arpa(path)
