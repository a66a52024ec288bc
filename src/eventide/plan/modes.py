"""The choices that a stream can make, each defined once: plans, kernels and the reference model use the same names."""

from __future__ import annotations

from enum import Enum


class EmitMode(Enum):
    ON_WINDOW_CLOSE = "on window close"
    FINAL = "final"
    ON_WATERMARK = "on watermark"
    ON_UPDATE = "on update"
    EVERY = "every"
    CHANGES = "changes"


class LatePolicy(Enum):
    """What is late before the kernel sees it."""

    WINDOW = "window"  # nothing: the window decides
    STRICT = "strict"  # every row with ts <= watermark
    REASSIGN = "reassign"  # the same beyond `max_lateness`; within it a row takes the watermark as its event time


class RankFunction(Enum):
    """The functions that give a row's place among others."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"


class JoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "left semi"
    ANTI = "left anti"

    @property
    def keeps_left(self) -> bool:
        """Whether left rows without a partner come out."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI)

    @property
    def keeps_right(self) -> bool:
        """Whether right rows without a partner come out."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)


# Parameters of an aggregate call that are not constants of the SQL.
FILTERED = "filtered"  # the last input is a condition; rows for which it does not hold do not count
IGNORE_NULLS = "ignore nulls"
