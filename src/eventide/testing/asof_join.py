"""ASOF joins of the reference model: each left row with the one right row that is nearest, once no better can come."""

from __future__ import annotations

from eventide.plan.joins import Asof, Nearest
from eventide.plan.physical import JoinRows, Physical
from eventide.testing.joins import Joins, Kept
from eventide.testing.operators import Timed


class AsofJoin(Joins):
    """No right row that was taken is ever forgotten here. *Passed* is the time up to which no row comes any more that
    is not late: the watermark less the allowed lateness, or what a flush has closed.
    """

    def __init__(self, physical: Physical, join: JoinRows, bound: Asof) -> None:
        super().__init__(physical, join)
        self._bound = bound
        self._waiting: list[Kept] = []
        self._right: list[Kept] = []  # in the order of their arrival
        self._flushed: int | None = None

    @property
    def horizon(self) -> int:
        return (self._bound.tolerance or 0) + self.lateness

    def output_watermark(self, watermark: int) -> int:
        """Without a tolerance a row may wait for the next one as long as it takes."""
        return min([watermark - self.horizon, *(kept.time for kept in self._waiting)])

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        passed = self._passed(watermark)
        fresh = [self.kept(row) for row in rows]
        old = [kept for kept in fresh if passed is not None and kept.time <= passed]
        for kept in fresh:
            if kept not in old:
                (self._waiting if kept.side == 0 else self._right).append(kept)
        self._right += [kept for kept in old if kept.side == 1]
        for kept in old:
            if kept.side == 0 or not self._may_answer(kept, passed or 0):
                self.refuse(kept.row)
        refused = [kept for kept in old if kept.side == 1 and not self._may_answer(kept, passed or 0)]
        self._right = [kept for kept in self._right if kept not in refused]
        self._decide(watermark)

    def _may_answer(self, right: Kept, passed: int) -> bool:
        """Whether a right row of a time that has passed can be the answer to a left row to come."""
        bound = self._bound
        if right.key is None or bound.which is Nearest.AFTER:
            return False
        if bound.tolerance is not None and right.time + bound.tolerance <= passed:
            return False
        if self.join.condition is not None:
            return True
        rivals = [kept for kept in self._right if kept.key == right.key and kept.time <= passed]
        return max(rivals, key=lambda kept: (kept.time, self._right.index(kept))) is right

    def _passed(self, watermark: int | None) -> int | None:
        known = [] if watermark is None else [watermark - self.lateness]
        return max(known + ([] if self._flushed is None else [self._flushed]), default=None)

    def pass_time(self, watermark: int) -> None:
        self._decide(watermark)

    def _decide(self, watermark: int | None) -> None:
        passed = self._passed(watermark)
        certain = [kept for kept in self._waiting if passed is not None and self._is_certain(kept, passed)]
        for kept in certain:
            self._answer(kept)
        self._waiting = [kept for kept in self._waiting if kept not in certain]

    def _is_certain(self, left: Kept, passed: int) -> bool:
        """Whether no row can come that would be a better answer."""
        if passed < left.time:
            return False
        if left.key is None or self._bound.which is Nearest.BEFORE:
            return True
        best = self._best(left)
        if best is None:
            return self._bound.tolerance is not None and passed >= left.time + self._bound.tolerance
        if best.time > left.time:
            return passed >= best.time
        if self._bound.which is Nearest.AFTER:
            return True
        return passed >= left.time + (left.time - best.time) - 1

    def _answer(self, left: Kept) -> None:
        best = self._best(left)
        if best is None:
            self.give_alone(left, None)
        else:
            self.emitted += self.match(left, best, None, None)

    def _best(self, left: Kept) -> Kept | None:
        choices = [
            (kept, number)
            for number, kept in enumerate(self._right)
            if self._is_allowed(left.time, kept.time) and self.is_true(left, kept)
        ]
        nearest = [(abs(kept.time - left.time), kept.time > left.time, -number, kept) for kept, number in choices]
        return min(nearest, key=lambda choice: choice[:3])[3] if nearest else None

    def _is_allowed(self, left: int, right: int) -> bool:
        bound = self._bound
        if bound.strict and left == right:
            return False
        if bound.tolerance is not None and abs(left - right) > bound.tolerance:
            return False
        return right <= left if bound.which is Nearest.BEFORE else right >= left or bound.which is Nearest.EITHER

    def flush(self, until: int) -> None:
        """Answers as they are known."""
        self._flushed = until
        begun = [kept for kept in self._waiting if kept.time <= until]
        for kept in begun:
            self._answer(kept)
        self._waiting = [kept for kept in self._waiting if kept not in begun]
