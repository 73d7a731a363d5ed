"""The kinds of fine-tuning task, by the `kind` of their settings."""

from collections.abc import Sequence

from model.config import FinetuningTask
from model.tasks.base import Task
from model.tasks.classification import Classification
from pipelines.core.config import ConfigError

TASKS: dict[str, Task] = {"classification": Classification()}


def check_tasks(tasks: Sequence[FinetuningTask], length: int) -> None:
    """Refuse tasks that cannot work, before anything is trained for them.

    Args:
        length: tokens the encoder reads, packing.length.

    Raises:
        ConfigError: two tasks have one name, or a task's own settings cannot work.
    """
    if len({task.name for task in tasks}) < len(tasks):
        raise ConfigError("finetuning: two tasks have the same name")
    for task in tasks:
        TASKS[task.kind].check(task, length)
