"""The benchmark `learning`: its texts, its arithmetic and its picture, without a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from tests.benchmarks.learning import figures_of
from tests.benchmarks.learning_corpus import DESCRIPTIONS, SENTENCES, Texts, read_texts
from tests.benchmarks.learning_picture import save_picture

SIZES = {"en": {"characters": 2_400_000}, "sw": {"characters": 9_000}}


def record(losses: dict[str, list[float]]) -> dict[str, Any]:
    """A training's record with these losses per token, of 10 masked tokens each."""
    rows = [
        {
            "step": step,
            "languages": {
                tag: {"loss_sum": 10 * values[step], "tokens": 10} for tag, values in losses.items()
            },
        }
        for step in range(3)
    ]
    unigram = {tag: {"loss_sum": 60.0, "tokens": 10} for tag in losses}
    drawn = {"en": 900, "sw": 100}
    return {"drawn": drawn, "tokens_seen": 990, "evaluations": rows, "unigram": unigram}


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    records = {
        (1.0, 1): record({"sw": [9, 7, 6.5], "en": [9, 5, 3.0]}),
        (0.3, 1): record({"sw": [9, 6, 4.5], "en": [9, 5, 3.5]}),
        (1.0, 2): record({"sw": [9, 7, 6.7], "en": [9, 5, 3.2]}),
        (0.3, 2): record({"sw": [9, 6, 5.1], "en": [9, 5, 3.4]}),
    }
    return figures_of(records, SIZES)


def test_costs_are_means_and_ranges_over_seeds(figures: dict[str, Any]) -> None:
    languages = figures["languages"]
    assert list(languages) == ["en", "sw"], "the largest first"
    # Seed by seed: 3.5 - 3.0 and 3.4 - 3.2; 4.5 - 6.5 and 5.1 - 6.7.
    assert languages["en"]["cost"] == {"mean": 0.35, "least": 0.2, "most": 0.5}
    assert languages["sw"]["cost"] == {"mean": -1.8, "least": -2.0, "most": -1.6}
    assert languages["sw"]["alpha_0.3"]["loss"] == {"mean": 4.8, "least": 4.5, "most": 5.1}
    assert languages["sw"]["unigram"]["mean"] == 6.0
    assert figures["mean_over_languages"]["alpha_1"] == pytest.approx((3.1 + 6.6) / 2)
    assert figures["curves"]["progress"] == [0.0, 0.5, 1.0]
    assert [point["mean"] for point in figures["curves"]["alpha_1"]["sw"]] == [9.0, 7.0, 6.6]


def test_the_picture_is_drawn(figures: dict[str, Any], tmp_path: Path) -> None:
    save_picture(figures, tmp_path / "a.png")
    save_picture(figures, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    picture = matplotlib.image.imread(tmp_path / "a.png")
    assert picture.shape[1] == 1440 and picture.std() > 0.05


def is_skewed(texts: Texts, least: float) -> bool:
    sizes = [sum(len(p) for document in d for p in document) for d in texts.values()]
    return max(sizes) > least * min(sizes) > 0


def test_texts_of_the_sample_where_there_are_no_others(tmp_path: Path) -> None:
    origin, texts = read_texts(tmp_path)
    assert "sample" in origin and len(texts) >= 8
    assert is_skewed(texts, 20)
    for documents in texts.values():
        paragraphs = [text for document in documents for text in document]
        assert len(set(paragraphs)) == len(paragraphs), "none is held out and trained on"
        assert all(documents)


def test_real_texts(shared_data: Path) -> None:
    origin, texts = read_texts(shared_data)
    assert "Debian" in origin and texts.keys() == {*DESCRIPTIONS, *SENTENCES}
    assert is_skewed(texts, 300)
    assert not any("Description-md5:" in text for document in texts["de"] for text in document)
    assert sum(map(len, texts["en"])) > 80_000
