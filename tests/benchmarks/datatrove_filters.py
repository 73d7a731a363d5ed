"""Run by the peer's interpreter: datatrove's Gopher and C4 filters, timed.

python datatrove_filters.py DOCUMENTS_JSON ROUNDS -> one JSON line
"""

import contextlib
import json
import sys
import time
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)


def main() -> None:
    texts = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    filters = {
        "repetition": GopherRepetitionFilter(),
        "quality": GopherQualityFilter(),
        "c4": C4QualityFilter(),
    }
    speeds, verdicts = {}, {}
    for name, judge in filters.items():
        judge.filter(Document(text=texts[0], id="warm"))
        best = 0.0
        for _ in range(int(sys.argv[2])):
            documents = [Document(text=text, id=str(i)) for i, text in enumerate(texts)]
            began = time.process_time()
            verdicts[name] = [judge.filter(document) is True for document in documents]
            best = max(best, len(documents) / (time.process_time() - began))
        speeds[name] = best
    result = {
        "documents_per_second": speeds,
        "all": 1 / sum(1 / speed for speed in speeds.values()),
        "repetition": verdicts["repetition"],
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
