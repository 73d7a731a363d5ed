"""Language identification on public labelled data: accuracy by model and length of text, speed."""

from __future__ import annotations

import tarfile
import time
from pathlib import Path
from typing import Any

from pipelines.config import LanguageIdentificationSection
from pipelines.core.config import ConfigError
from pipelines.identify_language import identify_many
from pipelines.identify_language.evaluate import evaluate
from pipelines.identify_language.models import MODELS

LINGUA = "lid/lingua-testdata-shared.tar.xz"
SIB_200 = "labelled/topic/sib200-shared.tar.xz"
UNITS = ("sentences", "word-pairs", "single-words")
SPEED_CHARACTERS = 4000
"""Length of the documents that speed is measured on."""


def run(data: Path) -> dict[str, Any]:
    """Evaluate each installed model on the sets in `data`; a missing package is said."""
    sets = rows_of_sets(data)
    documents = documents_of(sets["sib-200"], SPEED_CHARACTERS)
    result: dict[str, Any] = {}
    for name in MODELS:
        if name == "fasttext_file":
            continue  # needs a file that somebody names
        config = LanguageIdentificationSection.model_validate({"model": name})
        try:
            figures: dict[str, Any] = {key: evaluate(rows, config) for key, rows in sets.items()}
        except ConfigError as error:
            result[name] = {"not_measured": str(error)}
            continue
        started = time.process_time()
        identify_many(documents, config)
        seconds = time.process_time() - started
        figures["documents_per_second"] = len(documents) / seconds
        result[name] = figures
    return result


def rows_of_sets(data: Path) -> dict[str, list[tuple[str, str]]]:
    """Label and text of the sets: lingua's three, and all parts of SIB-200."""
    return {**rows_of_lingua(data), "sib-200": rows_of_sib_200(data)}


def rows_of_lingua(data: Path) -> dict[str, list[tuple[str, str]]]:
    """Lines of lingua's sets, by language."""
    files = _files(data / LINGUA)
    return {
        f"lingua {unit}": [
            (path.stem, line.strip())
            for path, lines in files
            if path.parent.name == unit
            for line in lines
            if line.strip()
        ]
        for unit in UNITS
    }


def rows_of_sib_200(data: Path) -> list[tuple[str, str]]:
    """All sentences of SIB-200, by language."""
    return [
        (path.parent.name, line.split("\t", 2)[2])
        for path, lines in _files(data / SIB_200)
        for line in lines[1:]  # the first one is a header
        if line
    ]


def documents_of(rows: list[tuple[str, str]], characters: int) -> list[str]:
    """One document of that length for each label, of its texts in order."""
    by_label: dict[str, list[str]] = {}
    for label, text in rows:
        by_label.setdefault(label, []).append(text)
    return ["\n\n".join(texts)[:characters] for texts in by_label.values()]


def _files(archive: Path) -> list[tuple[Path, list[str]]]:
    """The lines of an archive's files, by name."""
    found = []
    with tarfile.open(archive) as tar:
        for member in tar:  # in their order, for going back in an xz stream starts it again
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                # Only line feeds end a line: some texts hold other separators.
                found.append((Path(member.name), content.read().decode("utf-8").split("\n")))
    return sorted(found)
