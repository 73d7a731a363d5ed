"""Types that the sections share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

PositiveInt = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]
