"""Which documents are kept for evaluation: never trained on, by model or vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.hashing import stable_fraction
from pipelines.core.store import Store


def is_held_out(document_id: str, share: float, seed: int) -> bool:
    """Whether a document is kept for evaluation: a function of its id alone.

    A smaller share picks among the documents of a larger one.
    """
    return stable_fraction(seed, "held-out", document_id) < share


def split_held_out(ids: Sequence[str], share: float, seed: int) -> set[str]:
    """The ids of a file that are held out; never all of them.

    Where all would be, the last one by its draw stays. So what a smaller share holds out is held
    out by a larger one too.
    """
    drawn = {name: stable_fraction(seed, "held-out", name) for name in ids}
    held_out = {name for name, fraction in drawn.items() if fraction < share}
    if len(held_out) == len(drawn):
        held_out.discard(max(drawn, key=lambda name: (drawn[name], name), default=""))
    return held_out


def held_out_of_file(store: Store, key: str, share: float, seed: int) -> set[str]:
    """The ids of a file of documents that are held out; see `split_held_out`."""
    tables = store.iterate_tables(key, columns=["id"])
    return split_held_out(
        [name for table in tables for name in table["id"].to_pylist()], share, seed
    )
