"""AdamW with decay on matrices only; its state whole, or shared between workers.

Source: Loshchilov and Hutter 2019 (AdamW). Biases and norms are not decayed, as in BERT; embeddings
are, as in BERT and RoBERTa.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from model.config import PretrainingSection
from model.distributed import Worker
from model.sharded_adamw import ShardedAdamW, Tensors, assembled, fill_state


def build_optimizer(
    model: nn.Module, settings: PretrainingSection, worker: Worker
) -> torch.optim.Optimizer:
    """The optimizer of pretraining; with `shard_optimizer` and several workers, this one's share.

    The learning rate is set before every update.
    """
    betas = (settings.beta1, settings.beta2)
    if settings.shard_optimizer and worker.world_size > 1:
        return ShardedAdamW(
            split_parameters(model),
            worker,
            weight_decay=settings.weight_decay,
            betas=betas,
            epsilon=settings.epsilon,
        )
    return build_adamw(
        model, weight_decay=settings.weight_decay, betas=betas, epsilon=settings.epsilon
    )


def build_adamw(
    model: nn.Module, *, weight_decay: float, betas: tuple[float, float], epsilon: float
) -> torch.optim.AdamW:
    """AdamW over all parameters of a model; the learning rate is set before every update."""
    decayed, plain = split_parameters(model)
    groups = [
        {"params": list(decayed.values()), "weight_decay": weight_decay},
        {"params": list(plain.values()), "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=epsilon, fused=True)
    fill_state(optimizer)
    return optimizer


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
    """The optimizer's live state as tensors named `PARAMETER/STATE`; a step changes them.

    Of a sharded optimizer only this worker's share, with `PARAMETER/STATE@BEGIN` for a part of a
    parameter: flat, from that element on. The tensors of all workers together are the whole state.
    """
    if isinstance(optimizer, ShardedAdamW):
        return optimizer.tensors()
    return {
        f"{name}/{key}": value.detach()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def load_optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave, of all workers together, however many they were.

    A sharded optimizer takes its share.

    Raises:
        KeyError: a tensor belongs to no parameter of this model, or a part of the state of one of
            its parameters is missing.
    """
    parameters = dict(model.named_parameters())
    if unknown := sorted({full.rpartition("/")[0] for full in tensors} - parameters.keys()):
        raise KeyError(f"the optimizer's state has {unknown[0]!r}, which the model has not")
    if isinstance(optimizer, ShardedAdamW):
        optimizer.load(tensors)
        return
    for name, parameter in parameters.items():
        state = assembled(tensors, name, 0, parameter.numel())
        for key, value in state.items():
            # The fused kernel keeps its step count beside the parameter.
            whole = value if value.ndim == 0 else value.view(parameter.shape)
            optimizer.state[parameter][key] = whole.to(parameter.device)
