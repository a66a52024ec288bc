"""Where the rows that a stream does not use go, by kind: `[transforms.NAME.side_output]`.

    late.sink = "dlq"               the name of a sink; or "reinject", "metrics_only"
    late.include_original = true    whether payloads carry the row itself
    late.rate_limit = "10000/s"     past it payloads are dropped and counted; s, m or h
    late.source = "clicks"          of "reinject": the source that gets the rows again

A kind that is not named keeps its payloads with the stream, where `db.side_output` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from eventide.app.section import Section
from eventide.errors import OptionError, suggest
from eventide.eventtime.durations import HOUR, MINUTE, SECOND
from eventide.kernels.contract import SIDE_KINDS

METRICS_ONLY, REINJECT = "metrics_only", "reinject"
_KEYS = ("sink", "include_original", "rate_limit", "source")
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
    source: str | None = None  # of REINJECT; None: the stream's only source


@dataclass(frozen=True)
class SideOutputs:
    """The routes of one stream by kind: late, duplicate, error, evicted, rejected, shed."""

    path: str
    routes: Mapping[str, Route] = field(default_factory=dict)


def read_side_outputs(path: str, values: Any, sinks: Collection[str], sources: Collection[str]) -> SideOutputs:
    """The section as routes; every name must be that of a sink or a source of the app."""
    known = [f"{kind}.{key}" for kind in SIDE_KINDS for key in _KEYS]
    section = Section(path, values, known)
    kinds = [kind for kind in SIDE_KINDS if any(f"{kind}.{key}" in section for key in _KEYS)]
    return SideOutputs(path, {kind: _route(section, kind, sinks, sources) for kind in kinds})


def _route(section: Section, kind: str, sinks: Collection[str], sources: Collection[str]) -> Route:
    help = f'write {kind}.sink = "a sink of [sinks]", or "{REINJECT}", or "{METRICS_ONLY}"'
    sink = section.required(f"{kind}.sink", help)
    if sink not in (METRICS_ONLY, REINJECT, *sinks):
        raise OptionError(f"{section.place(f'{kind}.sink')}: there is no sink {sink}", help=suggest(sink, (METRICS_ONLY, REINJECT, *sinks)))
    source = section.text(f"{kind}.source")
    if source is not None and sink != REINJECT:
        raise OptionError(f'{section.place(f"{kind}.source")} is for {kind}.sink = "{REINJECT}"', help="leave it out")
    if source is not None and source not in sources:
        raise OptionError(f"{section.place(f'{kind}.source')}: there is no source {source}", help=suggest(source, sources))
    original = section.flag(f"{kind}.include_original")
    return Route(sink, original is not False, _rate(section, f"{kind}.rate_limit"), source)


def _rate(section: Section, key: str) -> RateLimit | None:
    text = section.text(key)
    if text is None:
        return None
    found = _RATE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise OptionError(f"{section.place(key)}: '{text}' is not a rate", help='write a number and s, m or h, such as "10000/s"')
    return RateLimit(int(found[1]), _PER[found[2][0].lower()])
