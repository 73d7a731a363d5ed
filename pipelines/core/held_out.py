"""Which documents are kept for evaluation: never trained on, by model or vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.hashing import stable_fraction


def is_held_out(document_id: str, share: float, seed: int) -> bool:
    """Whether a document is kept for evaluation: a function of its id alone.

    A smaller share picks among the documents of a larger one.
    """
    return stable_fraction(seed, "held-out", document_id) < share


def split_held_out(ids: Sequence[str], share: float, seed: int) -> set[str]:
    """The ids of a file that are held out; never all of them."""
    held_out = {name for name in ids if is_held_out(name, share, seed)}
    return set() if len(held_out) == len(set(ids)) else held_out
