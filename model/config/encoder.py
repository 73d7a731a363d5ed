"""The bidirectional transformer ([encoder]): a preset is data, a file of model/presets."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from model.config.types import PositiveInt, Rate
from pipelines.core.config import Config

Layout = Literal["xlm-roberta", "bert", "modernbert"]

LAYOUTS: dict[Layout, tuple[str, dict[str, Any]]] = {
    "xlm-roberta": (
        "XLM-R",
        {
            "first_position": 2,
            "positions": "learned",
            "feed_forward": "gelu",
            "biases": True,
            "next_sentence": False,
        },
    ),
    "bert": ("BERT", {"positions": "learned", "feed_forward": "gelu", "biases": True}),
    "modernbert": (
        "ModernBERT",
        {"positions": "rotary", "feed_forward": "geglu", "segments": 0, "next_sentence": False},
    ),
}
"""What a layout of transformers leaves no choice about."""

PRESETS = Path(__file__).resolve().parent.parent / "presets"


def preset_names() -> list[str]:
    """Names of the encoder presets, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset_values(name: str) -> dict[str, Any]:
    """The settings of an encoder preset.

    Raises:
        ValueError: there is none of that name; the nearest one is named.
    """
    known = preset_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"no such encoder preset; {hint}known: {', '.join(known)}")
    return tomllib.loads((PRESETS / f"{name}.toml").read_text(encoding="utf-8"))


class EncoderSection(Config):
    """The bidirectional transformer ([encoder]). Without a preset the defaults are XLM-R base."""

    preset: str | None = None
    """A file of model/presets: xlmr-base, xlmr-large, bert-base, bert-large, modern, demo. The
    settings below that are given stand above those of the preset."""
    layers: PositiveInt = 12
    hidden_size: PositiveInt = 768
    heads: PositiveInt = 12
    feed_forward_size: PositiveInt = 3072
    """Width inside the feed-forward part; of geglu, of each of its two halves."""
    norm: Literal["post", "pre"] = "post"
    """Where the layer norms stand: behind each residual (BERT, XLM-R) or before each sub-layer,
    with one more behind the last layer (ModernBERT)."""
    positions: Literal["learned", "rotary"] = "learned"
    """A learnt vector for each position, or rotation of queries and keys (Su et al. 2021)."""
    first_position: Annotated[int, Field(ge=0, le=2)] = 2
    """Row of the table for the first token: 2 in RoBERTa and XLM-R, 0 in BERT."""
    rotary_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the rotation's wavelengths."""
    feed_forward: Literal["gelu", "geglu"] = "gelu"
    """Dense, GELU, dense; or gated: dense x GELU(dense), dense (Shazeer 2020)."""
    biases: bool = True
    """Whether dense layers and norms have biases; the output bias of the decoder always stays."""
    segments: Annotated[int, Field(ge=0, le=2)] = 1
    """Rows of the segment table: 1 in XLM-R, 2 in BERT, 0 without one."""
    next_sentence: bool = False
    """Whether the model also learns if the second segment follows the first (BERT); needs
    packing.mode = pairs."""
    norm_epsilon: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """XLM-R, ModernBERT: 1e-5; BERT: 1e-12."""
    dropout: Rate = 0.1
    """After embeddings, attention weights and sub-layers, as in BERT."""
    attention_dropout: Rate | None = None
    """On attention weights; not given: as `dropout`. PyTorch's variable-length kernel, with which
    a GPU encodes documents apart in bfloat16, has none: 0 lets training use it."""
    initializer_std: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of the normal distribution weights start from."""

    @model_validator(mode="before")
    @classmethod
    def _preset_first(cls, given: Any) -> Any:
        """Lay the given settings over those of the preset."""
        if not isinstance(given, Mapping) or not isinstance(given.get("preset"), str):
            return given
        return {**preset_values(given["preset"]), **given}

    @model_validator(mode="after")
    def _heads_divide_hidden(self) -> EncoderSection:
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of heads {self.heads}"
            )
        if self.positions == "rotary" and self.hidden_size // self.heads % 2:
            raise ValueError(
                f"hidden_size / heads = {self.hidden_size // self.heads}: rotary positions turn "
                "pairs of dimensions, so it has to be even"
            )
        return self

    @model_validator(mode="after")
    def _segments_for_pairs(self) -> EncoderSection:
        if self.next_sentence and self.segments != 2:
            raise ValueError(f"next_sentence needs segments = 2, not {self.segments}")
        return self

    @model_validator(mode="after")
    def _has_a_layout(self) -> EncoderSection:
        name, wanted = LAYOUTS[self.layout]
        wrong = [
            f"{setting} = {value!r}, not {getattr(self, setting)!r}"
            for setting, value in wanted.items()
            if getattr(self, setting) != value
        ]
        if self.norm == "post" and not self.segments:
            wrong.append("a segment table: segments = 1 or 2")
        if wrong:
            raise ValueError(
                f"norm = {self.norm!r} and first_position = {self.first_position} make the layout "
                f"of {name}, which has {'; '.join(wrong)}. Another mix could not be exported"
            )
        return self

    @property
    def layout(self) -> Layout:
        """The layout of transformers that these settings make, by its model type."""
        if self.norm == "pre":
            return "modernbert"
        return "xlm-roberta" if self.first_position else "bert"

    @property
    def dropout_of_attention(self) -> float:
        """Probability with which attention weights are dropped in training."""
        return self.dropout if self.attention_dropout is None else self.attention_dropout
