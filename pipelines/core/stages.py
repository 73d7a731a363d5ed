"""A stage of a run as its code sees it: earlier stages' records in, steps run, one record out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.core.manifest import StageRecord, read_stage
from pipelines.core.shards import Notes, Step, Unit, run_step
from pipelines.core.store import Store


@dataclass(frozen=True)
class StageRun:
    """One stage being run. A stage is one or more steps, each over many units.

    The last step has the stage's name, and its record is the stage's; the steps before it are
    named `STAGE-something`.
    """

    store: Store
    run_name: str
    inline: bool = False
    """Do the work in this process, without Ray."""
    quiet: bool = False
    inner: list[StageRecord] = field(default_factory=list)
    """Records of the steps that were run so far."""

    def record(self, stage: str) -> StageRecord:
        """The record of an earlier stage of this run.

        Raises:
            FileNotFoundError: it has not finished.
        """
        return read_stage(self.store, self.run_name, stage)

    def run(self, step: Step, units: Sequence[Unit], notes: Notes = ()) -> StageRecord:
        """Do the unfinished units of a step.

        Args:
            notes: see `run_step`.

        Raises:
            StageFailed: units failed; they are named.
        """
        before = [record for record in self.inner if record.stage.startswith(f"{step.name}-")]
        record = run_step(
            step,
            units,
            self.store,
            self.run_name,
            inline=self.inline,
            quiet=self.quiet,
            notes=notes,
            before=before,
        )
        self.inner.append(record)
        return record
