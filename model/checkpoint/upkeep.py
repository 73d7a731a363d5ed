"""Which checkpoints stay: the last ones and the best one; and what killed writers left goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from model.checkpoint.files import (
    MANIFEST,
    STEP_FOLDER,
    CheckpointDamaged,
    CheckpointManifest,
    check_sizes,
    parse_manifest,
    step_key,
)
from pipelines.core.store import Store


@dataclass
class Tidied:
    """What was deleted."""

    steps: list[int] = field(default_factory=list)
    """Whole checkpoints."""
    leftovers: dict[int, int] = field(default_factory=dict)
    """By step, bytes of attempts that never counted, and of checkpoints that are not whole."""

    @property
    def sentence(self) -> str:
        """The leftovers in words; empty when there were none."""
        if not self.leftovers:
            return ""
        steps = ", ".join(str(step) for step in sorted(self.leftovers))
        total = sum(self.leftovers.values())
        return f"deleted {total:,} bytes that unfinished checkpoints left (step {steps})"


def whole_checkpoints(store: Store, folder: str) -> dict[int, CheckpointManifest]:
    """The checkpoints of a folder that have all their files, by step; files are not read."""
    sizes = store.sizes(folder)
    return _whole(store, folder, sizes, by_step(sizes))


def delete_older(store: Store, folder: str, *, keep: int, newest: int) -> Tidied:
    """Delete all but the last `keep` whole checkpoints up to `newest`, and the best one.

    The best is the one with the lowest held-out loss; of equals, the latest. Only checkpoints that
    are still there compete, and those without a measured loss do not.

    Leftovers go too: attempts that no manifest names, and checkpoints that are not whole, of steps
    before `newest`. Later steps stay as they are: the folder belongs to one binding, so those that
    are whole hold what this attempt will come to, and those that are not are never chosen.

    Args:
        newest: step of a checkpoint that is whole; when it is not, nothing is deleted.
    """
    done = Tidied()
    sizes = store.sizes(folder)
    files = {step: found for step, found in by_step(sizes).items() if step <= newest}
    whole = _whole(store, folder, sizes, files)
    if newest not in whole:
        return done
    kept = {*sorted(whole)[-keep:], *_best(whole)}
    for step, found in sorted(files.items()):
        key = step_key(folder, step)
        if step in kept:
            _delete_other_attempts(store, key, whole[step], found, done, newest)
            continue
        # The manifest goes first: a half-deleted checkpoint must not look whole.
        if MANIFEST in found:
            store.delete(f"{key}/{MANIFEST}")
        store.delete(key)
        if step in whole:
            done.steps.append(step)
        else:
            done.leftovers[step] = sum(found.values())
    return done


def _delete_other_attempts(
    store: Store,
    key: str,
    manifest: CheckpointManifest,
    found: Mapping[str, int],
    done: Tidied,
    newest: int,
) -> None:
    """Delete the attempts of a step that its manifest does not name.

    Those of the newest step stay: a rival may be writing one.
    """
    if manifest.step == newest:
        return
    others: dict[str, int] = defaultdict(int)
    for name, size in found.items():
        top = name.partition("/")[0]
        if top not in (MANIFEST, manifest.attempt):
            others[top] += size
    for top in sorted(others):
        store.delete(f"{key}/{top}")
    if others:
        done.leftovers[manifest.step] = sum(others.values())


def _best(whole: Mapping[int, CheckpointManifest]) -> list[int]:
    losses = {
        step: manifest.held_out_loss
        for step, manifest in whole.items()
        if manifest.held_out_loss is not None
    }
    return [min(losses, key=lambda step: (losses[step], -step))] if losses else []


def by_step(sizes: Mapping[str, int]) -> dict[int, dict[str, int]]:
    """Bytes by name below the step's folder, by step."""
    files: dict[int, dict[str, int]] = defaultdict(dict)
    for key, size in sizes.items():
        if match := STEP_FOLDER.search(key):
            files[int(match.group(1))][match.group(2)] = size
    return files


def _whole(
    store: Store, folder: str, sizes: Mapping[str, int], files: Mapping[int, Mapping[str, int]]
) -> dict[int, CheckpointManifest]:
    keys = {
        f"{step_key(folder, step)}/{MANIFEST}": step
        for step, found in sorted(files.items())
        if MANIFEST in found
    }
    whole: dict[int, CheckpointManifest] = {}
    for path, content in store.read_many(keys).items():
        key = step_key(folder, keys[path])
        try:
            manifest = parse_manifest(key, content)
            check_sizes(key, manifest, sizes)
        except CheckpointDamaged:
            continue
        whole[manifest.step] = manifest
    return whole
