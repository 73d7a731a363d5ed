"""A vocabulary of 250,000 pieces from word counts, beside plain SentencePiece on the lines.

Both train on the distinct lines of LibreOffice's help, 84 MB in 34 languages, without pages that
are held out, and are measured by tokens on those. Each training is a process of its own with two
threads, the two in turn; on a shared machine processor time says more than wall time. Then words
alone train on more than 1 GB of text, where SentencePiece's need is computed.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pyarrow as pa
import sentencepiece as spm

from pipelines.config import VocabularySection
from pipelines.core.normalizers import normalizer_spec
from pipelines.train_vocabulary.quantise import quantise_scores
from pipelines.train_vocabulary.unigram_trainer import train_on_lines, train_on_words
from pipelines.train_vocabulary.word_counts import WordCounts, count_words, merge_counts
from tests.benchmarks.debian_text import text_file
from tests.benchmarks.help_lines import help_lines
from tests.benchmarks.help_pages import CACHE

SIZE = 250_000
THREADS = 2
ROUNDS = 2
MODEL = CACHE / "vocabulary-250k.model"
"""The vocabulary trained on words, for the report and other benchmarks."""
PLAIN_BYTES_PER_CHARACTER = 20
"""Of SentencePiece 0.2.3, its fixed part left out; measured at 5 to 40 million characters."""
LINES_AT_ONCE = 100_000


def run(data: Path) -> dict[str, Any]:
    """Train both ways on the help pages, and by words on 1 GB."""
    with TemporaryDirectory(prefix="babelmill-bench-") as name:
        folder = Path(name)
        training, held_out = folder / "training.txt", folder / "held-out.txt"
        characters = write_lines(training, held_out)
        lines = held_out.read_text(encoding="utf-8").split("\n")
        runs: dict[str, list[dict[str, Any]]] = {"plain": [], "words": []}
        for _ in range(ROUNDS):
            for method, found in runs.items():
                found.append(trained(method, training, folder / f"{method}.model"))
        results = {
            method: {key: min(part[key] for part in found) for key in found[0]}
            | {"tokens": tokens((folder / f"{method}.model").read_bytes(), lines)}
            for method, found in runs.items()
        }
        MODEL.write_bytes((folder / "words.model").read_bytes())
        quantised = quantise_scores((folder / "plain.model").read_bytes())
        by_quantising = tokens(quantised, lines) / results["plain"]["tokens"] - 1
        large = text_file(data)
        size = len(large.read_text(encoding="utf-8"))
        by_words = trained("words", large, folder / "large.model")
    plain, words = results["plain"], results["words"]
    plain_needs = PLAIN_BYTES_PER_CHARACTER * size / 1e6
    return {
        "help_pages": {
            "training_bytes": plain["bytes"],
            "training_characters": characters,
            "plain_sentencepiece": plain,
            "words": words,
            "seconds_ratio": plain["seconds"] / words["seconds"],
            "processor_seconds_ratio": plain["processor_seconds"] / words["processor_seconds"],
            "memory_ratio": words["peak_megabytes"] / plain["peak_megabytes"],
            "tokens_change": words["tokens"] / plain["tokens"] - 1,
            "tokens_change_by_quantising": by_quantising,
        },
        "one_gigabyte": {
            "training_bytes": by_words["bytes"],
            "training_characters": size,
            "words": by_words,
            "plain_sentencepiece_needs_megabytes": plain_needs,
            "memory_of_this_machine_megabytes": psutil.virtual_memory().total / 1e6,
            "memory_ratio": by_words["peak_megabytes"] / plain_needs,
        },
    }


def write_lines(training: Path, held_out: Path) -> int:
    """Write the distinct training lines and the held-out ones; the characters of the former."""
    seen: set[str] = set()
    with (
        training.open("w", encoding="utf-8", newline="\n") as kept,
        held_out.open("w", encoding="utf-8", newline="\n") as out,
    ):
        for is_out, _, line in help_lines():
            if is_out:
                out.write(line + "\n")
            elif line not in seen:
                seen.add(line)
                kept.write(line + "\n")
    return sum(map(len, seen))


def trained(method: str, lines: Path, model: Path) -> dict[str, Any]:
    """Train in a new process; its figures, and the most memory it held with its own processes."""
    command = [sys.executable, "-m", "tests.benchmarks.vocabulary", method, str(lines), str(model)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0
    while child.poll() is None:
        peak = max(peak, memory_of_tree(child.pid))
        time.sleep(0.1)
    output = child.communicate()[0]
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    return figures | {"peak_megabytes": peak / 1e6}


def memory_of_tree(pid: int) -> int:
    """Bytes that a process and those it started hold together, shared pages counted once each."""
    total = 0
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
    return total


def tokens(model: bytes, lines: Sequence[str]) -> int:
    """Pieces that a model makes of lines."""
    processor = spm.SentencePieceProcessor(model_proto=model)
    return sum(map(len, processor.encode(list(lines))))


def train_here(method: str, lines: Path, model: Path) -> dict[str, Any]:
    """Train in this process.

    Returns:
        Seconds from lines to model, and processor seconds with those of the counting processes.
    """
    section = VocabularySection(size=SIZE, num_threads=THREADS)
    began, more = time.monotonic(), {}
    if method == "plain":
        model.write_bytes(plain_sentencepiece(lines, model.with_suffix("")))
    elif method == "lines":
        model.write_bytes(train_on_lines(lines, section))
    else:
        words = counted(lines)
        more = {
            "counting_seconds": time.monotonic() - began,
            "spans": len(words),
            "span_characters": sum(map(len, words["word"].to_pylist())),
        }
        model.write_bytes(train_on_words(words, section))
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {
        "seconds": time.monotonic() - began,
        "processor_seconds": own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime,
        "bytes": lines.stat().st_size,
        **more,
    }


def plain_sentencepiece(lines: Path, prefix: Path) -> bytes:
    """What SentencePiece does by itself, with its own defaults."""
    spm.SentencePieceTrainer.train(
        input=str(lines),
        model_prefix=str(prefix),
        model_type="unigram",
        vocab_size=SIZE,
        num_threads=THREADS,
        minloglevel=2,
    )
    return prefix.with_suffix(".model").read_bytes()


def counted(lines: Path) -> WordCounts:
    """Count as the stage does: some lines at a time, in as many processes as there are threads."""
    tables: list[WordCounts] = []
    pending: set[Future[bytes]] = set()
    with ProcessPoolExecutor(THREADS) as pool:
        for text in parts(lines):
            pending.add(pool.submit(count_part, text))
            if len(pending) > THREADS:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                tables += [read_table(future.result()) for future in done]
            # Summing again and again costs time: wait until the new rows are as many as the old.
            if sum(map(len, tables)) > 2 * max(len(tables[0]) if tables else 0, 1_000_000):
                tables = [merge_counts(tables)]
        tables += [read_table(future.result()) for future in pending]
    return merge_counts(tables)


def parts(lines: Path) -> Iterator[str]:
    """Some lines at a time."""
    with lines.open(encoding="utf-8", newline="\n") as file:
        while text := "".join(islice(file, LINES_AT_ONCE)):
            yield text


def count_part(text: str) -> bytes:
    """Words of a text, as an Arrow stream."""
    spec = normalizer_spec("nmt_nfkc")
    words = count_words([text], spm.SentencePieceNormalizer(normalizer_spec=spec))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, words.schema) as writer:
        writer.write_table(words)
    return bytes(sink.getvalue())


def read_table(stream: bytes) -> WordCounts:
    """The table of an Arrow stream."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()


if __name__ == "__main__":
    print(json.dumps(train_here(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
