"""Made texts in three languages, for the tests of `babelmill documents`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

WORDS = {
    "de": "der Zug fährt heute wegen einer Baustelle später ab und die Reisenden warten auf dem "
    "Bahnsteig bis die Fahrt nach Hamburg endlich weitergeht während im Garten viele alte Bäume",
    "ru": "вечером вся семья собирается за большим столом и бабушка рассказывает внукам старые "
    "истории о том как жили люди в деревне когда зимой выпадало много снега и было холодно",
    "fr": "le soir toute la famille se retrouve autour de la grande table et la vieille dame "
    "raconte aux enfants les histoires du village où les hivers étaient longs et très froids",
}


def sentence(language: str, draw: random.Random) -> str:
    words = WORDS[language].split()
    return " ".join(draw.choices(words, k=30)).capitalize() + "."


def corpus(seed: int, number: int = 60) -> list[str]:
    """Texts in three languages with exact and near duplicates, shared paragraphs, short ones."""
    draw, texts = random.Random(seed), list[str]()
    shared = {language: sentence(language, draw) for language in WORDS}
    for place in range(number):
        language = draw.choice(sorted(WORDS))
        own = [sentence(language, draw) for _ in range(3)]
        kind = draw.random()
        if kind < 0.15 and texts:
            texts.append(draw.choice(texts))
        elif kind < 0.3 and texts:
            texts.append(draw.choice(texts) + " Ende.")
        elif kind < 0.45:
            texts.append("\n\n".join([own[0], shared[language], own[1]]))
        elif kind < 0.55:
            texts.append(shared[language])
        elif kind < 0.65:
            texts.append(f"Nur kurz {place}, sonst nichts weiter.")
        else:
            texts.append("\n\n".join(own))
    return texts


def write_rows(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
