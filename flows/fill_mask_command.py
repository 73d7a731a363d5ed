"""`babelmill fill-mask`: what a model puts in the place of a masked word."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.core.config import ConfigError


def fill_mask(
    model: Annotated[
        str, typer.Argument(help="Name of a run, or a folder that holds config.json.")
    ],
    text: Annotated[str, typer.Argument(help="Text with one <mask>, or [MASK].")],
    top: Annotated[int, typer.Option(min=1, help="So many guesses.")] = 5,
    store: Annotated[
        str | None, typer.Option(help="URL of the store; by default the preset's.")
    ] = None,
) -> None:
    """Let a model guess a masked word.

    The mask is looked for in the normalised text, so <mask> in fullwidth letters is one too.

    Exit status: 0; 1 the store fails; 2 wrong arguments, or a damaged model.
    """
    from flows.cli import _errors
    from flows.model_folder import model_folder
    from flows.output import visible, write
    from flows.status import store_of
    from pipelines.core.store import Store

    with _errors(), model_folder(model, Store(store_of(store))) as folder:
        from model.export import fill_mask as guess

        try:
            guesses = guess(folder, text, top)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        for token, probability, sentence in guesses:
            write(visible(f"{probability:7.2%}  {token!r}  {sentence}") + "\n")
