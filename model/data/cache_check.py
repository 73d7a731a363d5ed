"""Whether the bound of the cache lets training begin, found before any worker starts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from model.data.packed_files import FileCache, Packing
from model.pretraining_job import PretrainingJob
from pipelines.core.config import ConfigError
from pipelines.core.manifest import FileRef
from pipelines.core.store import Store


def check_cache(job: PretrainingJob, store: Store, inputs: Iterable[FileRef]) -> None:
    """Refuse a `pretraining.cache_gb` that is smaller than the largest packed file.

    One footer is read, that of the file with the most bytes on the store. Another one may still
    take more once it is turned over, for they are compressed; a worker finds that.

    Args:
        inputs: with the sizes of the packed files.

    Raises:
        ConfigError: it is smaller, or the file was made with another vocabulary.
        DamagedObject: the file cannot be read.
    """
    bound = job.pretraining.cache_gb
    keys = {key for files in (job.train, job.held_out) for part in files.values() for key in part}
    packed = [ref for ref in inputs if ref.path in keys]
    if bound is None or not packed:
        return
    largest = max(packed, key=lambda ref: (ref.size or 0, ref.path))
    packing = Packing(job.rows, job.length, job.mode, job.vocabulary_sha256)
    with tempfile.TemporaryDirectory(prefix="babelmill-") as folder:
        cache = FileCache(store, Path(folder), packing, int(bound * 1e9))
        try:
            cache.facts(largest.path)
        except ValueError as error:
            raise ConfigError(str(error)) from None
