"""The house rules that no tool checks: file sizes, and documents that tell the truth."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_FILE = 300


def tracked(pattern: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).exists()]


SOURCES = [
    p for p in tracked("*.py") if p.relative_to(ROOT).parts[0] in ("pipelines", "model", "flows")
]
DOCUMENTS = tracked("*.md")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_source_file_is_longer_than_it_may_be(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_path_a_document_names_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)\)", text) if "://" not in link]
    # `folder/file.py` in backticks is a promise too; patterns, URLs and store keys are not.
    named = re.findall(r"`((?:pipelines|model|flows|infra|tests|\.ci)/[\w./-]*)`", text)
    missing = [link for link in links if not (path.parent / link).exists()]
    missing += [name for name in named if not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_a_document_shows_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^\s*make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    from flows.cli import app

    commands = {
        c.name or (c.callback.__name__ if c.callback else "") for c in app.registered_commands
    }
    commands = {name.replace("_", "-") for name in commands}
    for command in re.findall(r"babelmill ([a-z][a-z-]+)", text):
        if re.search(rf"^\s*(?:\$ )?babelmill {command}\b", text, re.MULTILINE):
            assert command in commands, f"babelmill {command}"


def test_every_package_folder_has_a_readme() -> None:
    for folder in ("pipelines", "model", "flows", "infra", "tests"):
        assert (ROOT / folder / "README.md").exists(), folder
