"""What can be written but not run: refused here, before anything starts. And what such checks need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventide.errors import SqlError
from eventide.kernels.aggregates import aggregates
from eventide.plan.logical import Explode, Forward, Lookup, Relation, Scan, Source, Stream, Union
from eventide.plan.modes import LatePolicy
from eventide.plan.reads import relations_of, sources_below
from eventide.plan.shedding import why_not_windows

USER_AGGREGATES = aggregates


@dataclass(frozen=True)
class Places:
    """Where the parts of a stream stand in its SQL: offsets by part (query, window, emit, order, policy, ...)."""

    sql: str = ""
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def error(self, part: str, message: str, help: str) -> SqlError:
        start, end = self.spans.get(part, self.spans.get("query", (None, None)))
        return SqlError(message, sql=self.sql, start=start, end=end, help=help)


def validate(stream: Stream, places: Places | None = None) -> None:
    """Raise an `SqlError`, at its place if `places` knows it, for what contradicts itself."""
    is_ordered = isinstance(stream.query, Forward) and stream.query.ordered
    if is_ordered and stream.options.late_policy is LatePolicy.REASSIGN:
        help = "leave 'late.policy' out: behind the watermark, rows of an ordered stream are late"
        raise (places or Places()).error("policy", "an ordered stream cannot reassign rows to another time", help)
    for source in (source for relation in relations_of(stream.query) for source in _exploded(relation)):
        if source.admission is not None:
            raise (places or Places()).error(
                "query",
                f"{source.name} has limits, which count its rows, and here one becomes several before they are counted",
                f"let a stream of its own read {source.name}, and do this with what that one gives",
            )
    refused = why_not_windows(stream)
    if refused is not None:
        raise (places or Places()).error("query", *refused)


def _exploded(relation: Relation) -> list[Source]:
    """The sources of which one row becomes several."""
    match relation:
        case Explode() | Lookup():
            return list(sources_below(relation))
        case Scan():
            return []
        case Union():
            return [source for part in relation.inputs for source in _exploded(part)]
        case _:
            return _exploded(relation.input)
