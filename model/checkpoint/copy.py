"""A copy of live tensors on the host, so that training may change them while they are written."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from model.checkpoint.files import Tensors


class HostCopy:
    """Buffers on the host, made at the first copy and used again by all others.

    They are page-locked where the tensors are on a GPU, so that the copy runs at the speed of the
    bus. Tensors that share memory are copied once each.
    """

    def __init__(self) -> None:
        self._buffers: Tensors = {}

    def take(self, tensors: Mapping[str, torch.Tensor]) -> Tensors:
        """Copy tensors; returns when the copy is whole.

        The result is overwritten by the next call.
        """
        for name in self._buffers.keys() - tensors.keys():
            del self._buffers[name]
        for name, tensor in tensors.items():
            there = self._buffers.get(name)
            if there is None or there.shape != tensor.shape or there.dtype != tensor.dtype:
                pinned = tensor.device.type == "cuda"
                there = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
                self._buffers[name] = there
            there.copy_(tensor.detach(), non_blocking=True)
        for device in {t.device for t in tensors.values() if t.device.type == "cuda"}:
            torch.cuda.current_stream(device).synchronize()
        return dict(self._buffers)

    def free(self) -> None:
        """Give the memory back."""
        self._buffers.clear()
