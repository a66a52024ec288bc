"""Names above a join: which column of which side a name means, and how the plan calls it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from eventide.errors import SqlError, suggest
from eventide.eventtime.registry import EpochUnit, event_time_types
from eventide.plan.logical import Source
from eventide.plan.modes import JoinKind
from eventide.plan.names import quoted
from eventide.plan.reads import sources_below
from eventide.sql.join_sides import Side
from eventide.sql.scope import Reference, ScopeColumn, TimeOf, ambiguous, references, resolve, unknown_column
from eventide.sql.tokens import Edit, Span

ROWTIME = "rowtime"
BEHIND_JOINS = ("window_start", "window_end", "window_id", ROWTIME)


@dataclass(frozen=True)
class Found:
    """A column. `text` names it among the columns of a pair, `own` among those of its side."""

    column: ScopeColumn
    side: int | None  # None: made of both sides
    text: str
    own: str
    parts: int  # of the reference that name it; the rest are fields of a struct


@dataclass(frozen=True)
class Moment:
    """The event time of a side's row, and `micros` more."""

    side: int
    micros: int = 0


@dataclass(frozen=True)
class JoinScope:
    """`merged` are the columns of USING, which need no qualifier. After a semi or anti join the right is hidden."""

    left: Side
    right: Side
    kind: JoinKind
    merged: tuple[str, ...] = ()
    right_hidden: bool = False

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.left, self.right

    def behind(self) -> JoinScope:
        """What SELECT and WHERE see of it."""
        return replace(self, right_hidden=self.kind in (JoinKind.SEMI, JoinKind.ANTI))

    def find(self, reference: Reference) -> Found | None:
        """The column that a reference begins with; an error if several inputs have it."""
        parts = reference.parts
        for number, side in enumerate(self.sides):
            column = side.scope.qualified(parts[0], parts[1]) if len(parts) > 1 else None
            if column is not None and not (number == 1 and self.right_hidden):
                return self._found(number, column, 2)
        if parts[0].lower() in [name.lower() for name in self.merged]:
            return self.merged_column(parts[0])
        found_in = [(number, column) for number in (0, 1) for column in self._called(number, parts[0])]
        if len(found_in) > 1:
            raise ambiguous(
                reference, [column.qualifier or self.sides[number].qualifier for number, column in found_in]
            )
        return self._found(*found_in[0], 1) if found_in else None

    def known(self, reference: Reference) -> Found:
        """The same; an error if there is none."""
        found = self.find(reference)
        if found is None and reference.parts[-1].lower() in BEHIND_JOINS:
            name = reference.parts[-1]
            raise reference.error(
                f"{name} is not known in ON", "write this condition in WHERE, which comes after the join"
            )
        if found is None:
            raise self.unknown(reference)
        return found

    def unknown(self, reference: Reference, *more: str) -> SqlError:
        """The error for a name that means nothing; `more` are names that are known beside the columns."""
        help = None
        for side in self.sides:
            if len(reference.parts) > 1 and reference.parts[0].lower() in side.qualifiers:
                help = suggest(reference.parts[1], [column.called for column in side.scope.columns])
        names = {column.called for side in self.sides for column in side.scope.columns} | set(more)
        return reference.error(
            f"there is no column {'.'.join(reference.parts)}", help or suggest(reference.parts[-1], names)
        )

    def sides_of(self, span: Span) -> set[int | None]:
        """The sides whose columns an expression names; None for what is of no single side."""
        return {found.side if (found := self.find(reference)) else None for reference in references(span)}

    def of_pairs(self, reference: Reference) -> Edit:
        """The lookup of conditions on pairs."""
        found = self.known(reference)
        return reference.upto(found.parts, found.text)

    def of_side(self, reference: Reference) -> Edit:
        """The lookup of keys and filters, which are about one side's rows."""
        found = self.known(reference)
        return reference.upto(found.parts, found.own)

    def pair_column(self, number: int, reference: Reference) -> Edit:
        """The lookup of conditions on pairs, for a part of them that is about one side's columns alone."""
        scope = self.sides[number].scope
        found = resolve(scope, reference)
        if found is None:
            raise unknown_column(scope, reference)
        return reference.upto(found[1], self._found(number, *found).text)

    def named(self, number: int, name: str) -> str:
        """A side's column, by its exact name, among those of a pair."""
        column = next(column for column in self.sides[number].scope.columns if column.called.lower() == name.lower())
        return self._found(number, column, 1).text

    def time_side(self, reference: Reference) -> int | None:
        """The side whose event time a reference is, if it is one."""
        found = self.find(reference)
        if found is None:
            return None
        rest = reference.parts[found.parts :]
        field = found.column.time_field
        is_time = (found.column.is_event_time and not rest) or (field is not None and rest == (field,))
        return found.side if is_time else None

    def moment(self, reference: Reference) -> Moment | None:
        """What a reference says about the event time of a side: it is that, or a bound of the window that ends with
        it.
        """
        side = self.time_side(reference)
        if side is not None:
            return Moment(side)
        found = self.find(reference)
        if found is None or found.side is None or len(reference.parts) > found.parts:
            return None
        bound, is_carried = found.column.bound, self.sides[found.side].scope.time_of is TimeOf.SOURCE
        from_rowtime = None if bound is None or not is_carried else bound.from_rowtime
        return None if from_rowtime is None else Moment(found.side, from_rowtime)

    def qualified(self, side: int, name: str) -> str:
        """A column as one would write it."""
        qualifier = self.sides[side].qualifier
        return quoted(name) if qualifier is None else f"{quoted(qualifier)}.{quoted(name)}"

    def time_name(self, side: int) -> str:
        """A side's event time as one would write it, for the help of errors."""
        columns = [column.called for column in self.sides[side].scope.columns if column.is_event_time]
        qualifier = self.sides[side].qualifier or "ab"[side]
        return f"{quoted(qualifier)}.{quoted(columns[0] if columns else 'ts')}"

    def time_unit(self) -> Fraction | None:
        """The microseconds of one step of both sides' event times, where they are numbers of one unit."""
        units: set[Fraction | None] = set()
        for side in self.sides:
            counted = side.scope.time_of is TimeOf.SOURCE
            units.update(_unit(source) if counted else None for source in sources_below(side.scope.relation))
        return units.pop() if len(units) == 1 else None

    def _called(self, number: int, name: str) -> list[ScopeColumn]:
        """The columns of a side that a name without a qualifier may mean. rowtime is the time of a pair."""
        if (number == 1 and self.right_hidden) or name.lower() == ROWTIME:
            return []
        return self.sides[number].scope.all_called(name)

    def _found(self, number: int, column: ScopeColumn, parts: int) -> Found:
        index = self.sides[number].scope.columns.index(column)
        return Found(column, number, f"__{'lr'[number]}{index}", quoted(column.name), parts)

    def _column(self, number: int, name: str, parts: int) -> Found | None:
        columns = self._called(number, name)
        return self._found(number, columns[0], parts) if columns else None

    def merged_column(self, name: str) -> Found | None:
        """A column of USING: that of the side whose rows all come out, of both for FULL."""
        left, right = self._column(0, name, 1), self._column(1, name, 1)
        if left is None or right is None:
            return left
        if self.kind is JoinKind.FULL:
            return Found(left.column, None, f"coalesce({left.text}, {right.text})", left.own, 1)
        return right if self.kind is JoinKind.RIGHT else left


def _unit(source: Source) -> Fraction | None:
    known = None if source.event_time is None else event_time_types.resolve(source.event_time.type)
    return Fraction(known.micros_numerator, known.micros_denominator) if isinstance(known, EpochUnit) else None
