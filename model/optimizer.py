"""AdamW with decay on matrices only.

Source: Loshchilov and Hutter 2019 (AdamW); no decay on biases and norms as in BERT.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

Tensors = dict[str, torch.Tensor]


def build_adamw(
    model: nn.Module, *, weight_decay: float, betas: tuple[float, float], epsilon: float
) -> torch.optim.AdamW:
    """AdamW over all parameters of a model; the learning rate is set before every update."""
    decayed, plain = split_parameters(model)
    groups = [
        {"params": list(decayed.values()), "weight_decay": weight_decay},
        {"params": list(plain.values()), "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=epsilon, fused=True)


def split_parameters(
    model: nn.Module,
) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Parameters by name: those with weight decay, and biases and norms, without."""
    decayed = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    plain = {name: p for name, p in model.named_parameters() if p.ndim < 2}
    return decayed, plain


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimizer's state as tensors named `PARAMETER/STATE`, on the CPU."""
    return {
        f"{name}/{key}": value.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def load_optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave.

    Raises:
        KeyError: a tensor belongs to no parameter of this model.
    """
    parameters = dict(model.named_parameters())
    for full, value in tensors.items():
        name, _, key = full.rpartition("/")
        parameter = parameters[name]
        # The fused kernel keeps its step count beside the parameter.
        optimizer.state[parameter][key] = value.to(parameter.device)
