"""What masking takes and gives: the rule, and the masks of many sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint32]
Positions = npt.NDArray[np.uint16]
Offsets = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

MaskingUnit = Literal["token", "word", "span"]

LONGEST_SEQUENCE = 65_535
"""Tokens of a sequence: positions and lengths of words are kept in 16 bits."""
LONGEST_SPAN_WORDS = 10
"""SpanBERT's l_max."""
LARGEST_MEAN_SPAN_WORDS = (LONGEST_SPAN_WORDS + 1) / 2
"""A geometric distribution cut off at l_max is flat at most."""


@dataclass(frozen=True)
class MaskingRule:
    """How to mask. Probabilities are of a chosen position.

    Raises:
        ValueError: a setting has no meaning; it is named with its value.
    """

    rate: float
    """Share of ordinary tokens that are chosen for prediction, above 0 and at most 1."""
    mask_probability: float
    """Chosen position becomes <mask>."""
    random_probability: float
    """Chosen position becomes a random ordinary token; the rest stays as it is."""
    mask_id: int
    special_ids: frozenset[int]
    """Ids that are never chosen and never inserted; `mask_id` always is one."""
    unit: MaskingUnit = "token"
    """What is chosen: single tokens, whole words, or spans of whole words."""
    mean_span_words: float = 3.8
    """Only span: mean length in words of the geometric distribution cut off at 10 words."""

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate is {self.rate}; need a share above 0 and at most 1")
        shares = (self.mask_probability, self.random_probability)
        if min(shares) < 0 or sum(shares) > 1 + 1e-9:
            raise ValueError(
                f"mask_probability and random_probability are {shares[0]} and {shares[1]}; "
                "need shares whose sum is at most 1"
            )
        if self.unit not in get_args(MaskingUnit):
            raise ValueError(
                f"unit is {self.unit!r}; need one of {', '.join(get_args(MaskingUnit))}"
            )
        if not 1 <= self.mean_span_words <= LARGEST_MEAN_SPAN_WORDS:
            raise ValueError(
                f"mean_span_words is {self.mean_span_words}; need 1 ... {LARGEST_MEAN_SPAN_WORDS}: "
                f"spans have at most {LONGEST_SPAN_WORDS} words"
            )


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of several sequences: sequence i has the entries offsets[i] ... offsets[i + 1]."""

    positions: Positions
    """Chosen positions inside their sequence, rising, shape (chosen,)."""
    tokens: Ids
    """The ids to put there, shape (chosen,)."""
    offsets: Offsets
    """Shape (sequences + 1,)."""
