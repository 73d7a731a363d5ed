"""Models and tokenizers of Hugging Face folders: whole, or an error that names what is wrong.

transformers makes weights that a folder lacks at random, leaves out those it has no place for, and
builds a tokenizer without words from a folder that has no tokenizer. Each is an error here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import safe_open
from transformers import AutoTokenizer
from transformers.utils import logging

from pipelines.core.config import ConfigError

JSON_FILES = (
    "config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
"""Those of a folder that hold an object."""
POOLER = "pooler."
"""The layer behind the first token; neither vectors nor guesses come from it."""
BUFFERS = (".position_ids", ".token_type_ids")
"""Ends of names that old checkpoints hold beside the weights; they follow from the sizes."""
MOST_NAMED = 4


def read_model(folder: Path, kind: Any) -> Any:
    """Read a model, each weight of it from the folder; ready to compute, not to train.

    Args:
        folder: of config.json and the weights.
        kind: AutoModel or another class of transformers.

    Raises:
        ConfigError: a file is damaged, or weights are missing, of another shape, or of layers that
            the model does not have. The folder and the file or the weights are named.
    """
    _check_files(folder)
    with _reading(folder, "the model"):
        model, found = kind.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
        )
    missing = [name for name in found["missing_keys"] if not name.startswith(POOLER)]
    if missing:
        raise ConfigError(
            f"{folder}: the weights lack {_named(missing)}, which a {type(model).__name__} of "
            "this config.json has"
        )
    shapes = [
        f"{name} (shape {list(there)}, config.json wants {list(wanted)})"
        for name, there, wanted in found["mismatched_keys"]
    ]
    if shapes:
        raise ConfigError(f"{folder}: weights of other shapes: {_named(shapes)}")
    left = _of_the_encoder(model, found["unexpected_keys"])
    if left:
        raise ConfigError(f"{folder}: config.json has no place for the weights {_named(left)}")
    return model.eval()


def _of_the_encoder(model: Any, names: Iterable[str]) -> list[str]:
    """Names of weights of the encoder itself, not of a head for another task."""
    parts = {name for name, _ in model.base_model.named_children()} - {POOLER.rstrip(".")}
    prefix = f"{model.base_model_prefix}."
    return [
        name
        for name in names
        if name.removeprefix(prefix).partition(".")[0] in parts and not name.endswith(BUFFERS)
    ]


def read_tokenizer(folder: Path, rows: int) -> Any:
    """Read the tokenizer of a folder.

    Args:
        rows: of the model's word matrix.

    Raises:
        ConfigError: there is none, a file is damaged, or it has ids that the model does not have.
    """
    _check_files(folder)
    with _reading(folder, "the tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        ids = tokenizer.get_vocab()
        files = {"tokenizer.json", *map(str, tokenizer.vocab_files_names.values())}
    if not any((folder / name).is_file() for name in files):
        raise ConfigError(f"{folder}: no tokenizer; need one of {', '.join(sorted(files))}")
    if not set(ids) - set(tokenizer.all_special_tokens):
        raise ConfigError(f"{folder}: the tokenizer has no tokens but special ones")
    if max(ids.values()) >= rows:
        raise ConfigError(
            f"{folder}: the tokenizer has ids up to {max(ids.values()):,}, and the model "
            f"{rows:,} rows: they do not belong together"
        )
    return tokenizer


def _check_files(folder: Path) -> None:
    """Find the damaged file: what the libraries say about one does not name it.

    Raises:
        ConfigError: a JSON file does not hold an object, or a safetensors file is not whole.
    """
    for path in (folder / name for name in JSON_FILES):
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: no JSON: {_first_line(error)}") from None
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: need a JSON object, not {type(content).__name__}")
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt"):
                pass
        except Exception as error:  # the library's own class, and OSError
            raise ConfigError(f"{path}: damaged: {_first_line(error)}") from None


@contextmanager
def _reading(folder: Path, what: str) -> Iterator[None]:
    """Keep transformers quiet, and name the folder in whatever goes wrong.

    Its report of missing weights is left out, as `read_model` judges them itself.
    """
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except (MemoryError, ImportError):
        raise
    except Exception as error:
        # Damaged files raise nearly anything: KeyError, TypeError, classes of other libraries.
        raise ConfigError(
            f"{folder}: {what} cannot be read: {type(error).__name__}: {_first_line(error)}"
        ) from None
    finally:
        logging.set_verbosity(level)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def _named(names: Iterable[str]) -> str:
    """Some names in order, and how many more there are."""
    known = sorted(names)
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return ", ".join(known[:MOST_NAMED]) + more
