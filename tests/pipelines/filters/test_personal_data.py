from __future__ import annotations

import pytest

from tests.pipelines.filters.pages import document, judged

EMAIL, IPV4, IPV6, PHONE = (
    *("email@example.com", "192.0.2.1"),
    *("2001:db8::1", "+00 0000 0000"),
)


def masked(text: str, language: str = "en", **settings):
    page = document(text, language)
    found, count = judged(page, "mask_personal_data", **settings)
    assert found is None
    return page.text, count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to jane.doe+x@mail.test.org.", f"Write to {EMAIL}."),
        ("<JANE@TEST.CO.UK>", f"<{EMAIL}>"),
        ("mailto:o'neil@a-b.ie?x", f"mailto:{EMAIL}?x"),
        ("почта@пример.рф", EMAIL),
        ("请联系jane@test.cn谢谢", f"请联系{EMAIL}谢谢"),
        ("ติดต่อjane@test.co.thครับ", f"ติดต่อ{EMAIL}ครับ"),
        ("a@b.xn--p1ai", EMAIL),
        ("Server 8.8.4.14 and 203.1.113.77.", f"Server {IPV4} and {IPV4}."),
        ("(93.184.216.34:8080)", f"({IPV4}:8080)"),
        ("http://93.184.216.34/x", f"http://{IPV4}/x"),
        ("at 2606:4700:4700::1111, up", f"at {IPV6}, up"),
        ("[2a00:1450:4001:81b:0:0:0:200e]", f"[{IPV6}]"),
        ("Call +49 30 227-32000 now", f"Call {PHONE} now"),
        ("(+1 (202) 456-1111)", f"({PHONE})"),
        ("(+49) 30 227-32000", PHONE),
        ("+44 20 7219 3000 2024", f"{PHONE} 2024"),
        ("+81-3-3580-3311、", f"{PHONE}、"),
        ("٠١ +20 2 27921000", f"٠١ {PHONE}"),
    ],
)
def test_what_identifies_a_person_is_masked(text: str, expected: str) -> None:
    assert masked(text)[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "follow @jane or me@home",
        "logo@2x.png and npm pkg@1.2.3",
        "a@b",
        "price @ 3.50",
        "x@@y.com",
        "version 1.2.3.4",
        "Firmware: 10.22.33.44",
        "v93.184.216.34",
        "release 93.184.216.34",
        "§ 12.13.14.15",
        "8.8.8.8",
        "3.1.4.2 Next section",
        "192.168.10.20 and 10.11.12.13 and 127.0.0.1",
        "224.10.20.30",
        "256.300.1.22",
        "93.184.216.34.5",
        "1.93.184.216.34",
        "x93.184.216.34",
        "093.184.216.034",
        "12.11.2026 or 2026.11.12",
        "12:30:45 and 10:00",
        "std::vector and de::ad:be",
        "2001:db8::7 is for books",
        "fe80::1:2:3",
        "ab:cd:ef:12:34:56",
        "ISBN 978-3-16-148410-0",
        "ISSN 2049-3630, 1 + 12345678901",
        "030 22732000",
        "+1 point and +12345",
        "C++11 22 33 44 55",
        "2026-11-29 12:00 +01:00",
        "+999 1234 567890",
        "UTC+1 202 456 1111",
        "$1,234,567.89",
    ],
)
def test_what_looks_like_it_and_is_not_stays(text: str) -> None:
    assert masked(text) == (text, {})


def test_masking_counts_by_kind_and_language_and_is_done_once() -> None:
    text = "a@test.org, b@test.org, 93.184.216.34, 2606:4700:4700::1111, +49 30 227-32000"
    after, count = masked(text, "de")
    assert after == f"{EMAIL}, {EMAIL}, {IPV4}, {IPV6}, {PHONE}"
    assert count == {
        **{"masked.email": 2, "masked.email/de": 2, "masked.ip": 2, "masked.ip/de": 2},
        **{"masked.phone": 1, "masked.phone/de": 1},
    }
    assert masked(after, "de") == (after, {})


def test_a_person_chooses_what_and_by_which_placeholder() -> None:
    text = "a@test.org, 93.184.216.34, 2606:4700:4700::1111, +49 30 227-32000"
    assert masked(text, email=False, ip=False, phone=False) == (text, {})
    after, _ = masked(
        text,
        email_placeholder="<email>",
        ipv4_placeholder="\\1<ip>",
        ipv6_placeholder="",
        phone_placeholder="<phone>",
    )
    assert after == "<email>, \\1<ip>, , <phone>"


def test_the_text_around_stays_to_the_character() -> None:
    around = "\u200d क\u094d\u200dष e\u0301 \r\n\t\ufeff"
    assert masked(f"{around}a@test.org{around}")[0] == f"{around}{EMAIL}{around}"
