from __future__ import annotations

from pathlib import Path

import pytest

from flows.check import check_languages, language_of_wiki, preflight
from flows.check_sizes import (
    Sizes,
    bytes_by_content,
    check_vocabulary_size,
    size_on_server,
    summarise,
    training_note,
)
from flows.config import RunConfig, resolve
from pipelines.config import VocabularySection
from pipelines.core.config import ConfigError
from pipelines.core.records import Shard
from pipelines.identify_language import known_languages

UNKNOWN = Sizes(lambda _: None)
"""A server that says no size."""


def shard(name: str, size: int | None, source: str = "commoncrawl") -> Shard:
    return Shard(name=name, url=name, source=source, kind="common_crawl", size=size)


def wikipedias(languages: list[str], wikis: list[str]) -> RunConfig:
    source = {"kind": "wikipedia", "wikis": wikis, "date": "latest"}
    return resolve("demo", settings={"run.languages": languages, "sources": [source]})


def test_a_language_the_identifier_cannot_tell_is_named_with_the_nearest() -> None:
    config = resolve("demo", settings={"run.languages": ["de", "swh-Arab"]})
    with pytest.raises(ConfigError, match=r"run\.languages: '.*Arab'"):
        check_languages(config, known_languages())
    with pytest.raises(ConfigError, match=r"'deu-x-abc' .* did you mean 'deu'\?"):
        check_languages(
            config.model_copy(
                update={"run": config.run.model_copy(update={"languages": ["deu-x-abc"]})}
            ),
            {"deu", "fr"},
        )


def test_languages_none_of_which_the_wikipedias_hold_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Wikipedias in en, sw"):
        check_languages(wikipedias(["de", "fr"], ["sw", "simple"]), known_languages())


def test_a_language_that_only_some_source_lacks_is_a_note() -> None:
    notes = check_languages(wikipedias(["de", "sw"], ["sw"]), known_languages())
    assert notes == ["no source is in de"]


def test_a_crawl_does_not_say_its_languages_so_nothing_is_refused() -> None:
    config = resolve("demo", settings={"run.languages": ["is"]})
    assert check_languages(config, known_languages()) == []


@pytest.mark.parametrize(
    ("wiki", "language"),
    [("sw", "sw"), ("simple", "en"), ("zh_yue", "yue"), ("als", "gsw"), ("species!", None)],
)
def test_the_language_of_a_wiki(wiki: str, language: str | None) -> None:
    assert language_of_wiki(wiki) == language


def test_a_vocabulary_the_bytes_cannot_support_is_refused_with_the_largest_that_fits() -> None:
    warc = Shard("a", "a", "commoncrawl", "common_crawl", size=8000, options={"format": "warc"})
    wet = Shard("b", "b", "commoncrawl", "common_crawl", size=2000, options={"format": "wet"})
    # 8000 x 0.5 + 2000 x 3 characters, 40 for each piece
    check_vocabulary_size(250, [warc, wet], UNKNOWN)
    with pytest.raises(ConfigError, match=r"vocabulary\.size = 251: .* below 250"):
        check_vocabulary_size(251, [warc, wet], UNKNOWN)


def test_what_training_will_need_is_said_and_drawn_lines_are_held_to_the_limit() -> None:
    gigabytes = [crawl_file("a", 10**9, "wet")]  # at most 3 x 10^9 characters
    lines = VocabularySection(train_on="lines", sample_characters=1_000_000_000)
    note = training_note(lines, gigabytes, UNKNOWN)
    assert note is not None
    assert "1,000,000,000 characters of sample needs about 24.1 GB" in note and "at most" in note
    with pytest.raises(
        ConfigError, match=r"max_memory_gb is 16\.0 GB; .*sample_characters = 6[56]"
    ):
        training_note(lines.model_copy(update={"max_memory_gb": 16.0}), gigabytes, UNKNOWN)
    # Nobody knows yet how many words there are: at most one in twenty characters is new.
    words = VocabularySection(max_memory_gb=0.5)
    note = training_note(words, [crawl_file("a", 10**7, "wet")], UNKNOWN)
    assert note is not None and "16,500,000 characters in distinct words" in note
    assert "max_memory_gb is 0.5 GB, and the stage refuses what needs more" in note
    enough = words.model_copy(update={"max_memory_gb": 2.0})  # 0.28 + 0.08 + 1.4 GB
    note = training_note(enough, [crawl_file("a", 10**7, "wet")], UNKNOWN)
    assert note is not None and note.endswith("at most")
    assert training_note(words, [crawl_file("b")], UNKNOWN) is None
    assert training_note(words, [], UNKNOWN) is None


def test_an_unknown_size_refuses_nothing() -> None:
    check_vocabulary_size(1_000_000, [crawl_file("a", 10), crawl_file("b")], UNKNOWN)
    check_vocabulary_size(1_000_000, [shard("of a kind without a rate", 10)], UNKNOWN)


def crawl_file(name: str, size: int | None = None, content: str = "warc") -> Shard:
    options = {"format": content}
    return Shard(name, name, "commoncrawl", "common_crawl", size=size, options=options)


def test_few_sizes_are_asked_evenly_and_the_rest_is_taken_to_be_the_same() -> None:
    asked: list[str] = []

    def ask(shard: Shard) -> int:
        asked.append(shard.name)
        return 1000 if shard.options["format"] == "warc" else 100

    warcs = [crawl_file(f"warc {number}") for number in range(90_000)]
    wets = [crawl_file(f"wet {number}", content="wet") for number in range(10)]
    wikis = [Shard("w", "w", "wikipedia", "wikipedia", size=50)]
    found = bytes_by_content([*warcs, *wets, *wikis], Sizes(ask))
    assert found == {"warc": 90_000_000.0, "wet": 1000.0, "wikipedia": 50.0}
    assert len(asked) == 16 + 10
    numbers = [int(name.split()[1]) for name in asked if name.startswith("warc")]
    assert numbers == [number * 90_000 // 16 for number in range(16)]


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 500])
def test_of_each_kind_at_most_sixteen_are_asked_and_none_twice(count: int) -> None:
    asked: list[str] = []

    def ask(shard: Shard) -> int:
        asked.append(shard.name)
        return 7

    shards = [
        crawl_file(f"{kind} {i}", content=kind) for kind in ("warc", "wet") for i in range(count)
    ]
    sizes = Sizes(ask)
    bytes_by_content(shards, sizes)
    [line] = summarise(shards, sizes)
    assert len(asked) == len(set(asked)) == 2 * min(count, 16)
    assert (line.bytes, line.estimated, line.size) == (14 * count, True, f"about {14 * count:,}")


def test_an_estimated_limit_is_said_to_be_one() -> None:
    shards = [crawl_file(f"{number}") for number in range(100)]
    # 100 x 8000 bytes x 0.5 characters, 40 for each piece
    check_vocabulary_size(10_000, shards, Sizes(lambda _: 8000))
    with pytest.raises(ConfigError, match=r"about 800,000 compressed bytes .* below 10000"):
        check_vocabulary_size(10_001, shards, Sizes(lambda _: 8000))


def test_a_listed_file_that_is_not_there_ends_the_check(tmp_path: Path) -> None:
    absent = Shard("a", f"{tmp_path}/a.warc.gz", "commoncrawl", "common_crawl")
    with pytest.raises(ConfigError, match=r"listed file cannot be read: .*a\.warc\.gz: no such"):
        size_on_server(absent)
    (tmp_path / "a.warc.gz").write_bytes(b"12345")
    assert size_on_server(absent) == 5


def test_sources_are_summed_and_an_unknown_size_is_not_taken_for_zero() -> None:
    lines = summarise(
        [shard("a", 1), shard("w", None, "wikipedia"), shard("b", 2)], Sizes(lambda _: None)
    )
    assert [(line.source, line.shards, line.bytes) for line in lines] == [
        ("commoncrawl", 2, 3),
        ("wikipedia", 1, None),
    ]


def test_a_store_that_cannot_be_written_ends_the_check(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = resolve("demo", settings={"store.url": str(tmp_path / "file" / "store")})
    with pytest.raises(ConfigError, match=r"store\.url"):
        preflight(config)


def demo_with(tmp_path: Path, **settings: object) -> RunConfig:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "a"}\n')
    sources = [{"kind": "local_files", "paths": [str(texts)]}]
    store = str(tmp_path / "store")
    return resolve("demo", settings={"sources": sources, "store.url": store, **settings})


def test_a_base_run_that_is_not_there_ends_the_check(tmp_path: Path) -> None:
    config = demo_with(tmp_path, **{"deduplication.base_run": "september"})
    with pytest.raises(ConfigError, match=r"base_run = 'september': stage 'deduplicate-plan'"):
        preflight(config)


def test_a_blocklist_that_is_not_there_or_another_ends_the_check(tmp_path: Path) -> None:
    blocked = tmp_path / "domains.txt"
    section = {"kind": "url_blocklist", "domains_file": str(blocked), "domains_sha256": "0" * 64}
    config = demo_with(tmp_path, filters=[section])
    with pytest.raises(ConfigError, match=r"domains\.txt"):
        preflight(config)
    blocked.write_text("x.test\n")
    with pytest.raises(ConfigError, match="has sha256 .* but the setting says 0000"):
        preflight(config)


def test_a_package_that_is_not_installed_ends_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.check.find_spec", lambda name: None)  # as on a bare machine
    config = demo_with(tmp_path, **{"extraction.extractor": "trafilatura"})
    with pytest.raises(ConfigError, match=r"pip install 'babelmill\[trafilatura\]'"):
        preflight(config)
