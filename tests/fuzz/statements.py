"""Random SQL: statements from a grammar, statements of other tests, and both with random damage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml

TESTS = Path(__file__).parent.parent

_PART = re.compile(r"<(\w+)>")
_TOKEN = re.compile(r"'(?:[^']|'')*'|`[^`]*`|\w+|\s+|[^\w\s]")

GRAMMAR: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "grammar.yaml").read_text())

HOSTILE = (
    "'",
    '"',
    "`",
    "--",
    "/*",
    "*/",
    ";",
    "\\",
    "\x00",
    "\u200b",
    "\ud800",
    "(",
    ")" * 40,
    "(" * 40,
    "[",
    "{",
    "<",
    ">",
    ",",
    ".",
    "::",
    "->",
    ":",
    "?",
    "$1",
    "${x}",
    "@",
    "#",
    "%",
    "\n",
    "\t",
    "NULL",
    "SELECT",
    "FROM",
    "WHERE",
    "AS",
    "ON",
    "JOIN",
    "OVER",
    "MATCH_RECOGNIZE",
    "PIVOT",
    "LIMIT 1",
    "INTERVAL",
    "9" * 50,
    "a" * 300,
    "é",
    "\U0001f600",
    "TUMBLE",
    "EMIT",
    "NOT " * 60,
    "1e999",
)

DEEPEST = 6  # parts within each other, after which the first, plainest form of each is taken


def sentence(random: Random, part: str = "statement", depth: int = 0) -> str:
    """A random text of a part of the grammar."""
    forms = GRAMMAR[part]
    form = random.choice(forms) if depth < DEEPEST else forms[0]
    return _PART.sub(lambda found: _filled(random, found[1], depth), form)


def _filled(random: Random, part: str, depth: int) -> str:
    return sentence(random, part, depth + 1) if part in GRAMMAR else f"<{part}>"


def damaged(random: Random, text: str, other: str) -> str:
    """A text with one to three tokens lost, doubled, swapped, replaced or taken from another text."""
    tokens, others = _TOKEN.findall(text), _TOKEN.findall(other)
    for _ in range(random.randint(1, 3)):
        if not tokens:
            break
        place = random.randrange(len(tokens))
        match random.randrange(6):
            case 0:
                del tokens[place]
            case 1:
                tokens.insert(place, tokens[place])
            case 2:
                tokens.insert(place, random.choice(HOSTILE))
            case 3:
                tokens[place] = random.choice(others or [""])
            case 4:
                elsewhere = random.randrange(len(tokens))
                tokens[place], tokens[elsewhere] = tokens[elsewhere], tokens[place]
            case _:
                begin = random.randrange(len(others) + 1)
                tokens[place:place] = others[begin : begin + random.randint(1, 8)]
    return "".join(tokens)


def known_texts() -> list[str]:
    """The SQL of all other tests that keep theirs in data files."""
    files = sorted([*TESTS.glob("sql/*.yaml"), *TESTS.glob("transcripts/*.yaml")])
    return list(dict.fromkeys(text for file in files for text in _texts(yaml.safe_load(file.read_text()))))


def _texts(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for name, value in found.items():
            if isinstance(value, str) and name in ("sql", "query", "run", "execute"):
                yield value
            else:
                yield from _texts(value)
    elif isinstance(found, list):
        for value in found:
            yield from _texts(value)


def statements(random: Random, count: int) -> Iterator[str]:
    known = known_texts()
    for _ in range(count):
        text = sentence(random) if random.random() < 0.6 else random.choice(known)
        if random.random() < 0.5:
            text = damaged(random, text, sentence(random) if random.random() < 0.5 else random.choice(known))
        yield text
