"""Documents for the tests of filters, and how a single filter is asked."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pydantic import TypeAdapter

from pipelines.config import FilterConfig
from pipelines.core.manifest import Counters
from pipelines.core.records import Document
from pipelines.filters import Chain

SECTION: TypeAdapter[FilterConfig] = TypeAdapter(FilterConfig)

THAI = "ที่ นี่ น้ำ เป็น ของ ดี มาก จริง ๆ ครับ"
HINDI = "यह एक साधारण वाक्य है जिसमें कई शब्द हैं"


def section(kind: str, **settings: Any) -> FilterConfig:
    return SECTION.validate_python({"kind": kind, **settings})


def document(text: str, language: str = "en", number: int = 0, **fields: Any) -> Document:
    return Document(
        **{
            "id": str(number),
            "text": text,
            "source": "s",
            "url": "https://a.example/page",
            "shard": "x",
            "offset": number,
            "language": language,
            "language_score": 0.875,  # as stored, in 32 bits
            **fields,
        }
    )


def judged(page: Document, kind: str, **settings: Any) -> tuple[str | None, Counters]:
    """What one filter says of a page, and what it counted."""
    count: Counters = Counter()
    reason = Chain([section(kind, **settings)]).reason_to_drop(page, count)
    return reason, count


def reason(text: str, kind: str, language: str = "en", **settings: Any) -> str | None:
    return judged(document(text, language), kind, **settings)[0]
