"""What packing reads beside documents is what the vocabulary stage wrote, or is named."""

from __future__ import annotations

import pytest

from pipelines.core.shards import StageFailed
from pipelines.core.store import Store
from tests.damage import flip

from .corpus import make_corpus


@pytest.mark.parametrize(
    ("kind", "part"),
    [("unigram", "spm.model"), ("unigram", "unigram"), ("wordpiece", "tokenizer.json")],
)
def test_a_damaged_vocabulary_packs_nothing(store: Store, kind: str, part: str) -> None:
    corpus = make_corpus(store, kind=kind)
    [output] = [o for o in corpus.vocabulary if o.labels["part"] == part]
    # The last bytes of counts are a number, those before the end of a model are a piece's score.
    whole = flip(store, output.path, output.bytes - 8 if part == "unigram" else None)
    with pytest.raises(StageFailed) as caught:
        corpus.pack()
    assert len(caught.value.failures) == len(corpus.unique)
    for failure in caught.value.failures:
        assert failure.reason.startswith(f"DamagedObject: {output.path} is damaged (sha256 ")
        assert output.sha256 in failure.reason and "delete it and run again" in failure.reason
    store.publish_bytes(output.path, whole)
    assert corpus.pack().outputs_of(part="train")
