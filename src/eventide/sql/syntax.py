"""Sources and queries as written, before any name is resolved. Every part keeps its tokens, so every error finds its
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token

from eventide.plan.joins import Interval, OverlappingPanes, OverlappingSessions, SameWindow
from eventide.plan.logical import Column, Table
from eventide.plan.modes import EmitMode, JoinKind
from eventide.sql.tokens import Span

Path = tuple[Token, ...]  # a column, or a field of one that is a struct


@dataclass(frozen=True, eq=False)
class EventTimeNode:
    """EVENT TIME column [TYPE type], or column.field of a message that a row may hold, always with its type."""

    column: Token
    field: Token | None
    type: Token | None


@dataclass(frozen=True, eq=False)
class WatermarkFor:
    """WATERMARK FOR column AS column - lag, or AS an expression that carries the watermark itself."""

    column: Path
    lag: int | None = None
    expression: Span | None = None


@dataclass(frozen=True, eq=False)
class Deduplicate:
    """DEDUPLICATE BY columns WITHIN interval."""

    columns: tuple[Path, ...]
    within: int


@dataclass(frozen=True, eq=False)
class MetadataNode:
    """column type METADATA [FROM 'key']: what a message has beside its content."""

    column: Column
    key: str  # lower case; without FROM the column's own name
    place: Token


@dataclass(frozen=True, eq=False)
class SourceNode:
    """What is between the parentheses of CREATE SOURCE."""

    columns: tuple[Column, ...]
    event_times: tuple[EventTimeNode, ...] = ()  # several only for messages
    watermark: WatermarkFor | None = None
    dedup: Deduplicate | None = None
    metadata: tuple[MetadataNode, ...] = ()


@dataclass(frozen=True, eq=False)
class Watermark:
    """WATERMARK column DELAY OF interval, or WATERMARK(column, interval)."""

    column: Span
    lag: int
    span: Span


@dataclass(frozen=True, eq=False)
class LateralView:
    """LATERAL VIEW [OUTER] [pos]explode(argument) AS names."""

    argument: Span
    names: tuple[str, ...]
    outer: bool
    position: bool
    span: Span
    hidden: bool = False  # whether * leaves its columns out


@dataclass(frozen=True, eq=False)
class LookupJoin:
    """[LEFT] JOIN table [alias] ON condition | USING (columns)."""

    table: Table
    alias: str
    outer: bool
    on: Span | None
    using: tuple[Span, ...]
    span: Span


InputStep = LateralView | LookupJoin


@dataclass(frozen=True, eq=False)
class TableRef:
    name: str
    span: Span
    alias: str | None = None
    watermark: Watermark | None = None
    steps: tuple[InputStep, ...] = ()


@dataclass(frozen=True, eq=False)
class SubqueryRef:
    query: QueryNode
    span: Span
    alias: str | None = None
    watermark: Watermark | None = None
    steps: tuple[InputStep, ...] = ()


@dataclass(frozen=True, eq=False)
class WindowTable:
    """A window table function: TUMBLE(TABLE input, DESCRIPTOR(time), ...)."""

    function: str  # lower case
    input: TableRef | SubqueryRef
    partition: tuple[Span, ...]
    time: Span
    arguments: tuple[Span, ...]  # behind the descriptor, names included
    span: Span
    alias: str | None = None


@dataclass(frozen=True, eq=False)
class Within:
    """WITHIN <time> [GRACE PERIOD interval]."""

    bound: SameWindow | OverlappingPanes | OverlappingSessions | Interval
    span: Span
    grace: tuple[int, Span] | None = None


@dataclass(frozen=True, eq=False)
class JoinNode:
    """left JOIN right. Of ON and USING at most one is given; a list with commas is an inner join without either."""

    left: FromNode
    right: FromNode
    kind: JoinKind
    words: Span  # `LEFT ASOF JOIN`, or the comma
    span: Span  # from the left input to the end of ON or USING
    asof: bool = False
    within: Within | None = None
    system_time: Span | None = None  # FOR SYSTEM_TIME AS OF ...
    match: Span | None = None  # MATCH_CONDITION, without its parentheses
    on: Span | None = None
    using: tuple[Span, ...] = ()  # a name each
    equal: tuple[tuple[Span, Span | str], ...] = ()  # of IN: what must be equal, of the left side and of the right one
    steps: tuple[InputStep, ...] = ()  # with what the join gives


FromNode = TableRef | SubqueryRef | WindowTable | JoinNode


@dataclass(frozen=True, eq=False)
class WindowClause:
    """WINDOW TUMBLING (ON expression, SIZE interval, ...)."""

    kind: str  # tumbling, hopping, session
    on: Span
    durations: Mapping[str, tuple[int, Span]]  # by lower-case name
    span: Span


@dataclass(frozen=True, eq=False)
class SelectItem:
    """One item of the select list; a star has no alias."""

    expression: Span
    alias: str | None = None
    star: bool = False
    generated: str | None = None  # the column of the lateral view that the item has become
    qualifier: str | None = None  # of a star: s in s.*
    excluded: tuple[str, ...] = ()  # * EXCEPT (a, b)


@dataclass(frozen=True, eq=False)
class SelectNode:
    span: Span
    items: tuple[SelectItem, ...]
    source: FromNode
    where: Span | None = None
    group_by: tuple[Span, ...] = ()
    group_span: Span | None = None
    having: Span | None = None
    window: WindowClause | None = None
    watermark: Watermark | None = None
    order_by: Span | None = None
    distinct: Span | None = None  # the word, or the UNION that means it: grouped by all that it selects
    qualify: Span | None = None
    named: Mapping[str, str] = field(default_factory=dict)  # columns below that expressions within OVER stand for


@dataclass(frozen=True, eq=False)
class QueryNode:
    """One SELECT, or several joined by UNION ALL."""

    span: Span
    selects: tuple[SelectNode, ...]


@dataclass(frozen=True, eq=False)
class EmitNode:
    """The tail of a stream: EMIT, ALLOW LATENESS and LATE DATA TO; None where nothing was written."""

    mode: EmitMode | None = None
    every: int | None = None
    allowed_lateness: int | None = None
    late_to: str | None = None
    places: Mapping[str, Span] = field(default_factory=dict)  # 'mode', 'lateness', 'late_to'
    is_inner: bool = False  # of a part that another part of the statement reads: nobody could have written anything
