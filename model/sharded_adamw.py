"""AdamW whose state is shared between workers (ZeRO stage 1, Rajbhandari et al. 2020).

Every worker has all parameters and all gradients, updates its share of the parameters, and gets the
rest from the others. A share is made of pieces, whole parameters or runs of elements: a vocabulary
matrix is often half of a model, and whole it would be one worker's burden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from model.distributed import Worker

Tensors = dict[str, torch.Tensor]

PIECES_PER_WORKER = 8
"""A piece is at most so small a part of a worker's share, which is how far shares can differ."""
STEP_OF_CUTS = 1024
"""Parameters are cut at multiples of this many elements, which keeps pieces aligned."""
STATES = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps of every parameter."""


@dataclass(frozen=True)
class Piece:
    """A run of elements of one parameter."""

    name: str
    begin: int
    end: int
    whole: bool
    """Whether it is all of its parameter."""


def pieces_of(sizes: Mapping[str, int], workers: int) -> list[list[Piece]]:
    """The shares of all workers: by size, the largest piece first, to whoever has least.

    Args:
        sizes: elements of each parameter.
    """
    most = -(-sum(sizes.values()) // (workers * PIECES_PER_WORKER))
    most = max(-(-most // STEP_OF_CUTS) * STEP_OF_CUTS, STEP_OF_CUTS)
    pieces = [
        Piece(name, begin, min(begin + most, size), size <= most)
        for name, size in sizes.items()
        for begin in range(0, size, most)
    ]
    shares: list[list[Piece]] = [[] for _ in range(workers)]
    filled = [0] * workers
    for piece in sorted(pieces, key=lambda piece: piece.begin - piece.end):
        rank = filled.index(min(filled))
        shares[rank].append(piece)
        filled[rank] += piece.end - piece.begin
    return shares


class ShardedAdamW(torch.optim.AdamW):
    """AdamW over this worker's pieces; a step updates the parameters of all workers alike.

    Args:
        parameters: by name, those with weight decay and those without; the same on all workers.
        worker: one of several.
    """

    def __init__(
        self,
        parameters: Sequence[Mapping[str, nn.Parameter]],
        worker: Worker,
        *,
        weight_decay: float,
        betas: tuple[float, float],
        epsilon: float,
    ) -> None:
        decayed, plain = parameters
        self.worker, self.whole = worker, {**decayed, **plain}
        shares = pieces_of({name: p.numel() for name, p in self.whole.items()}, worker.world_size)
        flat = {name: p.detach().view(-1) for name, p in self.whole.items()}
        self.views = [[flat[p.name][p.begin : p.end] for p in share] for share in shares]
        """The pieces of every worker, as views of the parameters."""
        self.own = dict(zip(shares[worker.rank], self.views[worker.rank], strict=True))
        groups: list[dict[str, Any]] = [
            {
                "params": [view for piece, view in self.own.items() if piece.name in names],
                "weight_decay": decay,
            }
            for names, decay in ((decayed, weight_decay), (plain, 0.0))
        ]
        super().__init__(groups, lr=0.0, betas=betas, eps=epsilon, fused=True)
        fill_state(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.whole.values():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update this worker's pieces, then get those of the others; called by all workers."""
        for piece, view in self.own.items():
            gradient = self.whole[piece.name].grad
            if gradient is not None:
                view.grad = gradient.reshape(-1)[piece.begin : piece.end]
        super().step(closure)
        for view in self.own.values():
            view.grad = None
        sent = [
            torch.distributed.broadcast(view, src=rank, async_op=True)
            for rank, views in enumerate(self.views)
            for view in views
        ]
        for work in sent:
            if work is not None:
                work.wait()

    def tensors(self) -> Tensors:
        """This worker's share of the live state; names as in `optimizer_tensors`."""
        tensors: Tensors = {}
        for piece, view in self.own.items():
            for key, value in self.state[view].items():
                mark = "" if piece.whole else f"@{piece.begin}"
                if piece.whole and value.ndim:
                    value = value.view(self.whole[piece.name].shape)
                tensors[f"{piece.name}/{key}{mark}"] = value.detach()
        return tensors

    def load(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take this worker's share out of the state of all workers, however many they were."""
        for piece, view in self.own.items():
            for key, value in assembled(tensors, piece.name, piece.begin, piece.end).items():
                self.state[view][key] = value.to(view.device)


def fill_state(optimizer: torch.optim.AdamW) -> None:
    """Make the state now, as the fused kernel would at its first step.

    What is not enough memory shows before training begins; and on a CPU state that is made among
    the activations of the first step leaves holes between them, 6 % of the peak of a small encoder
    with a large vocabulary.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            values = (
                torch.zeros((), dtype=torch.float32, device=parameter.device),
                torch.zeros_like(parameter),
                torch.zeros_like(parameter),
            )
            optimizer.state[parameter] = dict(zip(STATES, values, strict=True))


def assembled(tensors: Mapping[str, torch.Tensor], name: str, begin: int, end: int) -> Tensors:
    """The state of some elements of a parameter, from tensors named as in `optimizer_tensors`.

    Returns:
        By state, all STATES: flat tensors of end - begin elements, and scalars as they are.

    Raises:
        KeyError: a state is in none of the tensors, or some of its elements are not; or there is
            one that AdamW does not keep.
    """
    found: dict[str, list[tuple[int, torch.Tensor]]] = {}
    for full, value in tensors.items():
        owner, _, rest = full.rpartition("/")
        if owner == name:
            key, _, mark = rest.partition("@")
            found.setdefault(key, []).append((int(mark or 0), value))
    _check_states(found, name)
    state: Tensors = {}
    for key, parts in found.items():
        if parts[0][1].ndim == 0:
            state[key] = parts[0][1].clone()
            continue
        place, taken = begin, []
        for first, value in sorted(parts, key=lambda part: part[0]):
            flat = value.reshape(-1)
            if first <= place < min(first + len(flat), end):
                taken.append(flat[place - first : end - first])
                place += len(taken[-1])
        if place < end:
            raise KeyError(
                f"the optimizer's state has no {key} of {name} from element {place} on: a worker's "
                f"part is missing"
            )
        state[key] = torch.cat(taken)
    return state


def _check_states(found: Iterable[str], name: str) -> None:
    """Refuse a parameter without one of the states, which would go on from zeros, or with more."""
    keys = set(found)
    for key in STATES:
        if key not in keys:
            raise KeyError(
                f"the optimizer's state has no {key} of {name}, only {sorted(keys) or 'nothing'}"
            )
    if others := sorted(keys - set(STATES)):
        raise KeyError(f"the optimizer's state has {others[0]!r} of {name}: AdamW keeps {STATES}")
