"""What becomes of a stream's state under another text of the stream, difference by difference."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FROM_NEXT_BATCH = "from the next batch on"


class Verdict(Enum):
    GOES_ON = "goes on"
    NEXT_WINDOW = "goes on from the next window"
    CANNOT = "cannot"


@dataclass(frozen=True)
class Difference:
    """`what` differs, in the words of EXPLAIN; `reason` is what happens from when on, or why it cannot."""

    what: str
    verdict: Verdict
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.verdict.value}; {self.reason}"


def goes_on(what: str, reason: str = FROM_NEXT_BATCH) -> Difference:
    return Difference(what, Verdict.GOES_ON, reason)


def next_window(what: str, reason: str) -> Difference:
    return Difference(what, Verdict.NEXT_WINDOW, reason)


def cannot(what: str, reason: str) -> Difference:
    return Difference(what, Verdict.CANNOT, reason)


def changed(what: str, old: object, new: object) -> str:
    """`window: tumble size 10s -> tumble size 20s`; None is nothing."""
    before, after = ("nothing" if value is None else str(value) for value in (old, new))
    return f"{what}: {before} -> {after}"
