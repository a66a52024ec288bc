"""Session joins of the reference model: each side has its own sessions per key, and two that overlap are joined when
both have closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventide.plan.joins import OverlappingSessions
from eventide.plan.physical import JoinRows, Physical
from eventide.testing.aggregates import frozen
from eventide.testing.joins import Joins, Kept
from eventide.testing.operators import Timed


@dataclass(eq=False)
class Session:
    """From the first row to the gap behind the last."""

    side: int
    group: Any  # NULL is a group too, though it matches nothing
    start: int
    end: int
    rows: list[Kept]
    is_closed: bool = False

    def touches(self, other: Session) -> bool:
        return self.group == other.group and self.start <= other.end and other.start <= self.end


class SessionJoin(Joins):
    def __init__(self, physical: Physical, join: JoinRows, bound: OverlappingSessions) -> None:
        super().__init__(physical, join)
        self._gap = bound.gap
        self._sessions: list[Session] = []
        self._flushed: list[Session] = []
        self._given: list[tuple[Session, Session]] = []

    @property
    def horizon(self) -> int:
        return self._gap + self.lateness

    def output_watermark(self, watermark: int) -> int:
        """Pairs of rows that came long ago are given when their sessions close."""
        return min([watermark - self.horizon, *(session.start for session in self._sessions)])

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        self._flushed = [session for session in self._flushed if not self._is_over(session, watermark)]
        joining = []
        for row in rows:
            alone = self._alone(row)
            if any(
                session.side == alone.side
                and session.group == alone.group
                and session.start - self._gap <= row.time <= session.end
                for session in self._flushed
            ):
                self.refuse(row)
            else:
                joining.append(alone)
        for island in self._merged(joining):
            met = [
                session
                for session in self._sessions
                if session.side == island.side and not session.is_closed and session.touches(island)
            ]
            if not met and self._is_over(island, watermark):
                for kept in island.rows:
                    self.refuse(kept.row)
            else:
                self._sessions = [session for session in self._sessions if session not in met]
                self._sessions += self._merged([*met, island])

    def _alone(self, row: Timed) -> Session:
        kept, keys = self.kept(row), self.physical.inputs[row.input].keys
        group = frozen([row.packed[key.sql] for key in keys])
        return Session(kept.side, group, row.time, row.time + self._gap, [kept])

    def _merged(self, sessions: list[Session]) -> list[Session]:
        """Those of one side and group that touch each other as one."""
        merged: list[Session] = []
        for session in sorted(sessions, key=lambda session: session.start):
            last = next(
                (other for other in merged if other.side == session.side and other.touches(session)),
                None,
            )
            if last is None:
                merged.append(Session(session.side, session.group, session.start, session.end, list(session.rows)))
            else:
                last.end = max(last.end, session.end)
                last.rows += session.rows
        return merged

    def _is_over(self, session: Session, watermark: int | None) -> bool:
        return watermark is not None and watermark >= session.end + self.lateness

    def pass_time(self, watermark: int) -> None:
        self._close([session for session in self._sessions if self._is_over(session, watermark)])

    def flush(self, until: int) -> None:
        begun = [session for session in self._sessions if session.start <= until and not session.is_closed]
        self._flushed += begun
        self._close(begun)

    def _close(self, closed: list[Session]) -> None:
        for session in closed:
            session.is_closed = True
        for left in self._of(0):
            for right in self._of(1):
                if left.is_closed and right.is_closed and left.touches(right):
                    self._give(left, right)
        over = [session for session in self._sessions if session.is_closed and not self._waits(session)]
        for session in over:
            for kept in session.rows:
                self.give_alone(kept, (session.start, session.end))
        self._sessions = [session for session in self._sessions if session not in over]

    def _of(self, side: int) -> list[Session]:
        return [session for session in self._sessions if session.side == side]

    def _waits(self, session: Session) -> bool:
        """Whether a session that it overlaps is open; NULL keys overlap nothing that counts."""
        others = [other for other in self._of(1 - session.side) if not other.is_closed and other.touches(session)]
        return session.rows[0].key is not None and bool(others)

    def _give(self, left: Session, right: Session) -> None:
        if (left, right) in self._given:
            return
        self._given.append((left, right))
        window, own = (min(left.start, right.start), max(left.end, right.end)), (left.start, left.end)
        for one in left.rows:
            for other in right.rows:
                if self.is_true(one, other):
                    self.emitted += self.match(one, other, window, own)
