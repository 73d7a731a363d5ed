"""`babelmill inspect`: packed sequences as text, with what the model sees at masked places."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from flows.output import visible, write, write_drawn
from pipelines.core.config import ConfigError

if TYPE_CHECKING:
    from flows.packed_files import AnyVocabulary, Contents, PackedFile

ORIGINAL, SEEN, KEPT, QUIET = "bold red", "bold green", "bold yellow", "dim"


def inspect(
    shard: Annotated[
        str,
        typer.Argument(help="A packed file: path, URL or key of the store; or a run's name."),
    ],
    rows: Annotated[int, typer.Option(min=0, help="Show so many sequences.")] = 5,
    first: Annotated[int, typer.Option("--from", min=0, help="Begin with this row.")] = 0,
    language: Annotated[str | None, typer.Option(help="Only this language.")] = None,
    view: Annotated[int, typer.Option(min=0, help="Which stored masks.")] = 0,
    vocabulary: Annotated[
        str | None, typer.Option(help="spm.model or tokenizer.json; by default the run's.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    store: Annotated[
        str | None, typer.Option(help="Where keys and runs are; by default the preset's.")
    ] = None,
) -> None:
    """Show packed sequences as text, with their masks.

    A masked place reads [what stood there → what the model sees]; [x = x] was chosen too, but the
    model sees it as it stood.

    Exit status: 0; 1 a file cannot be read, is damaged, or was packed with another vocabulary, or
    the output is closed or full; 2 wrong arguments.
    """
    from flows.cli import _errors
    from flows.counts_file import folded
    from flows.packed_files import contents_of, find_files, opened
    from flows.status import store_of

    with _errors():
        language = None if language is None else folded(language)
        files = find_files(shard, store_of(store), language)
        left, skip, total = rows, first, 0
        for number, file in enumerate(files):
            with opened(file) as parquet:
                contents = contents_of(file, parquet)
                total += contents.rows
                if number and skip >= contents.rows:
                    skip -= contents.rows
                    continue
                shown = _rows(file, parquet, contents, (skip, left, language, view, vocabulary))
                if as_json:
                    write(json.dumps(_header(file, contents)) + "\n")
                else:
                    write_drawn(_title(file, contents), soft_wrap=True)
                for row, lines in shown:
                    left -= 1
                    if as_json:
                        write(visible(json.dumps(row, ensure_ascii=False)) + "\n")
                        continue
                    for line in lines:
                        write_drawn(line, soft_wrap=True)
                skip = max(skip - contents.rows, 0)
            if left <= 0:
                break
        if total and rows and left == rows:
            raise ConfigError(
                f"--from {first}: there are {total:,} sequences, the first is 0"
                if first >= total
                else f"--language {language}: none of the {total - first:,} sequences is of it"
            )


def _rows(
    file: PackedFile,
    parquet: Any,
    contents: Contents,
    wanted: tuple[int, int, str | None, int, str | None],
) -> Iterator[tuple[dict[str, Any], list[Text]]]:
    from flows.packed_files import find_vocabulary, open_checked, read_rows
    from flows.packed_rows import check_row

    first, count, language, view, given = wanted
    if not count:
        return
    content, origin = find_vocabulary(file, given)
    vocabulary = open_checked(content, origin, contents.stored, file.path)
    for number, row in read_rows(file.path, parquet, first, count, language):
        check_row(row, contents.stored, f"{file.path}, row {number}")
        record = as_record(number, row, vocabulary, view)
        yield record, list(as_text(record))


def _header(file: PackedFile, contents: Contents) -> dict[str, Any]:
    stored = contents.stored
    return {
        "file": file.path,
        "rows": contents.rows,
        "tokens": contents.tokens,
        "fill": round(contents.fill, 4),
        "mode": stored.mode,
        "length": stored.length,
        "id_bytes": stored.id_bytes,
        "vocabulary_rows": stored.rows,
        "vocabulary_sha256": stored.vocabulary,
    }


def _title(file: PackedFile, contents: Contents) -> Text:
    stored = contents.stored
    return Text(
        f"{visible(file.path)}\n"
        f"{contents.rows:,} sequences of at most {stored.length} tokens, mode {stored.mode}; "
        f"{contents.tokens:,} tokens, fill {contents.fill:.2%}\n"
        f"ids of {8 * stored.id_bytes} bits, vocabulary of {stored.rows:,} rows, "
        f"sha256 {stored.vocabulary}"
    )


def as_record(
    number: int, row: dict[str, Any], vocabulary: AnyVocabulary, view: int
) -> dict[str, Any]:
    """A row with its pieces and its masks, as plain data.

    Raises:
        ConfigError: the view is not stored.
    """
    stored = len(row["mask_positions"])
    if view >= max(stored, 1):
        raise ConfigError(
            f"--view {view}: row {number} has {stored} stored view(s), the first is 0; later "
            "passes compute theirs"
        )
    masks: dict[int, int] = {}
    if stored:
        masks = dict(zip(row["mask_positions"][view], row["mask_tokens"][view], strict=True))
    pieces = [shown_piece(token, vocabulary) for token in row["tokens"]]
    record = {
        "row": number,
        "sequence_id": row["sequence_id"],
        "language": row["language"],
        "document_ids": row["document_ids"],
        "document_starts": row["document_starts"],
        "tokens": row["tokens"],
        "pieces": pieces,
        "views": stored,
        "masks": [
            {
                "position": place,
                "original": pieces[place],
                "seen": shown_piece(token, vocabulary),
                "seen_token": token,
            }
            for place, token in sorted(masks.items())
        ],
    }
    if "segments" in row:
        record |= {"segments": row["segments"], "is_next": row["is_next"]}
    return record


def shown_piece(token: int, vocabulary: AnyVocabulary) -> str:
    """A piece as text: a blank where a word begins, and no character that acts on a terminal."""
    from pipelines.core.wordpiece import WordPieceVocabulary
    from pipelines.core.words import BLANK_SIGN

    piece = vocabulary.token(token)
    if token in vocabulary.special_ids:
        return piece
    if piece.startswith("##"):
        piece = piece[2:] or piece
    elif isinstance(vocabulary, WordPieceVocabulary):
        piece = f" {piece}"
    else:
        piece = piece.replace(BLANK_SIGN, " ")
    return visible(piece)


def as_text(record: dict[str, Any]) -> Iterator[Text]:
    """A record as lines: a title, and each document's text under its id."""
    masks = {mask["position"]: mask for mask in record["masks"]}
    size = len(record["tokens"])
    said = f"{size} tokens, {len(masks)} masked" if record["views"] else f"{size} tokens, no masks"
    yield Text()
    title = f"row {record['row']}  {record['language']}  {said}  {record['sequence_id']}"
    yield Text(visible(title))
    starts = record["document_starts"]
    for number, (begin, end) in enumerate(zip(starts, [*starts[1:], size], strict=True)):
        name = record["document_ids"][number]
        if "segments" in record:
            follows = "follows A" if record["is_next"] else "from another document"
            name = f"B, {follows}: {name}" if number else f"A: {name}"
        yield Text(f"  {visible(name)}", style=QUIET)
        yield Text("    ") + _marked(record["pieces"], masks, range(begin, end))


def _marked(pieces: list[str], masks: dict[int, Any], places: range) -> Text:
    """Pieces of some places; neighbours of one kind of mask stand in one bracket."""
    line = Text()

    def kind(place: int) -> str:
        mask = masks.get(place)
        if mask is None:
            return "plain"
        return "kept" if mask["seen"] == pieces[place] else mask["seen"]

    inner = [place for place in places if pieces[place] not in ("<s>", "</s>", "[CLS]", "[SEP]")]
    for sort, group in groupby(inner, kind):
        members = list(group)
        text = "".join(pieces[place] for place in members)
        if sort == "plain":
            line.append(text if len(line) else text.lstrip())
            continue
        line.append(" " if text.startswith(" ") and len(line) else "")
        seen = "".join(masks[place]["seen"] for place in members).strip()
        line.append("[", QUIET)
        line.append(text.strip(), KEPT if sort == "kept" else ORIGINAL)
        line.append(" = " if sort == "kept" else " → ", QUIET)
        line.append(seen, KEPT if sort == "kept" else SEEN)
        line.append("]", QUIET)
    line.rstrip()
    return line
