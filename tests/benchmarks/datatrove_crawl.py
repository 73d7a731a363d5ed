"""Run by the peer's interpreter: datatrove's WARC to documents with language, timed.

python datatrove_crawl.py WARC LID_MODEL OUTPUT_FOLDER -> one JSON line
"""

import json
import sys
import time
from pathlib import Path

from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.extractors import Trafilatura
from datatrove.pipeline.filters import LanguageFilter
from datatrove.pipeline.readers import WarcReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils import lid


def main() -> None:
    warc, model, output = (Path(argument) for argument in sys.argv[1:4])
    # The same model file for both; its own would be downloaded.
    lid.cached_asset_path_or_download = lambda *_, **__: str(model)
    pipeline = [
        WarcReader(str(warc.parent), glob_pattern=warc.name),
        Trafilatura(),
        LanguageFilter(label_only=True),
        JsonlWriter(str(output / "out")),
    ]
    executor = LocalPipelineExecutor(
        pipeline=pipeline, tasks=1, workers=1, logging_dir=str(output / "logs")
    )
    began, cpu = time.monotonic(), time.process_time()
    executor.run()
    seconds = time.monotonic() - began
    stats = json.loads((output / "logs" / "stats.json").read_text())
    written = stats[-1]["stats"]
    total = written.get("total", written.get("documents"))
    documents = total["total"] if isinstance(total, dict) else total
    print(
        json.dumps({"seconds": seconds, "documents": documents, "cpu": time.process_time() - cpu})
    )


if __name__ == "__main__":
    main()
