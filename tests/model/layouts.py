"""Small encoders of every layout, and their equals in transformers."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from model.config import EncoderSection
from model.encoder import Encoder
from model.heads import MaskedLanguageModel
from model.hugging_face.configs import config_of, masked_class

ROWS, LENGTH = 101, 20


def section_of_layout(name: str, **more: Any) -> EncoderSection:
    """A section of two layers without dropout; `more` stands above it."""
    values: dict[str, Any] = {
        "layers": 2,
        "hidden_size": 24,
        "heads": 3,
        "feed_forward_size": 40,
        "dropout": 0.0,
    }
    values |= {
        "xlm-roberta": {},
        "bert": {"first_position": 0, "segments": 2, "norm_epsilon": 1e-12},
        "modernbert": {
            "norm": "pre",
            "positions": "rotary",
            "feed_forward": "geglu",
            "biases": False,
            "segments": 0,
        },
    }[name.removesuffix("+next")]
    values["next_sentence"] = name.endswith("+next")
    return EncoderSection.model_validate({**values, **more})


LAYOUTS = ("xlm-roberta", "bert", "bert+next", "modernbert")


def shaken(module: torch.nn.Module) -> None:
    """Give every parameter a value of its own, biases, norms and padding rows among them."""
    torch.manual_seed(3)
    for parameter in module.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)


def masked_model(section: EncoderSection, length: int = LENGTH) -> MaskedLanguageModel:
    """A model whose parameters are all different."""
    torch.manual_seed(2)
    model = MaskedLanguageModel(Encoder(section, ROWS, length))
    shaken(model)
    return model


def reference_of(section: EncoderSection, length: int = LENGTH) -> Any:
    """The model of transformers with random weights, tied; in evaluation mode."""
    torch.manual_seed(9)
    model = getattr(transformers, masked_class(section))(config_of(section, ROWS, length)).eval()
    model.tie_weights()
    return model


def padded_batch(rows: int = ROWS, length: int = LENGTH) -> torch.Tensor:
    """Four rows of ids, padded to `length`."""
    torch.manual_seed(5)
    tokens = torch.randint(4, rows, (4, length))
    tokens[:, 0] = 0
    for row, real in enumerate((length, length // 2, 3, length - 1)):
        tokens[row, real - 1] = 2
        tokens[row, real:] = 1
    return tokens


def halves(tokens: torch.Tensor) -> torch.Tensor:
    """Segments: the second half of each row is the second segment."""
    segments = torch.zeros_like(tokens)
    segments[:, tokens.shape[1] // 2 :] = 1
    return segments


def inputs_of(section: EncoderSection, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """What the reference is called with."""
    inputs = {"input_ids": tokens, "attention_mask": (tokens != 1).long()}
    if section.segments > 1:
        inputs["token_type_ids"] = halves(tokens)
    return inputs
