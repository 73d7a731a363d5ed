"""What the model card tells of a vocabulary, read from its file.

Not from [vocabulary]: a vocabulary that was taken from elsewhere (vocabulary.start_from) keeps its
own rules, whatever the settings say.
"""

from __future__ import annotations

from pipelines.core.foreign import same_rules
from pipelines.core.vocabulary import Vocabulary
from pipelines.core.wordpiece import WordPieceVocabulary

AnyVocabulary = Vocabulary | WordPieceVocabulary


def kind_of(vocabulary: AnyVocabulary) -> str:
    """Its kind, and what it does with unknown characters."""
    if isinstance(vocabulary, WordPieceVocabulary):
        return "WordPiece"
    unknown = "unknown characters as bytes" if vocabulary.byte_fallback else "no bytes"
    return f"SentencePiece Unigram, {unknown}"


def normalization_of(vocabulary: AnyVocabulary) -> str:
    """How text is written before it is cut: the name of the rules, or BERT's with their settings.

    Rules that are none of `vocabulary.normalization` are called the vocabulary's own.
    """
    if isinstance(vocabulary, Vocabulary):
        return same_rules(vocabulary.model) or "rules of its own, which its file holds"
    cleaning = vocabulary.cleaning
    said = ["lower case" if cleaning.lowercase else "cased"]
    if cleaning.strip_accents:
        said.append("no accents")
    elif cleaning.lowercase:
        said.append("accents kept")
    if not cleaning.clean_text:
        said.append("control characters kept")
    if not cleaning.handle_chinese_chars:
        said.append("no blanks around Chinese characters")
    return f"BERT's, {', '.join(said)}"
