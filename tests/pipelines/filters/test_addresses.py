from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.core.config import ConfigError
from pipelines.filters.addresses import directives_of, normal_host, words_of_url
from tests.pipelines.filters.pages import document, judged, section


def blocked(url: str, **settings) -> str | None:
    return judged(document("text", url=url), "url_blocklist", **settings)[0]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://bad.example/", "blocked_domain"),
        ("https://www.bad.example/page", "blocked_domain"),
        ("http://a.b.BAD.example.:8080/", "blocked_domain"),
        ("https://user@bad.example/", "blocked_domain"),
        ("https://notbad.example/", None),
        ("https://bad.example.org/", None),
        ("https://good.example/bad.example", None),
        ("https://example/", None),
        ("https://bücher.example/x", "blocked_domain"),
        ("https://shop.xn--bcher-kva.example/x", "blocked_domain"),
        ("https://BÜCHER.example", "blocked_domain"),
        ("https://пример.рф/", "blocked_domain"),
        ("https://10.0.0.1/", None),
        ("https://[::1", None),
        ("", None),
        ("not a url", None),
    ],
)
def test_a_host_matches_with_all_below_it_in_unicode_and_punycode(
    url: str, expected: str | None
) -> None:
    domains = ["bad.example", "Bücher.example", "xn--e1afmkfd.xn--p1ai"]
    assert blocked(url, domains=domains) == expected


def test_the_reason_names_the_entry() -> None:
    found = blocked("https://www.bad.example/", domains=["*.bad.example"])
    assert found.because == "www.bad.example is bad.example or below it"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example/casino/win", "blocked_word_in_url"),
        ("https://a.example/my_CASINO-games", "blocked_word_in_url"),
        ("https://casino.example/", "blocked_word_in_url"),
        ("https://a.example/?q=%D0%BA%D0%B0%D0%B7%D0%B8%D0%BD%D0%BE", "blocked_word_in_url"),
        ("https://a.example/casinotown", None),
        ("https://essex.example/sussex", None),
    ],
)
def test_words_of_an_address_match_whole(url: str, expected: str | None) -> None:
    assert blocked(url, words=["casino", "Казино", "sex"]) == expected


def pinned(path: Path, content: bytes, what: str = "domains") -> dict[str, str]:
    path.write_bytes(content)
    return {f"{what}_file": str(path), f"{what}_sha256": hashlib.sha256(content).hexdigest()}


def test_lists_are_read_from_files_of_several_forms(tmp_path: Path) -> None:
    lines = b"# comment\nbad.example  # why\n\n0.0.0.0 hosts.example\r\n.dot.example\n"
    plain = pinned(tmp_path / "list.txt", lines)
    packed = pinned(tmp_path / "list.txt.gz", gzip.compress(lines, mtime=0))
    words = pinned(tmp_path / "words.txt", "казино\n".encode(), "words")
    for settings in (plain, packed):
        for host in ("bad", "hosts", "dot"):
            assert blocked(f"https://x.{host}.example/", **settings) == "blocked_domain"
        assert blocked("https://0.0.0.0/", **settings) is None
    both = {**plain, **words}
    assert blocked("https://a.example/казино", **both) == "blocked_word_in_url"
    assert blocked("https://a.example/", **both) is None


def test_another_file_is_refused_and_named(tmp_path: Path) -> None:
    settings = pinned(tmp_path / "list.txt", b"bad.example\n")
    (tmp_path / "list.txt").write_bytes(b"other.example\n")
    with pytest.raises(ConfigError, match=r"list\.txt.*has sha256 .* but the setting says"):
        blocked("https://a.example", **settings)
    settings = pinned(tmp_path / "gone.txt", b"x\n")
    (tmp_path / "gone.txt").unlink()
    with pytest.raises(ConfigError, match=r"gone\.txt.*cannot be read.*FileNotFoundError"):
        blocked("https://a.example", **settings)
    settings = pinned(tmp_path / "latin.txt", b"b\xfccher.example\n")
    with pytest.raises(ConfigError, match=r"latin\.txt.*no UTF-8 list"):
        blocked("https://a.example", **settings)
    settings = pinned(tmp_path / "plain.gz", b"bad.example\n")
    with pytest.raises(ConfigError, match=r"plain\.gz.*compressed with gzip"):
        blocked("https://a.example", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "would block nothing"),
        ({"domains_file": "list.txt"}, "domains_file and domains_sha256 go together"),
        ({"words_sha256": "0" * 64, "words": ["x"]}, "words_file and words_sha256 go together"),
        ({"domains": [""]}, "at least 1 character"),
    ],
)
def test_a_section_that_cannot_work_is_refused(settings, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        section("url_blocklist", **settings)


def test_hosts_and_words_have_one_form() -> None:
    assert normal_host(" WWW.Straße.example. ") == "www.xn--strae-oqa.example"
    assert normal_host("a_b.example") == "a_b.example"
    assert normal_host("ab\u0600c_.example") == "ab\u0600c_.example"
    assert words_of_url("https://a.example/x-y_z?q=1%2B2") == {
        *("https", "a", "example", "x", "y", "z", "q", "1", "2")
    }


@pytest.mark.parametrize(
    ("robots", "expected"),
    [
        ("noindex, nofollow", {"noindex", "nofollow"}),
        ("NoAI", {"noai"}),
        ("none", {"none", "noindex", "nofollow"}),
        ("googlebot: noindex", set()),
        ("googlebot: noindex, noai", {"noai"}),  # a header, and a meta element joined to it
        ("googlebot: noindex, ccbot: noai", {"noai"}),
        ("noarchive, otherbot: noai, noindex", {"noarchive", "noindex"}),
        ("CCBot: noai, nosnippet", {"noai", "nosnippet"}),
        ("unavailable_after: 25 Jun 2030, noai", {"unavailable_after", "noai"}),
        ("max-snippet:-1,max-image-preview:large", {"max-snippet", "max-image-preview"}),
        ("googlebot: max-snippet: 3", set()),
        ("", set()),
        (" , ", set()),
    ],
)
def test_directives_are_read_as_crawlers_read_them(robots: str, expected: set[str]) -> None:
    assert directives_of(robots, frozenset({"ccbot"})) == expected


def test_pages_whose_owner_opted_out_are_dropped_as_listed() -> None:
    page = document("text", metadata={"robots": "noindex, noimageai"})
    assert judged(page, "respect_robots")[0] is None
    found, _ = judged(page, "respect_robots", directives=["noai", "NoImageAI"])
    assert found == "opted_out" and found.because == "robots: noimageai"
    assert judged(document("text"), "respect_robots", directives=["noindex"])[0] is None
    none = document("text", metadata={"robots": "none"})
    assert judged(none, "respect_robots", directives=["noindex"])[0] == "opted_out"
