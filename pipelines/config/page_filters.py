"""Sections of the filters for lines, addresses, personal data and opt-outs ([[filters]])."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, model_validator

from pipelines.config.base import PositiveInt, Sha256, Share
from pipelines.config.filter_base import FilterBase

Word = Annotated[str, Field(min_length=1)]


class LinesFilter(FilterBase):
    """Takes lines out that are not running text. Changes the text; counts lines and characters."""

    reasons: ClassVar = frozenset({"no_lines_left"})
    changes_text: ClassVar[bool] = True
    kind: Literal["lines"]
    boilerplate: bool = True
    """Take out lines about JavaScript, cookies, terms of use, and "lorem ipsum" (C4). Only short
    lines: a paragraph about JavaScript is text."""
    max_boilerplate_characters: PositiveInt = 200
    """Longer lines are never boilerplate. Our own choice; C4 has no such limit."""
    phrases: list[Word] = []
    """More phrases that make a short line boilerplate, best given by language; case is ignored."""
    min_share_of_letters: Share = 0.3
    """Take out lines with fewer letters among their letters, marks, numbers, symbols and
    punctuation. Our own choice."""
    min_words: NonNegativeInt = 0
    """Take out lines with fewer words. C4: 5. 0 is off: in FineWeb-2 the rule did harm."""
    end_punctuation: bool = False
    """Take out lines that end no sentence (C4), in scripts that mark it. Off: in FineWeb-2 the
    rule did harm."""


class UrlBlocklistFilter(FilterBase):
    """Drops pages by their address. Text plays no part."""

    reasons: ClassVar = frozenset({"blocked_domain", "blocked_word_in_url"})
    kind: Literal["url_blocklist"]
    domains: list[Word] = []
    """Hosts; all hosts below them match too. Written in Unicode or in punycode."""
    words: list[Word] = []
    """Words of the address (between anything that is no letter or digit); case is ignored."""
    domains_file: str | None = None
    """Path or URL of a list of domains that every worker can read: one a line, `#` comments, also
    in the form of a hosts file; compressed where its ending says so."""
    domains_sha256: Sha256 | None = None
    """SHA-256 of that file; another file is refused."""
    words_file: str | None = None
    """Path or URL of a list of words in the same form."""
    words_sha256: Sha256 | None = None
    """SHA-256 of that file; another file is refused."""

    @model_validator(mode="after")
    def _files_are_pinned(self) -> UrlBlocklistFilter:
        for name in ("domains", "words"):
            if (getattr(self, f"{name}_file") is None) != (getattr(self, f"{name}_sha256") is None):
                raise ValueError(f"{name}_file and {name}_sha256 go together")
        if not (self.domains or self.words or self.domains_file or self.words_file):
            raise ValueError("names neither domains nor words, so it would block nothing")
        return self


class PersonalDataFilter(FilterBase):
    """Replaces e-mail addresses, public IP addresses and phone numbers. Changes the text; counts.

    Never drops a document. The rules are in pipelines/filters/README.md.
    """

    changes_text: ClassVar[bool] = True
    kind: Literal["mask_personal_data"]
    email: bool = True
    """Replace e-mail addresses."""
    ip: bool = True
    """Replace public IPv4 and IPv6 addresses."""
    phone: bool = True
    """Replace phone numbers in international form (+49 30 ...)."""
    email_placeholder: str = "email@example.com"
    """What stands for an address. The default is one that nobody can have (RFC 2606)."""
    ipv4_placeholder: str = "192.0.2.1"
    """What stands for an IPv4 address. The default is for documentation (RFC 5737)."""
    ipv6_placeholder: str = "2001:db8::1"
    """What stands for an IPv6 address. The default is for documentation (RFC 3849)."""
    phone_placeholder: str = "+00 0000 0000"
    """What stands for a phone number. No country code begins with 0."""


class RobotsFilter(FilterBase):
    """Drops pages whose owner opted out, by meta element or X-Robots-Tag header."""

    reasons: ClassVar = frozenset({"opted_out"})
    kind: Literal["respect_robots"]
    directives: Annotated[list[Word], Field(min_length=1)] = ["noai"]
    """Directives that drop a page: noai, noimageai, noindex, noarchive ... `none` counts as
    noindex and nofollow."""
    agents: list[Word] = ["ccbot"]
    """A directive addressed to one crawler ("googlebot: noindex") counts for these alone."""
