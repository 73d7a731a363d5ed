"""The kinds of fine-tuning task, by the `kind` of their settings."""

from model.tasks.base import Task
from model.tasks.classification import Classification

TASKS: dict[str, Task] = {"classification": Classification()}
