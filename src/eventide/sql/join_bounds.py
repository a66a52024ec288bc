"""What bounds a join in time: WITHIN, equal windows of both sides, conditions on the two event times, or ASOF."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eventide.errors import SqlError
from eventide.plan.joins import AnyTime, Asof, Interval, JoinBound, Nearest
from eventide.plan.modes import EmitMode, JoinKind
from eventide.sql.conjuncts import between, comparison, conjuncts, unwrapped
from eventide.sql.emits import mode_at_any_time
from eventide.sql.join_scope import JoinScope
from eventide.sql.join_windows import Conditions, Read, equal_bound, equal_calls, same_columns, same_tables, take
from eventide.sql.scope import Reference, references, single_reference
from eventide.sql.syntax import JoinNode
from eventide.sql.time_bounds import Range, TimeBounds
from eventide.sql.tokens import Span, calls
from eventide.sql.type_names import TIME_TYPES


@dataclass(frozen=True)
class Bounded:
    """`kind` is inner where WHERE compares the times of both sides: no row without a partner passes that."""

    bound: JoinBound
    kind: JoinKind
    times: tuple[str | None, str | None]
    by_columns: bool = False  # the windows are those that rows of both sides already have in columns
    has_op: bool = False  # what comes out is a change log

    @property
    def has_windows(self) -> bool:
        """Whether the join makes windows, whose bounds a pair can be asked for."""
        return not self.by_columns and not isinstance(self.bound, Interval | Asof | AnyTime)


@dataclass(frozen=True)
class Emission:
    """When the join emits, if that is said; whether it may emit changes of its result; how long rows are kept."""

    mode: EmitMode | None
    tells_changes: bool
    state_ttl: int | None


class BoundFinder:
    """Finds the bound of a join. What says it is taken out of `conditions`."""

    def __init__(self, join: JoinNode, scope: JoinScope, conditions: Conditions, emission: Emission) -> None:
        self.join, self.scope, self.conditions, self.emission = join, scope, conditions, emission
        self.kind = join.kind
        self.bounds = TimeBounds(scope.moment, scope.time_unit())

    def find(self) -> Bounded:
        if any(side.scope.op is not None for side in self.scope.sides):
            return self._of_changes()
        within = self.join.within
        tables = [side.window for side in self.scope.sides if side.window is not None]
        times = (self.scope.left.time, self.scope.right.time)
        if self.join.asof and tables:
            raise tables[0].span.error("an ASOF join takes no windows", "name the source itself")
        if self.join.asof:
            return Bounded(self._asof(), self.kind, times)
        if tables and within is not None:
            raise within.span.error("the windows of the two sides bound the join already", "leave WITHIN out")
        if tables:
            where = self._take_where(lambda condition: equal_bound(condition, self.scope))
            return Bounded(same_tables(self.join, self.scope, self.conditions, where), self.kind, times)
        equal = take(self.conditions.on, lambda condition: equal_calls(condition, self.scope))
        equal += self._take_where(lambda condition: equal_calls(condition, self.scope))
        if len(equal) + (within is not None) > 1 and equal:
            raise equal[-1].span.error("the join has two windows", "keep one of them")
        if equal:
            return Bounded(equal[0].bound, self.kind, equal[0].times)
        columns = None if within is not None else same_columns(self.scope, self.conditions, self.kind)
        if columns is not None:
            return Bounded(columns, self.kind, times, by_columns=True)
        given = None if within is None else within.bound
        if given is not None and not isinstance(given, Interval):
            return Bounded(given, self.kind, times)
        kept = list(self.conditions.on), list(self.conditions.where)
        bound = self._interval(given)
        if bound is not None:
            return Bounded(bound, self.kind, times)
        self.conditions.on[:], self.conditions.where[:] = kept
        return self._at_any_time(has_changes=False)

    def _of_changes(self) -> Bounded:
        """A row that is taken back is to be found, so all are kept, and nothing bounds the join in time."""
        tables = [side.window.span for side in self.scope.sides if side.window is not None]
        place = self.join.words if self.join.asof else self.join.within.span if self.join.within else None
        place = place or next(iter(tables), None)
        if place is not None:
            raise place.error(
                "a join with a bound in time emits each pair once, and rows of a change log can be taken back",
                "leave the bound out, and write EMIT CHANGES at the end",
            )
        if not self.emission.tells_changes:
            raise self.join.words.error("a join of a change log emits changes", "write EMIT CHANGES at the end")
        return self._at_any_time(has_changes=True)

    def _at_any_time(self, has_changes: bool) -> Bounded:
        times = (self.scope.left.time, self.scope.right.time)
        mode = self.emission.mode or mode_at_any_time(self.join.kind, has_changes)
        bound = AnyTime(self.emission.state_ttl)
        return Bounded(bound, self.join.kind, times, has_op=mode is EmitMode.CHANGES)

    def _take_where(self, read: Callable[[Span], Read | None]) -> list[Read]:
        """What WHERE says about both sides; after a semi or anti join it knows one side only."""
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return []
        found = take(self.conditions.where, read)
        self.kind = JoinKind.INNER if found else self.kind
        return found

    # Intervals ----------------------------------------------------------------------------------------------------

    def _interval(self, given: Interval | None) -> Interval | None:
        """WITHIN INTERVAL and all conditions on the two event times together; None if rows may meet at any time."""
        total = Range() if given is None else Range(given.lower, given.upper)
        places: list[Span] = []
        for found, place in [*take(self.conditions.on, self._placed_range), *self._take_where(self._placed_range)]:
            total = total.meet(found)
            places.append(place)
        is_bounded = total.lower is not None and total.upper is not None
        if not is_bounded and self.emission.tells_changes:
            return None
        if total.lower is None and total.upper is None:
            raise self._unbounded()
        if total.lower is None or total.upper is None:
            raise places[-1].error(
                "this bounds the time on one side only, so rows would have to be kept for ever",
                f"bound both sides, as in {self._example()}, or add WITHIN INTERVAL '10' SECOND",
            )
        if total.lower > total.upper:
            raise places[-1].error("no two rows can meet within this bound", f"write {self._example()}")
        return Interval(total.lower, total.upper)

    def _placed_range(self, condition: Span) -> tuple[Range, Span] | None:
        found = self.bounds.range_of(condition)
        return None if found is None else (found, condition)

    def _unbounded(self) -> SqlError:
        for condition in (*self.conditions.on, *self.conditions.where):
            reference = self._other_time(condition)
            if reference is not None:
                return self._not_the_event_time(condition, reference)
            if self._is_about_times(condition):
                return condition.error(
                    "this does not bound the time between the two rows by a fixed amount",
                    f"add or subtract intervals, as in {self._example()}, or add WITHIN INTERVAL '10' SECOND",
                )
        for condition in (*self.conditions.on, *self.conditions.where):
            for reference in references(condition):
                if _is_range(condition) and self.scope.known(reference).column.side_time is not None:
                    return reference.error(
                        f"{'.'.join(reference.parts)} is the time of one input of the join before, and a pair has the "
                        "later of the two",
                        "add WITHIN INTERVAL '10' SECOND, which goes by the time of the pair",
                    )
        right = self.scope.right.qualifier or "the right side"
        add = f"add WITHIN TUMBLE(INTERVAL '10' SECOND) after {right}, or a condition such as {self._example()}"
        return self.join.words.error(
            "a join of two streams needs a bound in time", f"{add}; or EMIT CHANGES, and rows meet at any time"
        )

    def _example(self) -> str:
        left, right = self.scope.time_name(0), self.scope.time_name(1)
        return f"{right} BETWEEN {left} - INTERVAL '10' SECOND AND {left} + INTERVAL '10' SECOND"

    def _other_time(self, condition: Span) -> Reference | None:
        """A time of another kind that a comparison of both sides compares; None for other conditions."""
        named = references(condition)
        if not _is_range(condition) or {self.scope.known(reference).side for reference in named} != {0, 1}:
            return None
        for reference in named:
            if self.scope.moment(reference) is None and self.scope.known(reference).column.type in TIME_TYPES:
                return reference
        return None

    def _is_about_times(self, condition: Span) -> bool:
        """A comparison of the two event times that `TimeBounds` could not read."""
        moments = [self.scope.moment(each) for each in references(condition)]
        return _is_range(condition) and {None if each is None else each.side for each in moments} == {0, 1}

    def _not_the_event_time(self, condition: Span, reference: Reference) -> SqlError:
        name = ".".join(reference.parts)
        return condition.error(
            f"{name} is not the event time of its side, so this does not bound the join in time",
            f"declare EVENT TIME in the source, write WATERMARK {reference.parts[-1]} DELAY OF INTERVAL 10 SECONDS "
            f"after it in FROM, or {'add a condition on the event times' if self.join.asof else 'add WITHIN'}",
        )

    # ASOF ---------------------------------------------------------------------------------------------------------

    def _asof(self) -> Asof:
        total, nearest = Range(), False
        if self.join.system_time is not None:
            total = self._as_of_left(self.join.system_time)
        matched = conjuncts(self.join.match) if self.join.match is not None else []
        for condition in matched:
            if self._is_nearest(condition):
                nearest = True
                continue
            found = self.bounds.range_of(condition)
            if found is None:
                raise self._no_match(condition)
            total = total.meet(found)
        nearest = bool(take(self.conditions.on, lambda condition: self._is_nearest(condition) or None)) or nearest
        for found, _ in take(self.conditions.on, self._placed_range):
            total = total.meet(found)
        if total == Range() and not nearest and self._ends_with_time():
            total = Range(upper=0)
        return self._nearest(total) if nearest else self._direction(total)

    def _as_of_left(self, time: Span) -> Range:
        reference = single_reference(time)
        if reference is None or self.scope.time_side(reference) != 0:
            raise time.error(
                "FOR SYSTEM_TIME AS OF takes the event time of the left side",
                f"write FOR SYSTEM_TIME AS OF {self.scope.time_name(0)}",
            )
        return Range(upper=0)

    def _is_nearest(self, condition: Span) -> bool:
        span = unwrapped(condition)
        call = next((call for call in calls(span) if call.index == 0 and call.after == len(span.tokens)), None)
        if call is None or call.name != "nearest":
            return False
        named = references(span)
        if len(named) != 2 or {self.scope.time_side(reference) for reference in named} != {0, 1}:
            raise span.error(
                "NEAREST takes the event times of both sides",
                f"write NEAREST({self.scope.time_name(0)}, {self.scope.time_name(1)})",
            )
        return True

    def _no_match(self, condition: Span) -> SqlError:
        other = self._other_time(condition)
        if other is not None:
            return self._not_the_event_time(condition, other)
        return condition.error("MATCH_CONDITION compares the event times of both sides", self._write_match())

    def _write_match(self) -> str:
        return f"write MATCH_CONDITION ({self.scope.time_name(0)} >= {self.scope.time_name(1)}), and the rest in ON"

    def _ends_with_time(self) -> bool:
        """DuckDB: the last column of USING is the one that is compared with >=."""
        using = self.conditions.using
        if not using:
            return False
        name = using[-1].tokens[0].text
        columns = [side.scope.find(name) for side in self.scope.sides]
        if not all(column is not None and column.is_event_time for column in columns):
            return False
        using.pop()
        return True

    def _nearest(self, total: Range) -> Asof:
        if total == Range():
            return Asof(Nearest.EITHER)
        if total.upper is None or total.lower is None or total.upper != -total.lower:
            left, right = self.scope.time_name(0), self.scope.time_name(1)
            raise self._place().error(
                "the tolerance of NEAREST must be the same on both sides",
                f"write NEAREST({left}, {right}) AND abs({left} - {right}) <= INTERVAL '10' SECOND",
            )
        return Asof(Nearest.EITHER, tolerance=total.upper)

    def _direction(self, total: Range) -> Asof:
        """The comparison with 0 says which row is taken, the other end how far it may be away."""
        lower, upper = total.lower, total.upper
        if upper in (0, -1) and (lower is None or lower <= upper):
            return Asof(Nearest.BEFORE, upper == -1, None if lower is None else -lower)
        if lower in (0, 1) and (upper is None or upper >= lower):
            return Asof(Nearest.AFTER, lower == 1, upper)
        if total == Range():
            for condition in self.conditions.on:
                other = self._other_time(condition)
                if other is not None:
                    raise self._not_the_event_time(condition, other)
            raise self.join.words.error("an ASOF join compares the event times of both sides", self._write_match())
        raise self._place().error(
            "ASOF takes the closest row before or after, so it compares the two times as they are", self._write_match()
        )

    def _place(self) -> Span:
        return self.join.match or self.join.on or self.join.words


def _is_range(condition: Span) -> bool:
    compared = comparison(condition)
    return between(condition) is not None or (compared is not None and compared.operator not in ("=", "<=>"))
