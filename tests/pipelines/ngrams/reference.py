"""The textbook formulas over plain dictionaries, one probability at a time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

Gram = tuple[str, ...]


def zipf_sentences(seed: int, sentences: int, words: int) -> list[list[str]]:
    """Sentences in which the r-th word comes about 1/r as often, with some order in them.

    One word in thirty is one of many rare ones, so that words are seen once, twice, three times.
    """
    rng = random.Random(seed)
    vocabulary = [f"w{number:02d}" for number in range(words)]
    weights = [1 / (number + 1) for number in range(words)]
    made = []
    for _ in range(sentences):
        sentence: list[str] = []
        for _ in range(rng.randint(0, 9)):
            if rng.random() < 1 / 30:
                sentence.append(f"rare{rng.randrange(words):02d}")
            elif sentence and sentence[-1] in vocabulary and rng.random() < 0.4:
                sentence.append(vocabulary[(vocabulary.index(sentence[-1]) * 3 + 1) % words])
            else:
                sentence.append(rng.choices(vocabulary, weights)[0])
        made.append(sentence)
    return made


def windows(sentences: Sequence[Sequence[str]], size: int) -> Iterator[Gram]:
    """All windows of a size, over sentences in <s> and </s>."""
    for sentence in sentences:
        padded = ("<s>", *sentence, "</s>")
        for start in range(len(padded) - size + 1):
            yield padded[start : start + size]


class Reference:
    """Counts of a text, and what each method makes of them."""

    def __init__(self, sentences: Sequence[Sequence[str]], order: int) -> None:
        self.order = order
        self.counts = {size: Counter(windows(sentences, size)) for size in range(1, order + 1)}
        seen = {gram[0] for gram in self.counts[1]}
        self.vocabulary = sorted((seen | {"<unk>"}) - {"<s>"})
        self.p = cache(self._p)
        self.after = cache(self._after)

    def _after(self, history: Gram) -> dict[str, int]:
        """Counts of the words that follow a history."""
        table = self.counts[len(history) + 1]
        found = {word: table[(*history, word)] for word in self.vocabulary}
        return {word: count for word, count in found.items() if count}

    def clip(self, history: Gram) -> Gram:
        """The words of a history that the order lets count."""
        return history[len(history) - min(len(history), self.order - 1) :]

    def _p(self, word: str, history: Gram) -> float:
        raise NotImplementedError


class AddK(Reference):
    """(c(h w) + k) / (c(h) + k V)."""

    def __init__(self, sentences: Sequence[Sequence[str]], order: int, k: float) -> None:
        super().__init__(sentences, order)
        self.k = k

    def _p(self, word: str, history: Gram) -> float:
        follow = self.after(history)
        total = sum(follow.values()) + self.k * len(self.vocabulary)
        return (follow.get(word, 0) + self.k) / total


class BackOff(Reference):
    """Katz 1987 with any discounted count r*(r, order)."""

    discounts: dict[int, dict[int, float]]

    def _p(self, word: str, history: Gram) -> float:
        follow = self.after(history)
        if not follow:
            return self.p(word, history[1:])
        stars = self.discounts[len(history) + 1]
        kept = {w: stars[count] for w, count in follow.items()}
        total = sum(follow.values())
        if len(follow) == len(self.vocabulary):
            return kept[word] / sum(kept.values())
        if abs(sum(kept.values()) - total) < 1e-9:
            total += 1
        if word in kept:
            return kept[word] / total
        left = 1 - sum(kept.values()) / total
        if not history:
            return left / (len(self.vocabulary) - len(follow))
        lower = sum(self.p(w, history[1:]) for w in self.vocabulary if w not in kept)
        return left * self.p(word, history[1:]) / lower


class KneserNey(Reference):
    """Interpolated, with D1, D2, D3+ (Chen and Goodman 1998)."""

    def __init__(self, sentences: Sequence[Sequence[str]], order: int) -> None:
        super().__init__(sentences, order)
        self.adjusted = {size: self._adjusted(size) for size in range(1, order + 1)}
        self.discounts = {size: self._discounts(size) for size in range(1, order + 1)}

    def _adjusted(self, size: int) -> dict[Gram, int]:
        own = {gram: n for gram, n in self.counts[size].items() if gram != ("<s>",)}
        if size == self.order:
            return own
        longer = self.counts[size + 1]
        return {
            gram: n if gram[0] == "<s>" else sum(1 for g in longer if g[1:] == gram)
            for gram, n in own.items()
        }

    def _discounts(self, size: int) -> list[float]:
        n = Counter(self.adjusted[size].values())
        if not (n[1] and n[2] and n[3]):
            return [0.5, 1.0, 1.5]
        y = n[1] / (n[1] + 2 * n[2])
        found = [1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
        fits = all(0 <= d <= j for j, d in enumerate(found, start=1))
        return found if fits else [0.5, 1.0, 1.5]

    def _p(self, word: str, history: Gram) -> float:
        table, discounts = self.adjusted[len(history) + 1], self.discounts[len(history) + 1]
        follow = {w: table[(*history, w)] for w in self.vocabulary if (*history, w) in table}
        shorter = self.p(word, history[1:]) if history else 1 / len(self.vocabulary)
        if not follow:
            return shorter
        total = sum(follow.values())
        gamma = sum(discounts[min(a, 3) - 1] for a in follow.values()) / total
        own = follow.get(word, 0)
        return (own - discounts[min(own, 3) - 1] if own else 0) / total + gamma * shorter
