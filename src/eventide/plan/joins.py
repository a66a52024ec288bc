"""What makes two rows of a join meet in time: the family of bounds. Microseconds throughout.

Which rows have equal keys, and what else must hold of a pair, is said beside it: see `logical.Join`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from eventide.plan.windows import Hop, PanedWindow, Tumble


@dataclass(frozen=True)
class SameWindow:
    """Both rows are in the same window; a pair once for every window that holds both."""

    window: PanedWindow


@dataclass(frozen=True)
class OverlappingPanes:
    """The tumbling pane of one row overlaps any sliding pane that holds the other; each pair once.

    One of the two is tumbling and the other sliding. The pair's window is the pane of the left row: of a sliding left
    side, the tumbling pane of the right row.
    """

    left: Tumble | Hop
    right: Tumble | Hop


@dataclass(frozen=True)
class OverlappingSessions:
    """Each side has its own sessions per key; two meet when [first, last + gap] of both share a point."""

    gap: int


@dataclass(frozen=True)
class Interval:
    """lower <= r.ts - l.ts <= upper."""

    lower: int
    upper: int


class Nearest(Enum):
    """Which right row ASOF takes for a left row."""

    BEFORE = "before"  # the latest that is not later
    AFTER = "after"  # the earliest that is not earlier
    EITHER = "either"  # the closest; of two equally close ones the earlier


@dataclass(frozen=True)
class Asof:
    """One right row per left row; of equal times the one that came last. `strict`: equal times do not match."""

    which: Nearest = Nearest.BEFORE
    strict: bool = False
    tolerance: int | None = None


@dataclass(frozen=True)
class AnyTime:
    """No bound: all rows meet, and every change of the result is emitted. A row is kept until the watermark is `ttl`
    past it; None: for ever.
    """

    ttl: int | None = None


JoinBound = SameWindow | OverlappingPanes | OverlappingSessions | Interval | Asof | AnyTime
