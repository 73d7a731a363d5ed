"""Lines of training workers as they wrote them."""

from __future__ import annotations

import re
from typing import IO, Any

PREFIX = re.compile(r"^(?:\x1b\[\d+m)?\((?:RayTrainWorker|TrainController)[^)]*\)(?:\x1b\[0m)? ")


class PlainOutput:
    """Standard output without Ray's `(RayTrainWorker pid=...)` before a worker's lines."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write; a worker's line loses its prefix, and one kind of Ray's own is left out.

        With a second Ray on the machine its placement group cleaner says so every second.
        """
        if "(PlacementGroupCleaner pid=" in text:
            return len(text)
        return self._stream.write(PREFIX.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
