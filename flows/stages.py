"""The stages of a run, in order, as plain data: what both Prefect and the terminal walk through."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flows.config import RunConfig

FLOW_NAME = "pretrain-multilingual"
"""Name of the flow; its deployments are named after the presets."""

DEFAULT_DEPLOYMENT = "demo"
"""The deployment, and preset, that is meant when none is named."""


@dataclass(frozen=True)
class Stage:
    """One stage: its driver is a command that takes `--store URL --run RUN`."""

    name: str
    """Lower-case; the name of its record on the store, and of its Prefect task."""
    command: tuple[str, ...]
    """What the interpreter is given: `-m`, a module, and its arguments."""
    purpose: str
    """One line for people."""

    def arguments(self, store: str, run: str) -> list[str]:
        """The driver's whole command line, for the interpreter of this process."""
        return [sys.executable, *self.command, "--store", store, "--run", run]


def _data(name: str, purpose: str) -> Stage:
    return Stage(name, ("-m", "pipelines.run_stage", name), purpose)


def _model(name: str, purpose: str) -> Stage:
    return Stage(name, ("-m", "model.run_train", name), purpose)


STAGES: tuple[Stage, ...] = (
    _data("extract", "read the sources' files and identify each document's language"),
    _data("filter", "drop documents that are not running text"),
    _data("deduplicate", "drop repeated documents and paragraphs"),
    _data("perplexity", "score documents by an n-gram model of their language"),
    _data("balance", "compute each language's share, q_i = p_i^alpha / sum_j p_j^alpha"),
    _data("vocabulary", "train the Unigram vocabulary on a balanced sample"),
    _data("pack", "encode, pack and mask sequences; hold some out"),
    _model("pretrain", "train the encoder by masked language modelling"),
    _model("export", "write the model as a Hugging Face folder"),
    _model("finetune", "train and score the heads"),
    Stage("report", ("-m", "flows.report"), "write the page of the run"),
)
"""Every stage there is. A stage starts only when the one before it has succeeded."""


def stages_of(config: RunConfig) -> tuple[Stage, ...]:
    """The stages a run goes through: those that its settings leave nothing to do are not there."""
    return _stages(config.perplexity.enabled, bool(config.finetuning))


def stages_of_tree(tree: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The same from a run's configuration as a plain tree."""
    enabled = tree.get("perplexity", {}).get("enabled", False)
    return _stages(bool(enabled), tree.get("finetuning") != [])


def _stages(perplexity: bool, finetuning: bool) -> tuple[Stage, ...]:
    wanted = {"perplexity": perplexity, "finetune": finetuning}
    return tuple(stage for stage in STAGES if wanted.get(stage.name, True))
