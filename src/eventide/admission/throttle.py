"""A writer that is faster than the engine: how much is taken of what it brings, and when it should come again.

What waits may be as long as two batches. So there is always enough for the next one, and a row that is taken waits no
longer than about two of them last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BATCHES = 2  # that may wait


class Written(int):
    """The number of rows that were taken; `wait` says after how many seconds there will be room for more."""

    wait: float

    def __new__(cls, taken: int, wait: float = 0.0) -> Written:
        made = super().__new__(cls, taken)
        made.wait = wait
        return made


@dataclass(frozen=True)
class Queue:
    """`waiting` and `batch`, what waits and what a batch takes, in bytes; a batch lasts about `target` seconds."""

    waiting: int
    batch: int
    target: float

    @property
    def room(self) -> int:
        return max(0, BATCHES * self.batch - self.waiting)

    @property
    def wait(self) -> float:
        """Seconds until there is room for a batch; 0 if there is.

        >>> Queue(waiting=250, batch=100, target=2.0).wait
        3.0
        """
        return max(0.0, (self.waiting - (BATCHES - 1) * self.batch) / self.batch * self.target)


def taken_of(sizes: Sequence[int], queues: Sequence[Queue]) -> int:
    """How many of a writer's rows are taken: the first ones that fit into every queue. An empty queue takes one at
    least, so that a row larger than it comes in some time.

    >>> taken_of([10, 10, 10], [Queue(75, 50, 1.0), Queue(0, 500, 1.0)])
    2
    """
    room = min((queue.room for queue in queues), default=None)
    if room is None:
        return len(sizes)
    taken = used = 0
    for size in sizes:
        used += size
        if used > room:
            break
        taken += 1
    is_empty = all(queue.waiting == 0 for queue in queues)
    return max(taken, min(1, len(sizes))) if is_empty else taken
