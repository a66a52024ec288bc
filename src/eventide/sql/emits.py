"""EMIT and ALLOW LATENESS: what they say about one operator, and what contradicts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eventide.errors import SqlError
from eventide.plan.joins import AnyTime, Asof, Interval
from eventide.plan.logical import Emit, Forward, Join, Over, Query, Rank, WindowAggregate
from eventide.plan.modes import EmitMode, JoinKind
from eventide.plan.windows import Slide, Unbounded
from eventide.sql.options import Options
from eventide.sql.shape import operator_below
from eventide.sql.syntax import EmitNode, JoinNode, SelectNode
from eventide.sql.tokens import Span

AT_CLOSE = (EmitMode.ON_WINDOW_CLOSE, EmitMode.FINAL)


@dataclass(frozen=True)
class Lateness:
    """The allowed lateness, and how to raise an error at the place where it was given."""

    micros: int
    error: Callable[[str, str], SqlError]


def of_statement(node: EmitNode, options: Options) -> Lateness | None:
    """The allowed lateness of a whole statement."""
    found: list[Lateness] = []
    if node.allowed_lateness is not None:
        found.append(Lateness(node.allowed_lateness, node.places["lateness"].error))
    option = options.duration("allowed_lateness")
    if option is not None:
        found.append(Lateness(option, lambda message, help: options.error("allowed_lateness", message, help)))
    return _one_of(found)


def of_operator(select: SelectNode, query: Query) -> Lateness | None:
    """The allowed lateness that the operator of a SELECT names itself, in WINDOW or GRACE PERIOD."""
    operator = operator_below(select)
    if operator is None:
        return None
    if isinstance(query, Join) and isinstance(operator.source, JoinNode):
        return of_join(operator.source)
    if isinstance(query, WindowAggregate) and operator.window is not None:
        return _placed(operator.window.durations.get("allowed lateness"))
    return None


def of_join(join: JoinNode) -> Lateness | None:
    return None if join.within is None else _placed(join.within.grace)


def emit_of(node: EmitNode, query: Query, *allowed: Lateness | None) -> Emit:
    """How an operator emits. `allowed` are the places that may give its lateness; at most one of them does."""
    lateness = _one_of([each for each in allowed if each is not None])
    mode = mode_of(node, query)
    if lateness is not None and node.mode is EmitMode.FINAL:
        raise lateness.error("EMIT FINAL allows no lateness", "leave the lateness out, or write EMIT ON WINDOW CLOSE")
    match query:
        case Forward():
            is_told = node.mode is EmitMode.CHANGES and query.changes is not None
            if node.mode is not None and not is_told:
                raise node.places["mode"].error(
                    "EMIT says when a window gives its rows, and there is no window",
                    "leave EMIT out, or group by a window",
                )
        case WindowAggregate():
            _check_window(query, node, mode, lateness)
        case Join():
            _check_join(query, node, lateness)
        case Over():
            if node.mode is not None:
                raise node.places["mode"].error(
                    "running aggregates come out as the watermark passes their rows", "leave EMIT out"
                )
            if lateness is not None:
                raise lateness.error("behind the watermark, rows of running aggregates are late", "leave it out")
        case Rank():
            if query.windowed and node.mode not in (None, EmitMode.ON_WINDOW_CLOSE):
                raise node.places["mode"].error("the best rows of a window are known when it closes", "leave EMIT out")
            if not query.windowed and lateness is not None:
                raise lateness.error("without a window no row is late", "leave the lateness out")
    return Emit(mode, node.every, lateness.micros if lateness else 0)


def mode_of(node: EmitNode, query: Query) -> EmitMode:
    """When an operator emits. A part without a window that another part reads tells it of every change."""
    if node.mode is not None:
        return node.mode
    is_unbounded = isinstance(query, WindowAggregate) and isinstance(query.window, Unbounded)
    is_unbounded |= isinstance(query, Rank) and not query.windowed
    if isinstance(query, Join) and isinstance(query.bound, AnyTime):
        return mode_at_any_time(query.kind, query.left.changes is not None or query.right.changes is not None)
    return EmitMode.CHANGES if is_unbounded else EmitMode.ON_WINDOW_CLOSE


def mode_at_any_time(kind: JoinKind, has_changes: bool) -> EmitMode:
    """How a join without a bound in time emits if nothing is said: without op if no row is ever taken back."""
    is_final = kind in (JoinKind.INNER, JoinKind.SEMI) and not has_changes
    return EmitMode.ON_UPDATE if is_final else EmitMode.CHANGES


def _placed(given: tuple[int, Span] | None) -> Lateness | None:
    return None if given is None else Lateness(given[0], given[1].error)


def _one_of(found: list[Lateness]) -> Lateness | None:
    if len(found) > 1:
        raise found[1].error("the allowed lateness is given twice", "keep one of them")
    return found[0] if found else None


def _check_window(query: WindowAggregate, node: EmitNode, mode: EmitMode, lateness: Lateness | None) -> None:
    if isinstance(query.window, Unbounded) and lateness is not None:
        raise lateness.error("without a window no row is late", "leave the lateness out, or group by a window")
    if isinstance(query.window, Slide):
        if node.mode is not None and (query.window.lookahead is None or mode is not EmitMode.ON_WINDOW_CLOSE):
            raise node.places["mode"].error("a sliding window gives one row for each row that comes", "leave EMIT out")
        if lateness is not None:
            raise lateness.error("a sliding window allows no lateness", "leave it out")


def _check_join(query: Join, node: EmitNode, lateness: Lateness | None) -> None:
    """A join has one way to emit, and with windows a second one; at any time, it has others."""
    if isinstance(query.bound, AnyTime) and lateness is not None:
        raise lateness.error("without a bound in time no row is late", "leave the lateness out")
    if node.mode is None or isinstance(query.bound, AnyTime):
        return
    place, has_windows = node.places["mode"], not isinstance(query.bound, Interval | Asof)
    if node.mode not in AT_CLOSE:
        instead = "leave EMIT out" + (", or write EMIT ON WINDOW CLOSE" if has_windows else "")
        raise place.error("a join gives each pair once, as soon as it is certain", instead)
    if not has_windows:
        what = "an interval join" if isinstance(query.bound, Interval) else "an ASOF join"
        raise place.error(
            f"{what} has no windows that could close", "leave EMIT out: a pair is given as soon as it is certain"
        )
