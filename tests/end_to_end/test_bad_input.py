"""What cannot work ends before work starts: one message, the setting, its value, what is right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BABELMILL = [sys.executable, "-c", "from flows.cli import main; main()"]
WIKIS = 'sources=[{kind="wikipedia", wikis=["sw"], date="20261101", server="sample-mirror"}]'


def babelmill(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    store = ("--set", f"store.url={tmp_path / 'store'}")
    extra = () if any("store.url" in argument for argument in arguments) else store
    command = [*BABELMILL, *arguments, *extra]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


WRONG = [
    (["--preset", "demmo"], r"preset = 'demmo': no such preset; known: bert-base, demo, mod"),
    (["--file", "no-such.toml"], r"no-such\.toml: no such configuration file"),
    (["--set", "pretraning.steps=9"], r"pretraning: no such setting; did you mean 'pretrain"),
    (["--set", "balance.alfa=1"], r"balance\.alfa: no such setting; did you mean 'alpha'"),
    (["--set", "cluster.use_gpu=Flase"], r"cluster\.use_gpu = 'Flase'"),
    (["--set", "store.url=/proc/none"], r"store\.url = '/proc/none': cannot write"),
    (["--set", "store.url=s4://bucket"], r"store\.url = 's4://bucket': cannot write"),
    (["--set", "vocabulary.size=250_000"], r"vocabulary\.size = 250000: .* below \d+"),
    (["--set", "sources.2.wikis=['qq']"], r"sources\.2 .*qqwiki"),
    (["--set", "sources.0.snapshot=CC-MAIN-1999-01"], r"sources\.0 .*CC-MAIN-1999-01"),
    (["--set", "sources=[]"], r"sources = \[\]"),
    (["--file", "tests"], r"tests: cannot be read: Is a directory"),
    (["--set", "sources.0.server=foo://bar"], r"sources\.0 .*foo"),
    (["--set", "sources.0.server=http://[::1"], r"sources\.0 .*not an address"),
    (["--set", "sources.0.server=no/such/folder"], r"sources\.0 .*no such file"),
    (["--set", "finetuning.0.label_pattern=abc"], r"label_pattern = 'abc': put the label"),
    (["--set", "packing.length=64"], r"finetuning\.topic\.max_tokens = 128"),
    (["--set", "pretraining.sequences_per_step=7"], r"a step of 7 sequences has only 1 micro-b"),
    (["--set", "run.languages=['xx']"], r"run\.languages: 'xx' is not a language"),
    (["--set", "extraction.max_page_bytes=1e30"], r"max_page_bytes = 1e\+30"),
    (["--set", f"extraction.max_page_bytes={10**22}"], r"max_page_bytes = 10{22}: .*less"),
    (["--set", "filters=[{kind='length', min_characters=9, max_characters=3}]"], r"= 9 is above"),
    (["--set", "filters=[{kind='length', by_language={sw={min_characters=-5}}}]"], r"sw\.min_ch"),
    (["--set", "fetching.first_pause_seconds=900"], r"first_pause_seconds = 900.* is above longe"),
    (["--set", "deduplication.near.bands=13"], r"give both bands and rows_per_band"),
    (["--set", "deduplication.base_run='none'"], r"base_run = 'none': stage .* not finished"),
    (["--set", "language_identification.model='fasttext_file'"], r"needs path and sha256"),
    (["--set", "perplexity.head_percentile=70"], r"must be below middle_percentile"),
    (["--set", WIKIS, "--set", "run.languages=['de']"], r"run\.languages = \['de'\]: none"),
]


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    # Both commands check the same way: `run` is tried with every fifth.
    [("check", *wrong) for wrong in WRONG] + [("run", *wrong) for wrong in WRONG[::5]],
)
def test_it_is_refused_in_words_before_anything_starts(
    tmp_path: Path, command: str, arguments: list[str], message: str
) -> None:
    done = babelmill(tmp_path, command, *arguments)

    assert done.returncode == 2, done
    assert re.search(message, done.stderr, re.DOTALL), done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    written = [p for p in (tmp_path / "store").rglob("*") if p.is_file()]
    assert not written


def test_a_check_that_passes_lists_the_sources_and_writes_nothing(tmp_path: Path) -> None:
    done = babelmill(tmp_path, "check", "--set", "run.name=mine")

    assert done.returncode == 0, done.stderr
    assert re.search(r"commoncrawl +.* 11 ", done.stdout)
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
