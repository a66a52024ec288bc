"""What one statement becomes: a stream, and below it an unnamed stream for every part that keeps state.

A part that keeps state (a group, a join, an order) and is read by another part is an inner stream, called o$1, o$2, ...
in the order in which they are needed. The reader reads it as it would read any other stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from eventide.plan.logical import Forward, Query, Source, Stream, StreamOptions, Table
from eventide.plan.modes import EmitMode, LatePolicy
from eventide.plan.names import inner_name
from eventide.plan.planner import plan_id
from eventide.plan.reads import sources_of, window_of
from eventide.plan.stream_source import STREAM, stream_source
from eventide.plan.windows import Unbounded
from eventide.sql.emits import Lateness, emit_of, of_operator
from eventide.sql.relations import Readable
from eventide.sql.syntax import EmitNode, SelectNode


@dataclass
class Composition:
    """The inner streams of one statement so far, innermost first, and what its parts may read.

    `options` and `lateness` are those of the statement. Which rows are late is decided where rows come in from outside:
    inner streams never give late rows. So that is where both apply.
    """

    catalog: Readable
    owner: str
    lower: Callable[[SelectNode, Composition, EmitNode], Query]
    options: StreamOptions
    lateness: Lateness | None
    state_ttl: int | None
    emit: EmitNode
    inner: dict[str, Stream] = field(default_factory=dict)
    lateness_is_used: bool = False

    @property
    def sources(self) -> Mapping[str, Source]:
        return self.catalog.sources

    @property
    def streams(self) -> Mapping[str, Stream]:
        return self.catalog.streams

    @property
    def tables(self) -> Mapping[str, Table]:
        return self.catalog.tables

    @property
    def late_names(self) -> Mapping[str, str]:
        return self.catalog.late_names

    @property
    def tells_changes(self) -> bool:
        return self.emit.is_inner or self.emit.mode in (EmitMode.ON_UPDATE, EmitMode.CHANGES)

    def stream(self, name: str) -> Stream:
        return self.inner[name] if name in self.inner else self.catalog.stream(name)

    def read(self, select: SelectNode, emit: EmitNode) -> Source:
        """The inner stream that a SELECT becomes, as something to read."""
        query = self.lower(select, self, emit)
        return self.read_query(query, emit, of_operator(select, query))

    def read_query(self, query: Query, emit: EmitNode, lateness: Lateness | None) -> Source:
        """The same for a part that has been lowered; `lateness` is its own. Parts that mean the same are one stream."""
        made = self.made(inner_name(self.owner, len(self.inner) + 1), query, emit, lateness)
        for known in self.inner.values():
            if plan_id(known) == plan_id(made):
                return stream_source(known.name, known, late=False)
        self.inner[made.name] = made
        return stream_source(made.name, made, late=False)

    def made(self, name: str, query: Query, emit: EmitNode, lateness: Lateness | None) -> Stream:
        """A stream of the statement, inner or outermost."""
        is_entrance = self.is_entrance(query)
        given = self.lateness if is_entrance and not isinstance(query, Forward) else None
        self.lateness_is_used |= given is not None
        window = window_of(query)
        limited = window is not None and not isinstance(window, Unbounded)
        options = self.options if limited else replace(self.options, max_groups=None)
        if not is_entrance:
            options = replace(options, late_policy=LatePolicy.WINDOW, max_lateness=None, event_time=True)
        return Stream(name, query, emit_of(emit, query, given, lateness), options)

    def is_entrance(self, query: Query) -> bool:
        """Whether rows from outside the statement come in here."""
        return any(source.options.get(STREAM) not in self.inner for source in sources_of(query))
