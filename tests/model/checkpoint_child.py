"""A process that writes checkpoints until it is killed: `python -m tests.model.checkpoint_child`.

It prints `here` at the moment it was told to halt at, or the steps that it has saved.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from model.checkpoint import CheckpointWriter
from model.checkpoint import files as checkpoint_files
from model.distributed import Worker
from pipelines.core.store import Store
from tests.model.checkpoints import FOLDER, made

MOMENTS = ("half a file", "between files", "before the manifest", "after the manifest", "deleting")
HALT_AT = 20


def say(text: object) -> None:
    print(text, flush=True)


def halt() -> None:
    say("here")
    time.sleep(600)


def halt_at(moment: str) -> None:
    """Make this process stand still at a moment of writing a checkpoint."""
    publish_bytes, delete = Store.publish_bytes, Store.delete

    def save_then_halt(tensors: dict[str, Any], path: Path) -> None:
        save_file(tensors, path)
        if moment == "half a file":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        halt()

    def publish(self: Store, key: str, content: bytes) -> None:
        if moment == "before the manifest":
            halt()
        publish_bytes(self, key, content)
        if moment == "after the manifest":
            halt()

    def delete_then_halt(self: Store, key: str) -> None:
        delete(self, key)
        halt()

    if moment in ("half a file", "between files"):
        checkpoint_files.save_file = save_then_halt  # type: ignore[attr-defined]
    elif moment == "deleting":
        Store.delete = delete_then_halt  # type: ignore[method-assign]
    else:
        Store.publish_bytes = publish  # type: ignore[method-assign]


def main(url: str, moment: str) -> None:
    with CheckpointWriter(Store(url), FOLDER, Worker(), keep=1, say=say) as writer:
        if moment == "any":
            for step in range(1, 100_000):
                saved = made(step, size=200_000)
                writer.save(step, saved.model, saved.optimizer, saved.training)
                for done in writer.finished():
                    say(done.step)
        for step in (10, HALT_AT):
            if step == HALT_AT:
                halt_at(moment)
            saved = made(step)
            writer.save(step, saved.model, saved.optimizer, saved.training)
            writer.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
