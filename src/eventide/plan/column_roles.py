"""What is known of a stream's columns beyond their names: which are the event time, which bound the row's window.

They keep these roles through everything that passes them on, so that rows can be put into windows by a time that they
carry under any name, and grouped and joined by the windows that they already have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from eventide.plan.joins import SameWindow
from eventide.plan.logical import (
    Explode,
    Filter,
    Forward,
    Join,
    JoinSide,
    Lookup,
    Named,
    Over,
    Project,
    Rank,
    Relation,
    Scan,
    Stream,
    Union,
    WindowAggregate,
)
from eventide.plan.modes import JoinKind
from eventide.plan.names import quoted
from eventide.plan.stream_source import IS_LATE, STREAM, is_stream
from eventide.plan.windows import Calendar, Cumulate, Hop, Session, Slide, Tumble, Unbounded, Window

WINDOW_START, WINDOW_END = "window_start", "window_end"
LAST_MOMENT = "timestampadd(MICROSECOND, -1, window_end)"  # how outputs of windows spell window_time


@dataclass(frozen=True)
class RowTime:
    """The event time of the row."""


@dataclass(frozen=True)
class SideTime:
    """The event time of one input of a join, while that of the pair is the later of the two."""

    pane: Tumble | None = None  # a window in which the two are together


@dataclass(frozen=True)
class WindowBound:
    """`is_rowtime` says that a row's event time is the last moment of the window, and not any moment in it."""

    which: str  # window_start or window_end
    window: Window
    is_rowtime: bool

    @property
    def from_rowtime(self) -> int | None:
        """How far it is from the event time of the row, in microseconds; None if that differs from row to row."""
        if not self.is_rowtime:
            return None
        if self.which == WINDOW_END:
            return 1
        return 1 - self.window.size if isinstance(self.window, Tumble | Hop) else None

    @property
    def pane(self) -> Tumble:
        """A window that holds together the rows whose own windows end at the same time, by the last moment of these.

        Rows of windows with the same end are told apart by the start.
        """
        match self.window:
            case Tumble():
                return self.window
            case Hop(size=size, slide=slide, offset=offset):
                return Tumble(slide, (offset + size) % slide)
            case Cumulate(step=step, offset=offset):
                return Tumble(step, offset % step)
            case Calendar() | Session() | Slide() | Unbounded():
                return Tumble(1)


Role = RowTime | SideTime | WindowBound
Roles = Mapping[str, Role]
Streams = Callable[[str], Stream]
RolesOf = Callable[[str], Roles]  # of the outputs of a stream, by its name


def roles_of(stream: Stream, streams: Streams) -> Roles:
    """By the name of an output; `streams` gives the streams that this one reads, by name."""

    @cache
    def known(name: str) -> Roles:  # each once, whoever reads it
        return _roles(streams(name), known)

    return _roles(stream, known)


def _roles(stream: Stream, streams: RolesOf) -> Roles:
    query = stream.query
    if isinstance(query, Join):
        return _passed(query.outputs, _of_pairs(query, streams))
    below = _timed(_of_relation(query.input, streams), query.time if stream.options.event_time else "")
    if not isinstance(query, WindowAggregate):
        return _passed(query.outputs, {**below, **_of_table(query)})
    keys = {f"__k{number}": below[key.sql] for number, key in enumerate(query.keys) if key.sql in below}
    known: dict[str, Role] = {name: role for name, role in keys.items() if isinstance(role, WindowBound)}
    if not known and not isinstance(query.window, Slide | Unbounded):
        known = {which: WindowBound(which, query.window, True) for which in (WINDOW_START, WINDOW_END)}
        known[LAST_MOMENT] = RowTime()
    return _passed(query.outputs, known)


def _of_table(query: Forward | Rank | Over) -> Roles:
    """The bounds of windows into which a table function has put the rows; of places, rows come when these end."""
    window = None if isinstance(query, Over) else query.window
    if window is None:
        return {}
    return {which: WindowBound(which, window, isinstance(query, Rank)) for which in (WINDOW_START, WINDOW_END)}


def _passed(columns: tuple[Named, ...], below: Roles) -> Roles:
    return {column.name: below[column.sql] for column in columns if column.sql in below}


def _of_relation(relation: Relation, streams: RolesOf) -> Roles:
    """By the column as an expression names it."""
    match relation:
        case Scan(source=source):
            if is_stream(source):
                known = {} if IS_LATE in source.options else streams(source.options[STREAM])
                return {quoted(name): role for name, role in known.items()}
            is_plain = source.event_time is not None and not source.messages
            return {quoted(source.event_time.column): RowTime()} if is_plain and source.event_time is not None else {}
        case Filter() | Explode() | Lookup():
            return _of_relation(relation.input, streams)
        case Project():
            passed = _passed(relation.columns, _of_relation(relation.input, streams))
            return {quoted(name): role for name, role in passed.items()}
        case Union():
            first, *others = (_of_relation(part, streams) for part in relation.inputs)
            return {name: role for name, role in first.items() if all(other.get(name) == role for other in others)}


def _timed(roles: Roles, time: str | None) -> dict[str, Role]:
    """The roles if `time` overrides the event time."""
    if time is None:
        return dict(roles)
    kept: dict[str, Role] = {
        name: role for name, role in roles.items() if isinstance(role, WindowBound) and not role.is_rowtime
    }
    return {**kept, time: RowTime()} if time else kept


def _of_pairs(query: Join, streams: RolesOf) -> Roles:
    own: dict[str, Role] = {}
    pane = None
    if isinstance(query.bound, SameWindow):
        own = {which: WindowBound(which, query.bound.window, False) for which in (WINDOW_START, WINDOW_END)}
        pane = query.bound.window if isinstance(query.bound.window, Tumble) else None
    for letter, side in (("l", query.left), ("r", query.right)):
        is_alone = query.kind in (JoinKind.SEMI, JoinKind.ANTI)  # what comes out is a left row, with its own time
        own |= {f"__{letter}{number}": role for number, role in _of_side(side, pane, streams, is_alone).items()}
    return own


def _of_side(side: JoinSide, pane: Tumble | None, streams: RolesOf, is_alone: bool) -> dict[int, Role]:
    """By the number of a column. Bounds of windows stay that if the sides are joined by them: the pair is in them."""
    below = _timed(_of_relation(side.input, streams), side.time)
    keys = {role.which for name, role in below.items() if isinstance(role, WindowBound) and name in side.keys}
    names = [quoted(column.name) for column in side.columns]
    found: dict[int, Role] = {}
    for number, role in ((number, below[name]) for number, name in enumerate(names) if name in below):
        match role:
            case RowTime():
                found[number] = role if is_alone else SideTime(pane)
            case SideTime():
                found[number] = SideTime()
            case WindowBound() if keys == {WINDOW_START, WINDOW_END}:
                found[number] = role
    return found
