"""What a filter is: a pure function from a document to a reason to drop it, or None to keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.core.records import Document

Filter = Callable[[Document, Any], str | None]
"""Takes the document and the filter's own section. The reason is one of a fixed set of names."""
