"""Which documents are held out."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.held_out import is_held_out, split_held_out

IDS = st.lists(st.text(max_size=6), max_size=12)
SHARES = st.floats(0, 1, exclude_max=True)


@given(IDS, SHARES, SHARES, st.integers(0, 100))
def test_a_smaller_share_holds_out_no_other_document(
    ids: list[str], one: float, other: float, seed: int
) -> None:
    small, large = sorted((one, other))
    assert split_held_out(ids, small, seed) <= split_held_out(ids, large, seed)


@given(IDS, SHARES, st.integers(0, 100))
def test_a_file_never_loses_all_its_documents(ids: list[str], share: float, seed: int) -> None:
    held_out = split_held_out(ids, share, seed)
    below = {name for name in ids if is_held_out(name, share, seed)}
    assert held_out <= below
    assert len(below - held_out) == (below == set(ids) and bool(ids))
    assert not ids or held_out < set(ids)
