"""Which rows must meet in one shard, and what is late before the kernel sees it: rules that every runner shares."""

from __future__ import annotations

from enum import Enum

from eventide.plan.modes import LatePolicy
from eventide.plan.physical import AggregateWindows, ForwardRows, JoinRows, OverRows, Physical, RankRows
from eventide.plan.windows import Tumble


class CoLocation(Enum):
    """Rows that agree in this meet."""

    KEY = "key"  # of a group, or of both sides of a join
    WINDOW = "window"  # of a quota that a window's groups share
    IDENTITY = "identity"  # of a row and its re-delivery
    EVERYTHING = "everything"
    NOTHING = "nothing"


def co_location(physical: Physical) -> CoLocation:
    """A quota is kept per window: a tumbling one has its rows in one shard, unless a row may move or must be
    recognised.
    """
    has_keys = bool(physical.inputs[0].keys)
    match physical.operator:
        case AggregateWindows(window=window) if physical.options.max_groups is not None:
            may_move = physical.options.late_policy is LatePolicy.REASSIGN
            stays = isinstance(window, Tumble) and not may_move and not physical.deduplicates
            return CoLocation.WINDOW if stays else CoLocation.EVERYTHING
        case AggregateWindows() | JoinRows() | RankRows() | OverRows():
            return CoLocation.KEY if has_keys else CoLocation.EVERYTHING
        case ForwardRows(ordered=True):
            return CoLocation.EVERYTHING
        case ForwardRows():
            return CoLocation.IDENTITY if physical.deduplicates else CoLocation.NOTHING


def late_policy(physical: Physical) -> LatePolicy:
    """The stream's policy; an ordered stream is strict whatever it says."""
    is_ordered = isinstance(physical.operator, ForwardRows) and physical.operator.ordered
    is_ordered |= isinstance(physical.operator, OverRows)
    return LatePolicy.STRICT if is_ordered else physical.options.late_policy
