"""Types that the sections share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

PositiveInt = Annotated[int, Field(gt=0, le=2**53)]
"""1 and more; the upper bound only keeps a slip of the keyboard from overflowing a counter."""
Share = Annotated[float, Field(ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""64 lower-case hex digits."""
