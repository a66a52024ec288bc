"""Which rows must meet in one shard, and what is late before the kernel sees it: rules that every runner shares."""

from __future__ import annotations

from enum import Enum

from eventide.plan.logical import LatePolicy, Tumble
from eventide.plan.physical import Physical


class CoLocation(Enum):
    """Rows that agree in this meet."""

    GROUP = "group"
    WINDOW = "window"  # of a quota that a window's groups share
    IDENTITY = "identity"  # of a row and its re-delivery
    EVERYTHING = "everything"
    NOTHING = "nothing"


def co_location(physical: Physical) -> CoLocation:
    """A quota is kept per window: a tumbling one has its rows in one shard, unless a row may move or must be
    recognised.
    """
    deduplicates = any(branch.source.dedup is not None for branch in physical.branches)
    if physical.options.max_groups is not None and physical.window is not None:
        stays = (
            isinstance(physical.window, Tumble)
            and physical.options.late_policy is not LatePolicy.REASSIGN
            and not deduplicates
        )
        return CoLocation.WINDOW if stays else CoLocation.EVERYTHING
    if physical.keys:
        return CoLocation.GROUP
    if physical.window is not None or physical.ordered:
        return CoLocation.EVERYTHING
    return CoLocation.IDENTITY if deduplicates else CoLocation.NOTHING


def late_policy(physical: Physical) -> LatePolicy:
    """The stream's policy; an ordered stream is strict whatever it says."""
    return LatePolicy.STRICT if physical.ordered else physical.options.late_policy
