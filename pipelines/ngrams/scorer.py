"""Scores of sentences under a back-off model: built in, or through kenlm."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pipelines.core.config import ConfigError
from pipelines.core.store import local_file, write_parquet
from pipelines.ngrams.arpa import LogModel, Logs
from pipelines.ngrams.tables import UNK_ID, Floats, Tables, flatten, lookup


class Scorer(Protocol):
    """What scores tokenized sentences."""

    def score(self, sentences: Sequence[Sequence[str]]) -> Floats:
        """log10 p(sentence), from <s> to </s> inclusive, for each sentence."""
        ...


class BuiltInScorer:
    """Scores by searching the model's sorted keys, many positions at a time."""

    def __init__(self, model: LogModel) -> None:
        self._model = model
        self.tables: Tables = model.tables
        self.ids: Mapping[str, int] = model.tables.ids

    def score(self, sentences: Sequence[Sequence[str]]) -> Floats:
        """log10 p(sentence), from <s> to </s> inclusive, for each sentence."""
        if not sentences:
            return np.zeros(0)
        tables = self._model.tables
        flat, positions, starts = flatten([tables.encode(sentence) for sentence in sentences])
        rows = flat
        result = self._model.probabilities[0][flat].astype(np.float64)
        for order in range(2, tables.order + 1):
            history = np.concatenate([[-1], rows[:-1]])
            ends = np.flatnonzero((positions >= order - 1) & (history >= 0))
            history = history[ends]
            found = lookup(tables.keys[order - 1], history * tables.size + flat[ends])
            longer = self._model.probabilities[order - 1][found]
            shorter = result[ends] + self._model.backoffs[order - 2][history]
            result[ends] = np.where(found >= 0, longer, shorter) if len(longer) else shorter
            rows = np.full(len(flat), -1, dtype=np.int64)
            rows[ends] = found
        result[starts] = 0.0  # <s> itself is given
        return np.add.reduceat(result, starts)

    def distribution(self, history: Sequence[str]) -> Floats:
        """log10 p(w | history) for each word w of the vocabulary.

        Args:
            history: words before, `<s>` first where the sentence begins with them; those that are
                not in the vocabulary are <unk>.
        """
        tables, model = self._model.tables, self._model
        ids = [tables.ids.get(word, UNK_ID) for word in history][-(tables.order - 1) :]
        words = np.arange(tables.size)
        result = model.probabilities[0].astype(np.float64)
        for order in range(2, min(tables.order, len(ids) + 1) + 1):
            row = self._row(ids[len(ids) - order + 1 :])
            if row < 0:
                continue
            found = lookup(tables.keys[order - 1], row * tables.size + words)
            result = result + model.backoffs[order - 2][row]
            hit = found >= 0
            result[hit] = model.probabilities[order - 1][found[hit]]
        return result

    def _row(self, ids: Sequence[int]) -> int:
        row = ids[0]
        for order, word in enumerate(ids[1:], start=2):
            keys = self._model.tables.keys[order - 1]
            row = int(lookup(keys, np.array([row * self._model.tables.size + word]))[0])
            if row < 0:
                break
        return row


class KenlmScorer:
    """Scores through kenlm (optional: the extra `kenlm`).

    Args:
        path: an ARPA file, plain or `.gz`, or one of kenlm's own binary files.

    Raises:
        ConfigError: kenlm is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            import kenlm  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise ConfigError(
                "perplexity.scorer = 'kenlm': the package is not installed; "
                "pip install 'babelmill[kenlm]', or take 'built_in', whose scores are the same"
            ) from None
        config = kenlm.Config()
        config.show_progress = False
        config.arpa_complain = kenlm.ARPALoadComplain.NONE
        with _plain(path) as file:
            self._model: Any = kenlm.Model(str(file), config)

    def score(self, sentences: Sequence[Sequence[str]]) -> Floats:
        """log10 p(sentence), from <s> to </s> inclusive, for each sentence.

        kenlm's own sum has 32 bits, which is off by more than 1e-4 in long sentences; this one has
        64.
        """
        found = []
        for sentence in sentences:
            words = self._model.full_scores(" ".join(sentence), bos=True, eos=True)
            found.append(sum(log10 for log10, _, _ in words))
        return np.array(found, dtype=np.float64)


@contextmanager
def _plain(path: Path) -> Iterator[Path]:
    """A file without compression, which not every build of kenlm reads."""
    if path.suffix != ".gz":
        yield path
        return
    with local_file(".arpa") as plain:
        with gzip.open(path, "rb") as source, plain.open("wb") as target:
            shutil.copyfileobj(source, target)
        yield plain


def perplexities(scorer: Scorer, texts: Sequence[Sequence[Sequence[str]]]) -> Floats:
    """Perplexity of each text: 10^(-sum of log10 / (tokens + sentences)), as CCNet's.

    Args:
        texts: tokenized sentences of each; one without any has no perplexity, and is NaN.
    """
    scores = scorer.score([sentence for text in texts for sentence in text])
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    ends = np.cumsum(sizes)
    result = np.full(len(texts), np.nan)
    for number in np.flatnonzero(sizes).tolist():
        events = sum(len(sentence) + 1 for sentence in texts[number])
        total = float(scores[ends[number] - sizes[number] : ends[number]].sum())
        result[number] = 10 ** (-total / events)
    return result


def write_model(path: Path, model: LogModel) -> None:
    """Write a model as Parquet: columns `order`, `token`, `key`, `probability`, `backoff`."""
    tables = model.tables
    sizes = [len(keys) for keys in tables.keys]
    tokens = tables.vocabulary + [None] * (sum(sizes) - sizes[0])
    columns = {
        "order": pa.array(np.repeat(np.arange(1, tables.order + 1, dtype=np.int8), sizes)),
        "token": pa.array(tokens, pa.string()),
        "key": pa.array(np.concatenate(tables.keys)),
        "probability": pa.array(np.concatenate(model.probabilities).astype(np.float32)),
        "backoff": pa.array(np.concatenate(model.backoffs).astype(np.float32)),
    }
    write_parquet(pa.table(columns), path)


def model_from(table: pa.Table) -> LogModel:
    """Read back what `write_model` wrote; logarithms are in 32 bits, as kenlm's."""
    orders = table.column("order").to_numpy()
    sizes = np.bincount(orders)[1:]
    ends = np.cumsum(sizes)[:-1]
    vocabulary = table.column("token").slice(0, int(sizes[0])).to_pylist()
    keys = np.split(table.column("key").to_numpy(), ends)
    logs: list[list[Logs]] = [
        np.split(table.column(name).to_numpy(), ends) for name in ("probability", "backoff")
    ]
    return LogModel(Tables(vocabulary, keys), *logs)
