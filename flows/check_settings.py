"""Settings of different sections that do not go together, or that would do nothing."""

from __future__ import annotations

import difflib
import math

from flows.config import RunConfig
from pipelines.core.config import ConfigError


def check_settings(config: RunConfig) -> list[str]:
    """Check what can be told from the settings alone, and the files they name.

    Returns:
        Notes for a person: settings that do nothing.

    Raises:
        ConfigError: a weight names no language of the run, the weights do not fit its languages,
            vocabulary.compare_with is no SentencePiece model, or vocabulary.max_memory_gb is too
            little for any text.
    """
    # Both packages are heavy: only a check needs them.
    from pipelines.pack_sequences import mix_notes
    from pipelines.train_vocabulary.estimate import check_least_memory
    from pipelines.train_vocabulary.make import compared

    check_weights(config)
    compared(config.vocabulary)
    check_least_memory(config.vocabulary)
    return [*mix_notes(config), *vocabulary_notes(config)]


def check_weights(config: RunConfig) -> None:
    """Check balance.weights against the languages of the run, where these are named.

    Which languages a run with all languages has is not known before the stage balance, which
    checks again.

    Raises:
        ConfigError: with the languages and the sum.
    """
    languages, weights = config.run.languages, config.balance.weights
    if isinstance(languages, str) or not weights:
        return
    for tag in weights:
        if tag not in languages:
            near = difflib.get_close_matches(tag, languages, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else "add it there, or take the weight out"
            raise ConfigError(
                f"balance.weights: {tag!r} is no language of run.languages = {languages}; {hint}"
            )
    whole = math.fsum(weights.values())
    others = sorted(set(languages) - weights.keys())
    if not others and whole < 1 - 1e-9:
        raise ConfigError(
            f"balance.weights of all {len(weights)} languages sum to {whole:.9g}; need 1, or leave "
            "out the language that takes the rest"
        )
    if others and whole > 1 - 1e-9:
        raise ConfigError(
            f"balance.weights sum to 1 and leave nothing for {', '.join(others)}; lower them, or "
            "take these out of run.languages"
        )


OF_A_TRAINED_VOCABULARY = ("size", "normalization", "lowercase", "byte_fallback", "train_on")
"""Settings of [vocabulary] that a vocabulary which is taken does not read."""


def vocabulary_notes(config: RunConfig) -> list[str]:
    """Settings of [vocabulary] that somebody, or a preset, set and that do nothing."""
    section = config.vocabulary
    if section.start_from is not None:
        given = section.model_fields_set & {*OF_A_TRAINED_VOCABULARY}
        idle = [
            f"{name} = {getattr(section, name)!r}"
            for name in OF_A_TRAINED_VOCABULARY
            if name in given
        ]
        if not idle:
            return []
        return [
            f"vocabulary: {', '.join(idle)} without effect beside start_from = "
            f"{section.start_from!r}, which is taken with its own pieces and rules for text"
            + ("; add_pieces makes it larger" if section.kind == "unigram" else "")
        ]
    if section.kind != "wordpiece" or "normalization" not in section.model_fields_set:
        return []
    return [
        f"vocabulary.normalization = {section.normalization!r} has no effect with kind = "
        "'wordpiece', which cleans text as BERT does; vocabulary.lowercase is its setting"
    ]
