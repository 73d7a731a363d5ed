"""`babelmill balance`: the shares that an exponent gives, for any file of counts.

Nothing else runs: it starts without torch, Ray and Prefect.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.output import fail, visible, write, write_drawn
from pipelines.core.config import ConfigError

if TYPE_CHECKING:
    from flows.balance_plan import Plan
    from flows.counts_file import Counts

PNG = ".png"


def balance(
    counts: Annotated[
        str, typer.Argument(metavar="COUNTS", help="CSV, TSV or JSON; - is standard input.")
    ],
    alpha: Annotated[
        list[float] | None,
        typer.Option(min=0, max=1, help="The exponent, 0.3 by default; several are compared."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Which count, where there are several: sentences, bytes.")
    ] = None,
    max_repeats: Annotated[
        float | None, typer.Option(min=1, help="Cap on repeats of a text; none by default.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Texts drawn in all; by default what there is.")
    ] = None,
    weight: Annotated[
        list[str] | None, typer.Option(help="A share set by hand: sw=0.05. May be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, nothing else.")] = False,
    png: Annotated[Path | None, typer.Option(help="Draw the picture into this file.")] = None,
) -> None:
    """Show each language's share, q_i = p_i^alpha / sum_j p_j^alpha, from a file of counts.

    COUNTS has a language and a count a line (with or without a header; with one, several counts
    may stand side by side), or is JSON: {"sw": 12}, [{"language": "sw", "count": 12}], a run's
    balance table, or a stage's record. Tags are read as a run reads them: EN is en. Nothing is run
    or written.

    Exit status: 0; 1 the output is closed or full; 2 a file of counts or an option is wrong.
    """
    from flows.balance_plan import A_RUNS, plan_of
    from flows.counts_file import read_counts

    try:
        found = read_counts(counts, unit)
        alphas = [a + 0.0 for a in dict.fromkeys(alpha or [A_RUNS.alpha])]  # -0.0 reads 0
        cap = math.inf if max_repeats is None else max_repeats
        plans = [plan_of(found, a, cap, draws, _weights(weight or ())) for a in alphas]
        if png is not None:
            _draw(png, found, plans, cap)
    except ConfigError as error:
        fail(f"error: {error}", 2)
    if as_json:
        text = json.dumps(tree_of(found, plans, cap, draws), indent=1, ensure_ascii=False)
        write(visible(text, keep="\n") + "\n")
    else:
        _show(found, plans, cap, draws)


def _weights(given: Sequence[str]) -> dict[str, float]:
    from flows.counts_file import folded

    weights: dict[str, float] = {}
    for text in given:
        tag, equals, value = text.partition("=")
        try:
            share = float(value)
        except ValueError:
            share = math.nan
        if not equals or not tag.strip() or not 0 < share <= 1:
            raise ConfigError(f"--weight {text!r}: write language=share, above 0 and at most 1")
        tag = folded(tag)
        if tag in weights:
            raise ConfigError(f"--weight {text!r}: {tag!r} has a weight already")
        weights[tag] = share
    return weights


def tree_of(found: Counts, plans: Sequence[Plan], cap: float, draws: int | None) -> dict[str, Any]:
    """Everything the tables show, as plain JSON."""
    return {
        "unit": found.unit,
        "draws": draws,
        "max_repeats": None if cap == math.inf else cap,
        "excluded": [tag for tag, count in sorted(found.counts.items()) if not count],
        "plans": [
            {
                "alpha": plan.alpha,
                "moved_by_cap": plan.moved,
                "rows": [
                    {
                        **asdict(share),
                        "q_uncapped": plan.uncapped[share.language],
                        **_use_of(plan, share.language),
                    }
                    for share in plan.shares
                ],
            }
            for plan in plans
        ],
    }


def _use_of(plan: Plan, language: str) -> dict[str, int]:
    use = plan.usage.get(language)
    if use is None:
        return {}
    return {"draws": use.draws, "once": use.once, "repeated": use.repeated, "never": use.never}


def _show(found: Counts, plans: Sequence[Plan], cap: float, draws: int | None) -> None:
    from rich.console import Console

    from flows.balance_table import comparison, natural_width, remarks, single, texts_used

    width = Console().width

    def say(line: str) -> None:
        lines = wrap(visible(line), width, break_long_words=False, break_on_hyphens=False)
        write("\n".join(lines) + "\n")

    whole = sum(found.counts.values())
    drawn = f"{draws:,} draws" if draws is not None else f"as many draws as there are, {whole:,}"
    capped = "no cap on repeats" if cap == math.inf else f"at most {cap:g} repeats"
    say(f"n counts {found.unit}. Repeats are of a text in {drawn}; {capped}.")
    tables = [single(plans[0], width)] if len(plans) == 1 else comparison(plans, width)
    if draws is not None:
        tables += [texts_used(plan, width) for plan in plans]
    widest = max(width, *map(natural_width, tables))
    for table in tables:  # a terminal that is narrower still wraps lines, but no number is cut
        write_drawn(table, width=widest)
        write("\n")
    for plan in plans:
        for line in remarks(plan, cap, draws):
            say(f"alpha {plan.alpha:g}: {line}" if len(plans) > 1 else line)
    if empty := [tag for tag, count in sorted(found.counts.items()) if not count]:
        say(f"left out, 0 {found.unit} ({len(empty)}): {', '.join(empty)}")
    if others := [other for other in found.units if other != found.unit and len(found.units) > 1]:
        say(f"also counted there: {', '.join(others)} (--unit)")


def _draw(path: Path, found: Counts, plans: Sequence[Plan], cap: float) -> None:
    from flows.report.plots import save_shares_png
    from flows.report.tables import Balance, BalanceRow

    if len(plans) > 1:
        raise ConfigError("--png draws one plan: give one --alpha")
    if path.is_dir():
        raise ConfigError(f"--png {path}: is a directory; name a file in it, ending in {PNG}")
    if path.suffix.lower() != PNG:
        raise ConfigError(f"--png {path}: the picture is a PNG; let its name end in {PNG}")
    [plan] = plans
    sizes = dict.fromkeys(("documents", "sentences", "characters", "bytes"), 0)
    rows = tuple(
        BalanceRow.model_validate({**sizes, **asdict(share), "language": _drawn(share.language)})
        for share in plan.shares
    )
    cap = max(share.repeats for share in plan.shares) if cap == math.inf else cap
    table = Balance(alpha=plan.alpha, max_repeats=cap, unit=found.unit, rows=rows)
    try:
        save_shares_png(table, path, len(rows))
    except OSError as error:
        raise ConfigError(f"--png {path}: {error.strerror or error}") from None


def _drawn(language: str) -> str:
    """A name as matplotlib draws it: a dollar sign would begin a formula."""
    return visible(language).replace("$", r"\$")
