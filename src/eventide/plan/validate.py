"""What this version can run. Everything else that lowers is refused here, before anything starts.

The constants are the single place to widen when a kernel lands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from eventide.errors import SqlError
from eventide.kernels.aggregates import SUPPORTED, aggregates
from eventide.plan.logical import (
    Cumulate,
    EmitMode,
    Filter,
    Forward,
    Hop,
    LatePolicy,
    Project,
    Relation,
    Scan,
    Session,
    Slide,
    Source,
    Stream,
    Tumble,
    Union,
    WindowAggregate,
)

SUPPORTED_AGGREGATES = SUPPORTED
USER_AGGREGATES = aggregates
RUNNABLE_WINDOWS: tuple[type, ...] = (Tumble, Hop, Cumulate, Session, Slide)
RUNNABLE_EMITS = frozenset(EmitMode)
RUNNABLE_POLICIES = frozenset(LatePolicy)
# Of: forward (a query without a window), ordered, dedup, max_groups, idle_timeout, processing_time
RUNNABLE_FEATURES = frozenset({"forward", "processing_time", "idle_timeout", "ordered", "dedup", "max_groups"})


@dataclass(frozen=True)
class Places:
    """Where the parts of a stream stand in its SQL: offsets by part (query, window, emit, order, policy, ...)."""

    sql: str = ""
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def error(self, part: str, message: str, help: str) -> SqlError:
        start, end = self.spans.get(part, self.spans.get("query", (None, None)))
        return SqlError(message, sql=self.sql, start=start, end=end, help=help)


def validate(stream: Stream, places: Places | None = None) -> None:
    """Raise an `SqlError`, at its place if `places` knows it, for the first part that no kernel can run yet."""
    where = places or Places()
    query = stream.query
    if isinstance(query, WindowAggregate):
        if not isinstance(query.window, RUNNABLE_WINDOWS):
            kind = type(query.window).__name__.lower()
            instead = ", ".join(f"{window.__name__.upper()}(...)" for window in RUNNABLE_WINDOWS)
            raise where.error("window", f"{kind} windows cannot run yet", f"these can: {instead}")
    else:
        _require(where, "forward", "query", "a query without a window cannot run yet", "group by a window")
        if query.ordered:
            _require(where, "ordered", "order", "ORDER BY cannot run yet", "leave it out; rows then leave as they come")
            if stream.options.late_policy is LatePolicy.REASSIGN:
                help = "leave 'late.policy' out: behind the watermark, rows of an ordered stream are late"
                raise where.error("policy", "an ordered stream cannot reassign rows to another time", help)
    if isinstance(query, WindowAggregate) and not isinstance(query.window, Slide) and stream.emit.mode not in RUNNABLE_EMITS:
        instead = ", ".join(f"EMIT {mode.value.upper()}" for mode in EmitMode if mode in RUNNABLE_EMITS)
        raise where.error("emit", f"EMIT {stream.emit.mode.value.upper()} cannot run yet", f"these can: {instead}")
    _validate_options(stream, where)
    for source in sources_of(query.input):
        if source.dedup is not None:
            _require(
                where, "dedup", "from", f"the source {source.name} has DEDUPLICATE BY, which cannot run yet", "leave it out of the source"
            )
        if source.idle_timeout is not None:
            _require(
                where,
                "idle_timeout",
                "from",
                f"the source {source.name} has idle_timeout, which cannot run yet",
                "leave it out of the source",
            )


def sources_of(relation: Relation) -> Iterator[Source]:
    """The sources that a relation reads, from left to right."""
    match relation:
        case Scan():
            yield relation.source
        case Filter() | Project():
            yield from sources_of(relation.input)
        case Union():
            for part in relation.inputs:
                yield from sources_of(part)


def has_event_time(stream: Stream) -> bool:
    """Whether the rows' own time counts, not the time at which they are processed."""
    query: WindowAggregate | Forward = stream.query
    declared = all(source.event_time is not None for source in sources_of(query.input))
    return stream.options.event_time and (query.time is not None or declared)


def _validate_options(stream: Stream, where: Places) -> None:
    policy = stream.options.late_policy
    if policy not in RUNNABLE_POLICIES:
        instead = ", ".join(f"'{runnable.value}'" for runnable in LatePolicy if runnable in RUNNABLE_POLICIES)
        raise where.error("policy", f"late.policy '{policy.value}' cannot run yet", f"these can: {instead}")
    if stream.options.max_groups is not None:
        _require(where, "max_groups", "max_groups", "max_groups cannot run yet", "leave it out")
    if not has_event_time(stream):
        _require(where, "processing_time", "from", "processing time cannot run yet", "declare EVENT TIME in the source")


def _require(where: Places, feature: str, part: str, message: str, help: str) -> None:
    if feature not in RUNNABLE_FEATURES:
        raise where.error(part, message, help)
