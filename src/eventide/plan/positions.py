"""Where in a log of messages to begin or to end: as users write it.

>>> parse_position("earliest")
Edge(latest=False)
>>> parse_position("2026-11-16T12:00:00Z")
Since(micros=1794830400000000)
>>> parse_position("clicks:0:42, clicks:1:7").offsets
(('clicks', 0, 42), ('clicks', 1, 7))
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from eventide.errors import OptionError

_OFFSETS = re.compile(r"\s*(?:([A-Za-z0-9._-]+):)?(\d+):(\d+)\s*")
_HELP = "write earliest, latest, a time such as 2026-11-16T12:00:00Z, or offsets such as 0:42, 1:7"


@dataclass(frozen=True)
class Edge:
    """The first message that is there, or the place behind the last."""

    latest: bool


@dataclass(frozen=True)
class Since:
    """In each partition the first message that is not older."""

    micros: int


@dataclass(frozen=True)
class At:
    """Topic, partition, offset; without a topic the only one."""

    offsets: tuple[tuple[str | None, int, int], ...]


Position = Edge | Since | At


def parse_position(text: str) -> Position:
    """Raises an OptionError for anything else."""
    if text.lower() in ("earliest", "latest"):
        return Edge(text.lower() == "latest")
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return _offsets(text)
    if moment.tzinfo is None:
        raise OptionError(f"'{text}' is a time without a zone", help="add Z for UTC, or an offset such as +02:00")
    return Since(round(moment.timestamp() * 1_000_000))


def _offsets(text: str) -> At:
    parts = [_OFFSETS.fullmatch(part) for part in text.split(",")]
    found = [(part[1], int(part[2]), int(part[3])) for part in parts if part is not None]
    if len(found) < len(parts):
        raise OptionError(f"'{text}' is not a place in a topic", help=_HELP)
    return At(tuple(found))
