"""How training ends before its last step, and whether starting it again could help."""

from __future__ import annotations

import torch

from model.update import UpdateRefusedError
from pipelines.core.config import ConfigError
from pipelines.core.store import DamagedObject, may_pass

LASTING = (ConfigError, DamagedObject, UpdateRefusedError, torch.OutOfMemoryError, MemoryError)
MISTAKES = (LookupError, ArithmeticError, AssertionError, ImportError, NotImplementedError)


class TrainingFailed(RuntimeError):
    """Training stopped; the message says at which step and why."""


class RepeatingError(RuntimeError):
    """An error that a restart would only repeat; the message is the first error's."""


class DriverStopped(SystemExit):
    """The driver was told to stop by a signal; its exit status is 128 + the signal's number."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(128 + signal_number)


def would_repeat(error: Exception) -> bool:
    """Whether the same error would come again after a restart from the last checkpoint.

    A lost peer shows as a plain RuntimeError of the collectives, a store that stumbles as an
    OSError or an error of its library: these may be gone. A wrong setting, a damaged object, a loss
    that is no number and mistakes in the code are not.
    """
    return isinstance(error, (*LASTING, *MISTAKES)) or not may_pass(error)


def reason_of(error: BaseException) -> str:
    """What a person should read: our own words as they are, other errors with their kind."""
    own = type(error).__module__.split(".")[0] in ("model", "pipelines")
    return str(error) if own else f"{type(error).__name__}: {error}"
