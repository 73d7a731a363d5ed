from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from flows.config import resolve, to_toml
from flows.report.__main__ import build_report, main
from flows.report.html import page
from flows.report.plots import save_shares_png
from flows.report.read import read_run
from flows.report.totals import funnel, group_losses, size, verdict
from pipelines.core.config import ConfigError
from pipelines.core.run_file import config_key
from pipelines.core.shards import StageFailed
from pipelines.core.store import Store
from tests.flows.report_runs import (
    EVERYTHING,
    METRICS,
    SCORES,
    SENTENCES,
    TITLE,
    VOCABULARY,
    build_run,
    printed,
    stage,
    sums,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    finished = Store(str(tmp_path_factory.mktemp("store")))
    build_run(finished)
    return finished


def tree_of(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def test_group_losses_weigh_every_masked_token_the_same(store: Store) -> None:
    metrics = read_run(store, "r").metrics
    assert metrics is not None
    rows = {row.group: row for row in group_losses(metrics)}

    latin = {"en": (60_000, 5.0), "de": (24_000, 5.1), "sw": (60, 5.8)}
    tokens = sum(n for n, _ in latin.values())
    assert rows["Latin"].tokens == tokens
    assert rows["Latin"].after == pytest.approx(sum(n * m for n, m in latin.values()) / tokens)
    assert rows["Chinese, Japanese, Korean"].after == pytest.approx(
        (8_000 * 5.3 + 700 * 5.6) / 8_700
    )
    whole = sum(n * (6.4 + 0.1 * i) for i, n in enumerate(SENTENCES.values()))
    assert rows["all languages"].unigram == pytest.approx(whole / sum(SENTENCES.values()))
    assert list(rows)[-1] == "all languages"


def test_the_funnel_adds_languages_up(store: Store) -> None:
    view, whole = read_run(store, "r"), sum(SENTENCES.values())

    assert [(row.stage, row.documents, row.bytes) for row in funnel(view)] == [
        ("extract", sum(int(n * 0.2) for n in SENTENCES.values()), whole * 200),
        ("filter", sum(int(n * 0.15) for n in SENTENCES.values()), whole * 150),
        ("deduplicate", whole // 10, whole * 100),
        ("balance", whole // 10, whole * 100),
    ]


def test_what_a_stage_does_not_count_is_shown_as_such(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ())
    stage(store, "extract", counters={"documents/sw": 12})
    view = read_run(store, "r")

    assert [(row.documents, row.bytes) for row in funnel(view)] == [(12, None)]
    assert verdict(view)[0] == "The sources gave 12 documents."
    assert "<td>–</td>" in page(view)


def test_the_verdict_says_the_numbers_in_words(store: Store) -> None:
    text = " ".join(verdict(read_run(store, "r")))

    assert "The sources gave 21,212 documents (21.2 MB of text); 10,606 of them" in text
    assert "(50.0 %, 10.6 MB)" in text
    assert "holds back 4 of them; left out with too little text: 1." in text
    assert "which is below the 6.48 nats" in text
    assert "72.0 % accuracy and 61.0 % macro-F1" in text


def test_a_model_worse_than_token_frequencies_is_called_so(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    stage(store, "pretrain", ({"part": "metrics"}, {**METRICS, "unigram": sums(4.0)}))

    assert "which is not below the 4.08 nats" in " ".join(verdict(read_run(store, "r")))


def test_the_page_is_well_formed_and_escapes_what_a_run_says(store: Store) -> None:
    text = page(read_run(store, "r"))
    tree = tree_of(text)

    assert "<script" not in text
    assert tree.findtext("body/h1") == f"{TITLE}: run r"
    assert tree.findtext("head/title") == f"{TITLE}: run r"
    assert "<broken gzip member>" in "".join(tree.itertext())
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}svg"))) == 8
    ids = [found for node in tree.iter() if (found := node.get("id"))]
    assert len(ids) == len(set(ids))


def test_odd_characters_of_a_run_do_not_break_the_page(tmp_path: Path) -> None:
    store, odd = Store(str(tmp_path)), "$x_{1$ \x00 & 日本"
    build_run(store, ())
    test = {**SCORES["test"], "per_label": {odd: SCORES["test"]["per_label"]["docs"]}}
    stage(store, "finetune", ({"part": "scores"}, {**SCORES, "test": test}), notes=(odd,))

    cells = [cell.text for cell in tree_of(page(read_run(store, "r"))).iter("td")]
    assert cells.count("$x_{1$ \ufffd & 日本") == 2


def test_the_page_refers_to_nothing_outside_itself(store: Store) -> None:
    text = page(read_run(store, "r"))

    plain = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    assert not re.findall(r"(?:https?:)?//[a-z]", plain)
    assert not re.findall(r'\b(?:src|srcset|action)=|@import|url\((?!#)|href="(?!#)', plain)


def test_every_language_is_in_the_page_though_the_picture_shows_the_largest(store: Store) -> None:
    text = "".join(tree_of(page(read_run(store, "r"))).itertext())

    assert all(re.search(rf"^{tag}$|{tag}\d", text, re.M) for tag in [*SENTENCES, "yo"])


def test_the_same_run_gives_the_same_page_and_picture(store: Store, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from flows.report.html import page;"
        "from flows.report.read import read_run; from flows.report.plots import save_shares_png;"
        "from pipelines.core.store import Store; view = read_run(Store(sys.argv[1]), 'r');"
        "sys.stdout.write(page(view)); save_shares_png(view.balance, Path(sys.argv[2]), 40)"
    )
    other = [sys.executable, "-c", code, store.url, str(tmp_path / "b.png")]
    there = subprocess.run(other, check=True, capture_output=True, encoding="utf-8").stdout
    balance = read_run(store, "r").balance
    assert balance is not None
    save_shares_png(balance, tmp_path / "a.png", 40)

    assert there == page(read_run(store, "r"))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_report_is_built_once_and_again_when_an_input_changes(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, EVERYTHING[:6])

    assert build_report(store, "r", quiet=True).reused == 0
    assert json.loads(store.read_bytes("runs/r/report/report.json"))["unfinished"] == [
        "pretrain", "export", "finetune"]  # fmt: skip
    assert build_report(store, "r", quiet=True).reused == 1
    stage(store, "pretrain", ({"part": "metrics"}, METRICS))
    assert build_report(store, "r", quiet=True).reused == 0
    told = json.loads(store.read_bytes("runs/r/report/report.json"))
    assert told["unfinished"] == ["export", "finetune"]
    assert told["loss_by_group"][-1]["before"] == pytest.approx(9.31, abs=0.01)
    assert store.exists("runs/r/report/index.html")


def test_a_failed_run_is_told_as_far_as_it_came(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract", "filter"))
    with pytest.raises(StageFailed, match="the disk went away"):
        stage(store, "deduplicate", fails=True)

    assert main(["--store", store.url, "--run", "r"]) == 0
    text = "".join(tree_of(store.read_bytes("runs/r/report/index.html").decode()).itertext())
    assert "Not finished: deduplicate, balance, vocabulary, pack, pretrain" in text
    assert "Languages: not finished" in printed(store, 80)


def test_a_run_that_has_only_begun_has_a_page(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ())

    assert main(["--store", store.url, "--run", "r"]) == 0


def test_a_stage_made_from_results_since_replaced_is_called_out_of_date(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    first = stage(store, "vocabulary", ({"part": "report"}, VOCABULARY))
    stage(store, "pack", reads=(first.outputs[0].ref,))
    assert read_run(store, "r").outdated == ()

    stage(store, "vocabulary", ({"part": "report"}, {**VOCABULARY, "pieces": 11_999}))

    assert "Out of date: pack and what follows" in " ".join(verdict(read_run(store, "r")))
    assert re.search(r"pack +1 +0 +under 1 s, out of date", printed(store, 80))


def test_an_unknown_run_is_refused_by_name(tmp_path: Path, capsys: Any) -> None:
    assert main(["--store", str(tmp_path), "--run", "missing"]) == 2
    assert "no run 'missing'" in capsys.readouterr().err


def test_a_table_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ())
    stage(store, "pretrain", ({"part": "metrics"}, {"rows": "many"}))

    with pytest.raises(ConfigError, match=r"runs/r/pretrain/.*not a Metrics table"):
        read_run(store, "r")


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_table_fits_and_cuts_nothing(store: Store, width: int) -> None:
    text = printed(store, width)

    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert re.search(r"sw +6\.00 kB +6 +60 +0\.0566 % +0\.453 % +8\.00\*", text)
    assert re.search(r"all 9 +10\.6 MB +10,606 +106,060 +100\.0 % +100\.0 %", text)
    assert re.search(r"Latin +84,060 +9\.30 +5\.03 +6\.43 +9\.39", text)
    assert "left out, too little text (1; sentences): yo (7)" in text
    assert re.search(r"topic +310 +72\.0 % +61\.0 % +25\.0 %", text)


def test_languages_beyond_the_terminal_are_counted(store: Store) -> None:
    assert "6 smaller languages are not shown" in printed(store, 80, max_languages=3)


def test_a_second_run_says_reused_with_the_work_of_the_first(store: Store) -> None:
    build_run(store)

    stages = {stage.name: stage for stage in read_run(store, "r").stages}
    assert stages["extract"].reused and stages["extract"].record is not None
    assert re.search(r"extract +1 +1 +reused \(under 1 s of work\)", printed(store, 80))


def test_a_title_that_names_the_run_does_not_name_it_twice(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    config = "[run]\nname = 'r'\n\n[report]\ntitle = 'Run r of May'\n"
    store.publish_bytes("runs/r/config.toml", config.encode())

    assert tree_of(page(read_run(store, "r"))).findtext("body/h1") == "Run r of May"


def test_sizes_are_in_powers_of_a_thousand() -> None:
    assert [size(n) for n in (0, 999, 1000, 12_345_678)] == ["0 B", "999 B", "1.00 kB", "12.3 MB"]


def test_a_run_without_a_task_waits_for_no_fine_tuning(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    config = resolve("wikipedia-small", settings={"run.name": "r", "finetuning": []})
    store.publish_bytes(config_key("r"), to_toml(config))

    view = read_run(store, "r")

    assert "finetune" not in view.unfinished
    assert "extract" in view.unfinished
    assert "Fine-tuning" not in page(view)
    assert "Fine-tuning" not in printed(store, 80)


def test_a_task_that_is_waited_for_is_said_to_be_unfinished(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    assert re.search(r"Fine-tuning +not finished", printed(store, 80))


def test_a_stage_that_reads_its_own_inner_steps_is_not_out_of_date(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    inner = stage(store, "deduplicate-plan", ({"part": "plan"}, {"shards": 3}))
    stage(store, "deduplicate", reads=(inner.outputs[0].ref,))
    assert read_run(store, "r").outdated == ()

    stage(store, "deduplicate-plan", ({"part": "plan"}, {"shards": 4}))
    assert read_run(store, "r").outdated == ("deduplicate",)


def test_what_a_base_run_decided_is_not_out_of_date(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    base = stage(store, "deduplicate-plan", ({"part": "plan"}, {"shards": 3}))
    config = (tmp_path / "runs/r/config.toml").read_text()
    (tmp_path / "runs/r").rename(tmp_path / "runs/base")
    store.publish_bytes("runs/r/config.toml", f"{config}\n[deduplication]\n".encode())
    reads = base.outputs[0].ref.model_copy(update={"path": "corpus/plan.json"})
    record = (tmp_path / "runs/base/stages/deduplicate-plan.json").read_text()
    path = tmp_path / "runs/base/stages/deduplicate-plan.json"
    path.write_text(record.replace(base.outputs[0].path, "corpus/plan.json"))
    stage(store, "deduplicate", reads=(reads,))
    assert read_run(store, "r").outdated == ("deduplicate",), "it does not say that it has a base"

    based = f"{config}\n[deduplication]\nbase_run = 'base'\n"
    store.publish_bytes("runs/r/config.toml", based.encode())
    assert read_run(store, "r").outdated == ()


def test_the_page_tells_of_perplexity_only_where_the_stage_ran(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    build_run(store, ("extract",))
    assert "Perplexity" not in page(read_run(store, "r"))

    config = (tmp_path / "runs/r/config.toml").read_text() + "\n[perplexity]\nenabled = true\n"
    store.publish_bytes("runs/r/config.toml", config.encode())
    counters = {f"bucket.{bucket}/sw": n for bucket, n in (("head", 3), ("middle", 5), ("tail", 7))}
    stage(store, "perplexity", counters={**counters, "bucket.unscored/th": 11})
    shown = "".join(tree_of(page(read_run(store, "r"))).itertext())
    assert "Models of 1 language(s); the other 1 have too little text" in shown
    assert re.search(r"all languages\s*3\s*5\s*7\s*11\s*sw\s*3\s*5\s*7\s*0", shown)
