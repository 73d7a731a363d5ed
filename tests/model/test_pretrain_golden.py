from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .golden_curve import CURVES, GOLDEN, curve_of

AGREEMENT = 1e-6
HINT = "if the change is meant: python -m tests.model.golden_curve"


def assert_same(found: Any, wanted: Any, where: str) -> None:
    """Equal in form; numbers with a fraction to 1e-6 of themselves."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), f"{where}; {HINT}"
        for key in wanted:
            assert_same(found[key], wanted[key], f"{where}/{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), f"{where}; {HINT}"
        for number, pair in enumerate(zip(found, wanted, strict=True)):
            assert_same(*pair, f"{where}/{number}")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=AGREEMENT, abs=0), f"{where}; {HINT}"
    else:
        assert found == wanted, f"{where}; {HINT}"


@pytest.mark.parametrize("name", sorted(CURVES))
def test_fifty_steps_give_the_stored_curve(name: str, tmp_path: Path) -> None:
    wanted = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    wanted.pop("made_with")
    found = json.loads(json.dumps(curve_of(name, tmp_path)))
    assert len(found["log"]) == 50
    assert_same(found, wanted, name)
