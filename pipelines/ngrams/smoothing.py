"""From counts to probabilities in back-off form, by four textbook methods.

The form is that of an ARPA file: p(w | h) is the row's own probability where h w is a row, else
backoff(h) p(w | h without its first word), where the backoff of a history that is no row is 1.
Every distribution over all words but <s>, after any history, sums to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.ngrams.count import Counts
from pipelines.ngrams.discounts import (
    counts_of_counts,
    good_turing_ratios,
    katz_ratios,
    kneser_ney_discounts,
)
from pipelines.ngrams.tables import BOS_ID, Floats, Ints, Tables

Ratios = Callable[[Ints, int, list[str]], Floats]


@dataclass
class Model:
    """Probabilities and back-off weights of all rows of `tables`, not logarithms."""

    tables: Tables
    probabilities: list[Floats]
    """For order k at index k - 1. That of <s>, which is never predicted, is 0."""
    backoffs: list[Floats]
    """The same for orders 1 to n - 1; at index n - 1 all are 1."""


def _sums(rows: Ints, values: npt.NDArray[np.generic], size: int) -> Floats:
    total: Floats = np.bincount(rows, weights=values, minlength=size).astype(np.float64, copy=False)
    return total


def add_k(counts: Counts, k: float) -> Model:
    """Lidstone's (k = 1: Laplace's) rule at the full order: (c(h w) + k) / (c(h) + k V).

    V counts all words but <s>. After a history that was never seen this is 1 / V, and so the lower
    orders are uniform. It fits the back-off form exactly: a row of a full history (n - 1 words, or
    fewer after <s>) has its probability, that history's backoff is k V / (c(h) + k V), and all
    other rows have 1 / V and backoff 1.
    """
    tables = counts.tables
    size = tables.predicted
    model = _uniform(tables)
    for order in range(1, tables.order + 1):
        seen = counts.counts[order - 1].astype(np.float64)
        if order == 1:
            if tables.order == 1:
                seen[BOS_ID] = 0
                model.probabilities[0] = (seen + k) / (seen.sum() + k * size)
                model.probabilities[0][BOS_ID] = 0
            continue
        prefix = tables.prefix(order)
        totals = _sums(prefix, seen, len(tables.keys[order - 2]))
        whole = np.full(len(totals), order == tables.order) | tables.begins_with_bos(order - 1)
        own = (seen + k) / (totals + k * size)[prefix]
        model.probabilities[order - 1] = np.where(whole[prefix], own, 1 / size)
        backoff = k * size / (totals + k * size)
        model.backoffs[order - 2] = np.where(whole, backoff, 1.0)
    return model


def _uniform(tables: Tables) -> Model:
    probabilities = [np.full(len(keys), 1 / tables.predicted) for keys in tables.keys]
    probabilities[0][BOS_ID] = 0
    return Model(tables, probabilities, [np.ones(len(keys)) for keys in tables.keys])


def back_off(counts: Counts, ratios: Ratios, notes: list[str]) -> Model:
    """Discounted back-off at every order (Katz 1987): p(w | h) = d(c) c / c(h) for seen h w.

    What the discounts leave goes to the words not seen after h, in the proportions of the order
    below; at order 1 to the words of the vocabulary that were not counted (<unk>), evenly. Where
    no word is left to take it, the seen ones are scaled to sum to 1. Where the discounts leave
    nothing, c(h) is raised by one, so that nothing is impossible.
    """
    tables = counts.tables
    model = _uniform(tables)
    seen = counts.counts[0].copy()
    seen[BOS_ID] = 0
    model.probabilities[0] = _unigrams(seen, ratios(seen, 1, notes))
    for order in range(2, tables.order + 1):
        seen, prefix = counts.counts[order - 1], tables.prefix(order)
        size = len(tables.keys[order - 2])
        discounted = seen * ratios(seen, order, notes)
        totals, kept = _sums(prefix, seen, size), _sums(prefix, discounted, size)
        full = np.bincount(prefix, minlength=size) == tables.predicted
        totals = np.where(full, kept, np.where(kept >= totals, totals + 1, totals))
        model.probabilities[order - 1] = discounted / totals[prefix]
        lower = model.probabilities[order - 2][tables.suffix(order)]
        open_mass = 1 - _sums(prefix, lower, size)
        used = (totals > 0) & ~full
        model.backoffs[order - 2][used] = (1 - kept[used] / totals[used]) / open_mass[used]
    return model


def _unigrams(seen: Ints, ratios: Floats) -> Floats:
    discounted, total = seen * ratios, float(seen.sum())
    unseen = seen == 0
    unseen[BOS_ID] = False
    kept = float(discounted.sum())
    if not unseen.any():
        return discounted / kept
    if kept >= total:
        total += 1
    result = discounted / total
    result[unseen] = (1 - kept / total) / unseen.sum()
    return result


def adjusted_counts(counts: Counts, order: int) -> Ints:
    """What Kneser-Ney counts at an order: the words seen to the left of an n-gram.

    The highest order, and n-grams that begin with <s> and so have nothing to their left, keep
    their own counts. <s> alone has none: it is never predicted.
    """
    tables, own = counts.tables, counts.counts[order - 1]
    if order == 1:
        own = own.copy()
        own[BOS_ID] = 0
    if order == tables.order:
        return own
    left = np.bincount(tables.suffix(order + 1), minlength=len(own))
    return left if order == 1 else np.where(tables.begins_with_bos(order), own, left)


def kneser_ney(counts: Counts, notes: list[str]) -> Model:
    """Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998), as kenlm's lmplz.

    p(w | h) = max(a(h w) - D(a), 0) / a(h) + g(h) p(w | h'), with h' = h without its first word
    and a from `adjusted_counts`; g(h) is what the discounts of h take, and so its backoff. Below
    order 1 is the uniform distribution over all words but <s>, all that <unk> gets.
    """
    tables = counts.tables
    model = _uniform(tables)
    for order in range(1, tables.order + 1):
        adjusted = adjusted_counts(counts, order)
        found = kneser_ney_discounts(counts_of_counts(adjusted), order, notes)
        taken = np.array([0.0, *found])[np.minimum(adjusted, 3)]
        if order == 1:
            total = float(adjusted.sum())
            lower = model.probabilities[0]
            model.probabilities[0] = (adjusted - taken) / total + taken.sum() / total * lower
            continue
        prefix, size = tables.prefix(order), len(tables.keys[order - 2])
        totals = _sums(prefix, adjusted, size)
        gamma = np.ones(size)
        used = totals > 0
        gamma[used] = _sums(prefix, taken, size)[used] / totals[used]
        lower = model.probabilities[order - 2][tables.suffix(order)]
        model.probabilities[order - 1] = (adjusted - taken) / totals[prefix] + gamma[prefix] * lower
        model.backoffs[order - 2] = gamma
    return model


def smooth(counts: Counts, method: str, k: float = 1.0) -> tuple[Model, list[str]]:
    """The model of some counts by a setting of perplexity.smoothing.

    Returns:
        The model, and notes on discounts that the counts did not give.

    Raises:
        ValueError: an unknown method, or counts of no sentence.
    """
    if not counts.sentences:
        raise ValueError("no sentence was counted, so there is nothing to make a model of")
    notes: list[str] = []
    if method == "add_k":
        return add_k(counts, k), notes
    if method == "good_turing":
        return back_off(counts, good_turing_ratios, notes), notes
    if method == "katz":
        return back_off(counts, katz_ratios, notes), notes
    if method == "kneser_ney":
        return kneser_ney(counts, notes), notes
    raise ValueError(
        f"perplexity.smoothing = {method!r}: known are add_k, good_turing, katz, kneser_ney"
    )
