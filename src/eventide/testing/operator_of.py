"""Which operator of the reference model runs a plan."""

from __future__ import annotations

from eventide.plan.joins import AnyTime, Asof, Interval, OverlappingPanes, OverlappingSessions, SameWindow
from eventide.plan.physical import AggregateWindows, ForwardRows, JoinRows, OverRows, Physical, RankRows
from eventide.plan.windows import Calendar, Cumulate, Hop, Session, Slide, Tumble, Unbounded, Window
from eventide.testing.asof_join import AsofJoin
from eventide.testing.calendar_panes import CalendarPanes
from eventide.testing.change_join import ChangeJoin
from eventide.testing.forward import ForwardInWindows
from eventide.testing.joins import IntervalJoin, PanesJoin, WindowJoin
from eventide.testing.operators import (
    Cumulations,
    Groups,
    Operator,
    OrderedForward,
    Panes,
    PlainForward,
    Sessions,
)
from eventide.testing.over import ChangingFrames, Frames
from eventide.testing.ranking import RankChanges, Ranking, RankingInWindows
from eventide.testing.session_join import SessionJoin
from eventide.testing.slides import Slides


def operator(physical: Physical) -> Operator:
    match physical.operator:
        case ForwardRows(window=window) if window is not None:
            return ForwardInWindows(physical, physical.operator, window)
        case ForwardRows(ordered=ordered):
            return OrderedForward(physical) if ordered else PlainForward(physical)
        case AggregateWindows(window=window):
            return _windows(physical, window)
        case JoinRows():
            return _join(physical, physical.operator)
        case RankRows(window=window) if window is not None:
            return RankingInWindows(physical, physical.operator, window)
        case RankRows(told=told):
            rank = physical.operator
            return Ranking(physical, rank) if told is None else RankChanges(physical, rank, told)
        case OverRows(order=order):
            over = physical.operator
            return ChangingFrames(physical, over) if order else Frames(physical, over)


def _windows(physical: Physical, window: Window) -> Operator:
    match window:
        case Tumble() | Hop():
            return Panes(physical, window)
        case Calendar():
            return CalendarPanes(physical, window)
        case Cumulate():
            return Cumulations(physical, window)
        case Session():
            return Sessions(physical, window)
        case Slide():
            return Slides(physical, window)
        case Unbounded():
            return Groups(physical, window)


def _join(physical: Physical, join: JoinRows) -> Operator:
    match join.bound:
        case SameWindow(window=window):
            return WindowJoin(physical, join, window)
        case OverlappingPanes():
            return PanesJoin(physical, join, join.bound)
        case OverlappingSessions():
            return SessionJoin(physical, join, join.bound)
        case Interval():
            return IntervalJoin(physical, join, join.bound)
        case Asof():
            return AsofJoin(physical, join, join.bound)
        case AnyTime():
            return ChangeJoin(physical, join, join.bound)
