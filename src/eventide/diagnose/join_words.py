"""What a join keeps and when it gives what, in words; and until when its rows are on time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from eventide.kernels.joins.partner_times import partner_times_of
from eventide.kernels.vector.columns import Ints
from eventide.plan.joins import AnyTime, Asof, Nearest, OverlappingSessions
from eventide.plan.logical import Join
from eventide.plan.modes import JoinKind
from eventide.plan.reads import sources_below

SIDES = ("left", "right")


def side_names(query: Join) -> tuple[str, str]:
    """What the sides are called: the sources that each reads."""
    left, right = (
        " and ".join(dict.fromkeys(source.name for source in sources_below(side.input)))
        for side in (query.left, query.right)
    )
    return (left, right) if left != right else (f"{left} (left)", f"{right} (right)")


def sides_of(query: Join, source: str) -> list[int]:
    """The sides that a source is read by: both in a join of a source with itself."""
    sides = (query.left, query.right)
    return [number for number, side in enumerate(sides) if source in {each.name for each in sources_below(side.input)}]


def kept_text(query: Join, gauges: Mapping[str, int]) -> str:
    """`12 rows of orders and 3 of payments are kept`"""
    totals = Counter[str]()
    for gauge, value in gauges.items():
        totals[gauge.split("#")[0]] += value
    counts = [totals[f"{side}_buffered"] for side in SIDES]
    left, right = side_names(query)
    rows = "row" if counts[0] == 1 else "rows"
    return f"{counts[0]:,} {rows} of {left} and {counts[1]:,} of {right} are kept"


def gives_on_arrival(query: Join) -> bool:
    """Whether everything that it gives comes with a row: time decides only how long rows are kept."""
    if isinstance(query.bound, AnyTime):
        return True
    waits = isinstance(query.bound, Asof | OverlappingSessions) or query.at_close
    return not waits and query.kind in (JoinKind.INNER, JoinKind.SEMI)


def rule_text(query: Join) -> str:
    """When it gives what."""
    left, right = side_names(query)
    alone = {
        JoinKind.LEFT: f"; a row of {left} without a partner, when none can come any more",
        JoinKind.RIGHT: f"; a row of {right} without a partner, when none can come any more",
        JoinKind.FULL: "; a row without a partner, when none can come any more",
    }.get(query.kind, "")
    match query.bound:
        case Asof(which=which):
            closer = "earlier" if which is Nearest.AFTER else "closer"
            return f"A row of {left} is given when no {closer} row of {right} can come on time."
        case AnyTime():
            return "A pair is given when its second row comes; every change of the result, when it happens."
        case OverlappingSessions():
            return f"A pair is given when both of its sessions have closed{alone}."
    if query.kind is JoinKind.ANTI:
        return f"A row of {left} is given when no partner in {right} can come any more."
    if query.kind is JoinKind.SEMI:
        return f"A row of {left} is given when its first partner in {right} comes."
    when = "its window closes" if query.at_close else "its second row comes"
    return f"A pair is given when {when}{alone}."


def on_time_until(query: Join, side: int, times: Ints) -> Ints:
    """The watermark at which rows of a side with these times are late, without the allowed lateness.

    Rows of sessions: on their own.
    """
    match query.bound:
        case Asof():
            return times
        case OverlappingSessions(gap=gap):
            return times + gap
        case AnyTime():
            return np.full(len(times), np.iinfo(np.int64).max)
        case bound:
            until: Ints = np.asarray(partner_times_of(bound).waits_until(side, times))
            return until
