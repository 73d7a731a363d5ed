"""A sample of lines by q_i, for `train_on = "lines"`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.core.hashing import stable_fraction
from pipelines.core.held_out import held_out_of_file
from pipelines.core.manifest import Counters
from pipelines.core.store import Store
from pipelines.core.unigram import MAX_LINE_BYTES, NOT_TRAINED_ON, split_line, whole_lines_of


def copies(share_wanted: float, seed: int, *stable_id: Any) -> int:
    """How often a text is taken when each is wanted `share_wanted` times on average.

    Full copies, and one more for the fraction, drawn by the text's own id: 2.25 gives every text
    two copies and a quarter of them a third one.
    """
    full = int(share_wanted)
    return full + (stable_fraction(seed, *stable_id) < share_wanted - full)


def copies_wanted(
    shares: Mapping[str, float],
    characters: Mapping[str, int],
    sample_characters: int,
    max_repeats: float,
) -> dict[str, float]:
    """Average copies of a line by language, so that the sample has the shares q_i in characters.

    The sample holds `sample_characters`, or as much as the corpus has. No language is repeated
    more often than the balance allows, even when characters and its own unit disagree.
    """
    both = sorted(shares.keys() & characters.keys())
    whole = min(sample_characters, sum(characters[language] for language in both))
    return {
        language: min(shares[language] * whole / characters[language], max_repeats)
        for language in both
    }


@dataclass
class Sample:
    """The lines that are drawn from files of documents; every pass over it draws the same."""

    store: Store
    files: Mapping[str, Sequence[str]]
    """Keys of files of documents, by language."""
    wanted: Mapping[str, float]
    """Average copies of a line, by language."""
    config: Mapping[str, Any]
    """With `held_out_share` and `seed`."""
    counters: Counters = field(default_factory=Counters)
    """Of the last pass, by language: sample_lines, sample_characters, split_lines,
    replaced_characters, and what the trainer would leave out for its length: skipped_lines and
    skipped_bytes."""

    def draw(self) -> Iterator[tuple[str, str, int]]:
        """Yield (language, line, copies) for every line that is drawn at least once."""
        self.counters.clear()
        for language in sorted(self.wanted):
            for name in ("skipped_lines", "skipped_bytes", "split_lines"):
                self.counters[f"{name}/{language}"] = 0
            for key in self.files[language]:
                yield from self._draw_file(language, key)

    def _draw_file(self, language: str, key: str) -> Iterator[tuple[str, str, int]]:
        share, seed = self.config["held_out_share"], self.config["seed"]
        held_out = held_out_of_file(self.store, key, share, seed)
        count = self.counters
        for table in self.store.iterate_tables(key, columns=["id", "text"]):
            for name, text in zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True):
                if name in held_out:
                    continue
                replaced = sum(map(text.count, NOT_TRAINED_ON))
                if replaced:
                    count[f"replaced_characters/{language}"] += replaced
                number = 0
                for whole in whole_lines_of(text):
                    lines = list(split_line(whole))
                    count[f"split_lines/{language}"] += len(lines) > 1
                    for line in lines:
                        size = len(line.encode("utf-8"))
                        if size > MAX_LINE_BYTES:
                            count[f"skipped_lines/{language}"] += 1
                            count[f"skipped_bytes/{language}"] += size
                            continue
                        times = copies(
                            self.wanted[language], self.config["seed"], "vocabulary", name, number
                        )
                        number += 1
                        if times:
                            count[f"sample_lines/{language}"] += times
                            count[f"sample_characters/{language}"] += len(line) * times
                            yield language, line, times
