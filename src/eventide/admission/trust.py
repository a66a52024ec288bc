"""Rows that a task lets pass before limits are asked: while all get a token, it does not matter which.

A task tells how many there were, instead of sending each with its ticket, and may fold them. Every shard checks that
all rows of the batch that want a token get one. If not, the batch is taken again by a plan that asks for every row,
and so are those that follow, until limits have let all pass for a while.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Trusted:
    """What a task tells of rows that it lets pass; nothing, to shards other than the one that counts them."""

    admitted: int = 0
    lags: Mapping[str, float] = field(default_factory=dict)  # see `lags`
    offered: Mapping[int, int] = field(default_factory=dict)  # rows by priority, where rows may be shed
    top: int | None = None  # their latest event time

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Trusted:
        told = json.loads(text)
        return cls(**{**told, "offered": {int(priority): rows for priority, rows in told["offered"].items()}})


class Regaining:
    """When a cheaper plan, such as the one that lets rows pass, may be trusted again: after so many batches in a row
    for which it would have done. Each time that trust is lost it takes twice as many, since taking a batch again costs
    more than the dearer plan does.
    """

    def __init__(self, batches: int = 50) -> None:
        self._next = batches  # how many it takes the next time
        self._wanted = batches
        self._calm: int | None = None  # batches since limits last refused a row; None while tasks are trusted
        self._seen: tuple[float, float] = (0, 0)

    def lost(self) -> None:
        self._wanted, self._next, self._calm = self._next, 2 * self._next, 0

    def regained(self) -> None:
        self._calm = None

    def saw(self, admitted: float, refused: float) -> None:
        """A batch has ended. Both are of all batches so far; `refused` are rows for which the cheaper plan is wrong,
        such as those that lacked a token. A batch without rows does not count.
        """
        before, self._seen = self._seen, (admitted, refused)
        if self._calm is not None and before != self._seen:
            self._calm = self._calm + 1 if refused == before[1] else 0

    @property
    def is_due(self) -> bool:
        return self._calm is not None and self._calm >= self._wanted
