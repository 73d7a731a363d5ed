"""Which sequence is global sample g: a pure function, so resume is a number and not a replay.

Training is cut into phases, each with its own shares q, and a phase into blocks of B samples.

- **How many.** The counts of the languages at the end of block b are round(Q_i x) - round(Q_{i-1}
  x), with x = (b + 1) B and Q the cumulated shares: they sum to x, and each is less than 1 away
  from q_i x. B is the least number with q_i B >= 1 for every language; so a count that is above
  q_i x - 1 at one end is above q_i x + q_i B - 1 >= q_i x, and thus, as a whole number below
  q_i x + 1 before, never less than it was. The last block of a phase takes what is left, B to 2 B
  - 1 samples, so that a phase ends at a block's end.
  Shares are kept as multiples of 2^-40, scaled to sum to 1 exactly; q_i above is such a multiple.
  From the share that was asked for, a count after x samples is thus less than 1 + x / 2^40 away:
  within 2 up to 2^40 (about 10^12) samples, within 5 at the limit of a phase, 2^42.
- **Where.** Inside a block of m samples every language owns an interval of as many slots as it has
  samples there. Sample r takes slot (A r + c) mod m, with A near m / golden ratio and coprime to
  m: each slot is taken once, and any run of samples, a batch say, holds q_i of itself within a few.
- **Which.** A sample's number among its language's is what was drawn before the block, and how many
  earlier samples of the block fell into the same interval: a sum of floors, found in O(log m). The
  number divided by the language's sequences gives pass and position, and the position goes through
  a permutation keyed by (seed, language, pass). So no sequence comes twice before all came once,
  in every language, at every sample, across phases.

Memory is O(languages) for the plan and O(samples + languages) for what is drawn from it. The order
depends on the seed, on every language's number of sequences and share, and on the phases; workers,
batches and files are no part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from model.data.sample_order import (
    LARGEST_BLOCK,
    MOST_SAMPLES,
    SHARE_BITS,
    Ints,
    exact_shares,
    hits,
    multiplier,
    permuted,
    rounded_counts,
)
from pipelines.core.hashing import mix64, stable_uint64


@dataclass(frozen=True, slots=True)
class Sample:
    """Where a global sample is found."""

    language: str
    row: int
    """Index into the language's sequences."""
    pass_index: int
    """How often the language was gone through before; another pass has other masks."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Where consecutive global samples are found; all arrays have shape (count,)."""

    languages: Ints
    """Index into the plan's `languages`."""
    rows: Ints
    """Index into the language's sequences."""
    passes: Ints
    """How often the language was gone through before."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of training with shares of its own."""

    samples: int | None
    """Its length; None, only for the last, has no end."""
    shares: Mapping[str, float]
    """q by language, scaled to sum to 1; a language that is not named is not drawn."""


@dataclass(frozen=True)
class _Blocks:
    """Consecutive blocks of one size, of one phase."""

    first: int
    """Global number of the first sample."""
    end: int | None
    size: int
    begin: int
    """Samples of the phase before them."""
    cumulated: Ints
    """Cumulated shares of the phase in units of 2^-40, from 0, shape (languages + 1,)."""
    before: Ints
    """Samples of each language before the phase, shape (languages,)."""
    key: int

    def draw(self, places: Ints) -> tuple[Ints, Ints]:
        """Languages of samples, and their numbers among their languages' samples.

        Args:
            places: rising sample numbers inside these blocks, from 0, shape (count,).
        """
        blocks, inside = np.divmod(places, self.size)
        lowest = int(blocks[0])
        rows = blocks - lowest
        numbers = np.arange(lowest, int(blocks[-1]) + 2)
        counted = rounded_counts(self.cumulated, self.begin + numbers * self.size)
        bounds = counted[1:] - counted[:-1]
        offsets = self._offsets(numbers[:-1])[rows]
        factor = multiplier(self.size)
        slots = (factor * inside + offsets) % self.size
        # Row k of the bounds is moved up by k blocks, so that one search serves all rows.
        upper = (bounds[:, 1:] + np.arange(len(bounds))[:, None] * self.size).ravel()
        found = np.searchsorted(upper, slots + rows * self.size, side="right")
        languages = found - rows * len(self.before)
        begins, ends = bounds[rows, languages], bounds[rows, languages + 1]
        earlier = counted[rows, languages + 1] - counted[rows, languages]
        rank = hits(inside, self.size, factor, offsets, begins, ends)
        return languages, self.before[languages] + earlier + rank

    def drawn(self, place: int) -> Ints:
        """Samples of each language before sample `place` of these blocks, shape (languages,)."""
        block, inside = divmod(place, self.size)
        number = np.array([block, block + 1], dtype=np.int64)
        counted = rounded_counts(self.cumulated, self.begin + number * self.size)
        whole: Ints = self.before + np.diff(counted[0])
        if not inside:
            return whole
        bounds = counted[1] - counted[0]
        length = np.full(len(whole), inside, dtype=np.int64)
        offset = np.broadcast_to(self._offsets(number[:1]), length.shape)
        factor = multiplier(self.size)
        return whole + hits(length, self.size, factor, offset, bounds[:-1], bounds[1:])

    def _offsets(self, blocks: Ints) -> Ints:
        """The slot of a block's first sample, shape (blocks,)."""
        keys = mix64(np.uint64(self.key) + blocks.astype(np.uint64))
        return (keys % np.uint64(self.size)).astype(np.int64)


class SamplePlan:
    """The order of training samples.

    Args:
        counts: sequences by language, all above 0.
        phases: one after the other, at least one.
        seed: of the run.

    Raises:
        ValueError: a count is 0, a phase draws from a language without sequences or from none, a
            language is drawn in no phase, a phase before the last has no end, or a share is too
            small for its phase.
    """

    def __init__(self, counts: Mapping[str, int], phases: Sequence[Phase], seed: int) -> None:
        self.counts, self.seed, self.phases = dict(counts), seed, tuple(phases)
        self.languages = sorted(counts)
        _check(self.counts, self.phases)
        self._sizes = np.array([counts[tag] for tag in self.languages], dtype=np.int64)
        keys = [stable_uint64(seed, "order", tag) for tag in self.languages]
        self._keys = np.array(keys, dtype=np.uint64)
        self._blocks: list[_Blocks] = []
        first, before = 0, np.zeros(len(counts), dtype=np.int64)
        for number, phase in enumerate(self.phases):
            key = stable_uint64(seed, "block", number)
            self._blocks += _blocks_of(phase, self.languages, first, before, key)
            if phase.samples:
                first += phase.samples
                before = self._blocks[-1].drawn(first - self._blocks[-1].first)
        self.length = None if self.phases[-1].samples is None else first
        """Samples of all phases together; None is without end."""

    def sample(self, index: int) -> Sample:
        """Global sample number `index`, from 0.

        Raises:
            IndexError: it is negative, or the phases end before it.
        """
        found = self.samples(index, 1)
        language = self.languages[int(found.languages[0])]
        return Sample(language, int(found.rows[0]), int(found.passes[0]))

    def samples(self, first: int, count: int) -> Samples:
        """Global samples `first` to `first + count - 1`.

        Raises:
            IndexError: `first` or `count` is negative, or the phases end before the last of them.
        """
        parts = [blocks.draw(places) for blocks, places in self._parts(first, count)]
        empty = np.empty(0, dtype=np.int64)
        languages = np.concatenate([empty, *(part[0] for part in parts)])
        numbers = np.concatenate([empty, *(part[1] for part in parts)])
        sizes = self._sizes[languages]
        passes, positions = np.divmod(numbers, sizes)
        keys = mix64(self._keys[languages] + mix64(passes.astype(np.uint64)))
        return Samples(languages, permuted(positions, sizes, keys), passes)

    def drawn(self, budget: int) -> Ints:
        """Samples of each language among the first `budget`, shape (languages,), in O(log B).

        Raises:
            IndexError: `budget` is negative or more than the phases have.
        """
        self._check_range(0, budget)
        if not budget:
            return np.zeros(len(self.languages), dtype=np.int64)
        blocks = next(b for b in self._blocks if b.end is None or budget <= b.end)
        return blocks.drawn(budget - blocks.first)

    def _parts(self, first: int, count: int) -> Iterator[tuple[_Blocks, Ints]]:
        self._check_range(first, count)
        for blocks in self._blocks:
            begin = max(first, blocks.first)
            end = first + count if blocks.end is None else min(first + count, blocks.end)
            if begin < end:
                yield blocks, np.arange(begin - blocks.first, end - blocks.first, dtype=np.int64)

    def _check_range(self, first: int, count: int) -> None:
        end = MOST_SAMPLES if self.length is None else self.length
        if first < 0 or count < 0 or first + count > end:
            raise IndexError(f"samples {first} to {first + count}: the plan has 0 to {end}")


def _blocks_of(
    phase: Phase, languages: Sequence[str], first: int, before: Ints, key: int
) -> list[_Blocks]:
    """The blocks of a phase that begins at sample `first`: all but the last, and the last."""
    units = exact_shares([phase.shares.get(tag, 0.0) for tag in languages])
    cumulated = np.concatenate([[0], np.cumsum(units)])
    q, rarest = min((q, tag) for tag, q in phase.shares.items() if q > 0)
    least = int(units[languages.index(rarest)])
    size = math.ceil((1 << SHARE_BITS) / least) if least else MOST_SAMPLES
    whole = 0 if phase.samples is None or phase.samples < 2 * size else phase.samples // size - 1
    largest = size if phase.samples is None else phase.samples - whole * size
    if largest > LARGEST_BLOCK:
        raise ValueError(
            f"the share of {rarest!r}, {q:.3g}, is too small to be met in {LARGEST_BLOCK:,} "
            "samples; leave the language out, or give it more"
        )
    if phase.samples is None:
        return [_Blocks(first, None, size, 0, cumulated, before, key)]
    middle, end = first + whole * size, first + phase.samples
    parts = [
        _Blocks(first, middle, size, 0, cumulated, before, key),
        _Blocks(middle, end, largest, whole * size, cumulated, before, key),
    ]
    return [part for part in parts if part.first != part.end]


def _check(counts: Mapping[str, int], phases: Sequence[Phase]) -> None:
    if not counts or not phases:
        raise ValueError("a plan needs sequences and a phase")
    if empty := sorted(tag for tag, count in counts.items() if count <= 0):
        raise ValueError(f"no sequence of: {', '.join(empty)}")
    for number, phase in enumerate(phases):
        where = f"phase {number + 1} of {len(phases)}"
        if unknown := sorted(phase.shares.keys() - counts.keys()):
            raise ValueError(
                f"{where} has shares of {unknown}, sequences are of {sorted(counts)}; need the same"
            )
        if not all(q >= 0 and math.isfinite(q) for q in phase.shares.values()):
            raise ValueError(f"{where}: shares are {dict(phase.shares)}; need 0 or more")
        if not any(phase.shares.values()):
            raise ValueError(f"{where}: no language has a share above 0")
        if phase.samples is None and number + 1 < len(phases):
            raise ValueError(f"{where} has no end; only the last may have none")
        if phase.samples is not None and not 0 <= phase.samples <= MOST_SAMPLES:
            raise ValueError(f"{where} has {phase.samples} samples; need 0 to {MOST_SAMPLES:,}")
    drawn = {tag for phase in phases for tag, q in phase.shares.items() if q > 0}
    if never := sorted(counts.keys() - drawn):
        raise ValueError(f"{never} have sequences and no share in any phase; need the same")
