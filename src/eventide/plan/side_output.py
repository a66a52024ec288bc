"""Where the rows that a stream does not use go, by kind. The same structure whether it was written in SQL or TOML.

    side_output.late.sink = 'dlq'               the name of a sink without FROM; or 'reinject', 'metrics_only'
    side_output.late.include_original = 'true'  whether payloads carry the row itself
    side_output.late.rate_limit = '10000/s'     past it payloads are not sent, and counted; s, m or h
    side_output.late.source = 'clicks'          of 'reinject': the embedded source that gets the rows again

A kind without a route keeps its payloads with the stream, where `db.side_output` reads them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from eventide.errors import OptionError
from eventide.eventtime.durations import HOUR, MINUTE, SECOND
from eventide.kernels.contract import SIDE_KINDS

METRICS_ONLY, REINJECT = "metrics_only", "reinject"
KEYS = ("sink", "include_original", "rate_limit", "source")
KINDS = SIDE_KINDS

_MOST_DIGITS = 12
_RATE = re.compile(r"\s*(\d+)\s*/\s*(s|m|h|sec|min|hour|second|minute)\s*", re.IGNORECASE)
_PER = {"s": SECOND, "m": MINUTE, "h": HOUR}


@dataclass(frozen=True)
class RateLimit:
    """At most `rows` in any `per` microseconds."""

    rows: int
    per: int


@dataclass(frozen=True)
class Route:
    """Where the payloads of one kind go. `sink` is a sink's name, METRICS_ONLY or REINJECT."""

    sink: str
    include_original: bool = True
    rate_limit: RateLimit | None = None
    source: str | None = None  # of REINJECT

    @property
    def names_sink(self) -> bool:
        return self.sink not in (METRICS_ONLY, REINJECT)


def parse_rate(text: str) -> RateLimit:
    """
    >>> parse_rate("10000/s")
    RateLimit(rows=10000, per=1000000)
    """
    found = _RATE.fullmatch(text)
    if found is None or len(found[1]) > _MOST_DIGITS or int(found[1]) == 0:
        raise OptionError(f"'{text}' is not a rate", help="write a number and s, m or h, such as 10000/s")
    return RateLimit(int(found[1]), _PER[found[2][0].lower()])
