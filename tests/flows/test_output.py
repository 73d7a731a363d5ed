"""Commands whose standard output is closed, full, or of another encoding."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flows.output import visible

BABELMILL = [sys.executable, "-c", "from flows.cli import main; main()"]
TINY = "en,1000000\nsw,10000\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(
    ("to", "why"),
    [(">/dev/full", "No space left on device"), (">&-", "is closed"), ("| true", "Broken pipe")],
)
def test_an_output_that_is_lost_gives_one_line_and_status_1(
    tmp_path: Path, options: list[str], to: str, why: str
) -> None:
    if to == ">/dev/full" and not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    path = tmp_path / "counts.csv"
    path.write_text(TINY)
    wait = "import sys, time; time.sleep(0.2); " if to == "| true" else ""
    program = [BABELMILL[0], "-c", f"{wait}from flows.cli import main; main()"]
    script = f'set -o pipefail; env -u PYTHONUNBUFFERED "$@" {to}'
    command = ["bash", "-c", script, "bash", *program, "balance", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: the standard output") and why in done.stderr


def test_an_encoding_without_the_characters_gets_their_escapes() -> None:
    command = ["env", "PYTHONIOENCODING=ascii", *BABELMILL, "balance", "-"]
    done = subprocess.run(command, capture_output=True, input=TINY.encode())
    assert done.returncode == 0, done.stderr
    assert b"\\u25cf" in done.stdout and done.stdout.isascii()


def test_escapes_are_json_and_nothing_else_changes() -> None:
    odd = "a\x1b\x9b\u2028\u202e\ud800\tb\u200dc\u200c é 中 😀"
    written = visible(json.dumps(odd, ensure_ascii=False))
    assert json.loads(written) == odd
    assert visible("a\u200dc\u200c é 中 😀") == "a\u200dc\u200c é 中 😀"
    assert visible("a\nb") == "a\\u000ab" and visible("a\nb", keep="\n") == "a\nb"
