"""`babelmill language`: which language texts are in."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from pipelines.core.config import ConfigError

SHOWN_CHARACTERS = 60


def language(
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="Texts; `-` reads lines from the input.")
    ],
    model: Annotated[
        str | None, typer.Option(help="lid.176 (the default), py3langid or heliport.")
    ] = None,
    model_file: Annotated[
        str | None, typer.Option(help="A fastText model, such as GlotLID's: path or URL.")
    ] = None,
    sha256: Annotated[str | None, typer.Option(help="SHA-256 of the model file.")] = None,
    min_score: Annotated[
        float | None, typer.Option(min=0, max=1, help="Below it a text is `und`.")
    ] = None,
) -> None:
    """Print label, score, runner-up and its score of each text, one line a text.

    The columns are separated by tabs. `und` means that the language is not known, and the last
    column says why.
    """
    try:
        section = _section(model, model_file, sha256, min_score)
        for line in lines_of(_texts(texts), section):
            print(line, flush=True)  # noqa: T201 - this is the terminal
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - this is the terminal
        raise typer.Exit(2) from None


def lines_of(texts: Iterable[str], section: Any) -> Iterator[str]:
    """The lines to print, under a language_identification section."""
    from pipelines.core.records import UNKNOWN_LANGUAGE
    from pipelines.identify_language import UNIDENTIFIED, identify

    for text in texts:
        found = identify(text, section)
        about = " ".join(text.split())
        if len(about) > SHOWN_CHARACTERS:
            about = about[: SHOWN_CHARACTERS - 1] + "…"
        if found.language == UNKNOWN_LANGUAGE:
            about = f"({_why(found, found == UNIDENTIFIED, section)}) {about}".rstrip()
        yield (
            f"{found.language}\t{found.score:.3f}\t{found.second}\t{found.second_score:.3f}\t{about}"
        )


def _why(found: Any, no_words: bool, section: Any) -> str:
    if no_words:
        return "no words in it: fewer than three letters beside addresses, digits and emoji"
    threshold = section.min_score_by_language.get(found.second, section.min_score)
    if found.score < threshold:
        return f"the best guess is under {threshold}"
    return "the model takes it for no language"


def _texts(given: Iterable[str]) -> Iterator[str]:
    for text in given:
        if text == "-":
            for line in sys.stdin:
                yield line.rstrip("\r\n")
        else:
            yield text


def _section(
    model: str | None, model_file: str | None, sha256: str | None, min_score: float | None
) -> Any:
    from pipelines.config import LanguageIdentificationSection
    from pipelines.identify_language.models import MODELS

    names = [name for name in MODELS if name != "fasttext_file"]
    if model is not None and model_file is not None:
        raise ConfigError("--model and --model-file: give one of them")
    if model is not None and model not in names:
        raise ConfigError(f"--model {model!r} is not one of {', '.join(names)}")
    if sha256 is not None and model_file is None:
        raise ConfigError("--sha256 belongs to --model-file")
    if model_file is not None and sha256 is None:
        sha256 = _own_sha256(model_file)
    settings = {
        "model": "fasttext_file" if model_file is not None else model,
        "path": model_file,
        "sha256": sha256,
        "min_score": min_score,
    }
    try:
        return LanguageIdentificationSection.model_validate(
            {name: value for name, value in settings.items() if value is not None}
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{first['loc'][-1] if first['loc'] else ''}: {first['msg']}") from None


def _own_sha256(model_file: str) -> str:
    """The checksum of a local file, said to the person, who will want to pin it in a run."""
    from pipelines.identify_language.models.fasttext_file import sha256_of

    if "://" in model_file:
        raise ConfigError(f"--model-file {model_file!r}: a URL needs --sha256")
    try:
        found = sha256_of(Path(model_file))
    except OSError as error:
        raise ConfigError(f"--model-file {model_file!r}: {error.strerror}") from None
    print(f"note: sha256 = {found}", file=sys.stderr)  # noqa: T201 - this is the terminal
    return found
