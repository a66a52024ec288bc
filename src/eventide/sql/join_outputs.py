"""What is selected of a join: columns of both sides, the window of a pair and its time."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.errors import SqlError, suggest
from eventide.plan.change_logs import CHANGE
from eventide.plan.joins import AnyTime, Asof, Interval
from eventide.plan.logical import Named
from eventide.plan.modes import JoinKind
from eventide.plan.names import TIME_OF_PAIR
from eventide.plan.stream_source import OP_COLUMN
from eventide.sql.join_bounds import Bounded
from eventide.sql.join_scope import ROWTIME, JoinScope
from eventide.sql.join_sides import WINDOW_BOUNDS
from eventide.sql.naming import name_of_expression
from eventide.sql.scope import Reference, duplicate, refuse_quoted_columns, rewrite, single_reference
from eventide.sql.syntax import SelectItem
from eventide.sql.tokens import Edit, Span, calls
from eventide.sql.window_functions import BOUND_FUNCTIONS, WINDOW_FUNCTIONS

_OF_WINDOWS = (*WINDOW_BOUNDS, "window_id")
_OF_AGGREGATES = ("emit_epoch", "op")
_STRUCT = "named_struct('start', window_start, 'end', window_end)"


@dataclass(frozen=True)
class AboveJoin:
    """The lookup of SELECT and WHERE. `outputs` are the aliases to the left, which later items may use."""

    scope: JoinScope
    bounded: Bounded
    outputs: tuple[Named, ...] = ()

    def __call__(self, reference: Reference) -> Edit:
        found = self.scope.behind().find(reference)
        if found is not None and found.parts == 1 and self._is_window(reference.parts[0]):
            raise self._both(reference)
        if found is not None:
            return reference.upto(found.parts, found.text)
        for output in self.outputs:
            if output.name.lower() == reference.parts[0].lower():
                return reference.upto(1, f"({output.sql})")
        if self._left_only and self.scope.find(reference) is not None:
            raise reference.error(
                f"a {self.scope.kind.value.upper()} JOIN gives rows of the left side only",
                "leave it out, or write JOIN",
            )
        return self._pseudo(reference)

    @property
    def _left_only(self) -> bool:
        return self.scope.kind in (JoinKind.SEMI, JoinKind.ANTI)

    def name(self, span: Span) -> str:
        """The name of a column without an alias."""
        reference = single_reference(span)
        if reference is not None and self.scope.behind().find(reference) is None:
            is_bound = self._table_bound(reference) is not None
            name = reference.parts[-1] if is_bound else self._unqualified(reference)[0]
            if is_bound or name in (ROWTIME, OP_COLUMN, *_OF_WINDOWS):
                return name
        return name_of_expression(span, self._column_name)

    def star(self, item: SelectItem) -> list[Named]:
        """`*`, `l.*` and `* EXCEPT (a)`: columns of USING first, then those of the sides in order."""
        listed = self._all() if item.qualifier is None else self._of_side(item)
        names = [output.name.lower() for output in listed]
        for name in item.excluded:
            if name.lower() not in names:
                raise item.expression.error(
                    f"there is no column {name}", suggest(name, {output.name for output in listed})
                )
        excluded = {name.lower() for name in item.excluded}
        return [output for output in listed if output.name.lower() not in excluded]

    def _column_name(self, reference: Reference) -> tuple[str, int] | None:
        found = self.scope.behind().find(reference)
        return None if found is None else (found.column.called, found.parts)

    def _all(self) -> list[Named]:
        merged = [
            Named(found.column.called, found.text)
            for name in self.scope.merged
            if (found := self.scope.behind().merged_column(name)) is not None
        ]
        without = {name.lower() for name in self.scope.merged}
        rest = [
            output
            for side in ((0,) if self._left_only else (0, 1))
            for output in self._columns(side)
            if output.name.lower() not in without
        ]
        windowed = self.scope.left.window_columns
        return [*merged, *rest, *(Named(name, text) for name, text in windowed.items())]

    def _of_side(self, item: SelectItem) -> list[Named]:
        wanted = (item.qualifier or "").lower()
        for number, side in enumerate(self.scope.sides):
            if wanted in side.qualifiers:
                if number == 1 and self._left_only:
                    raise item.expression.error(
                        f"a {self.scope.kind.value.upper()} JOIN gives rows of the left side only", "leave it out"
                    )
                windowed = side.window_columns.items() if wanted == (side.qualifier or "").lower() else ()
                return [*self._columns(number, wanted), *(Named(name, text) for name, text in windowed)]
        known = [f"{name}.*" for side in self.scope.sides for name in side.listed_qualifiers]
        raise item.expression.error(
            f"there is nothing called {item.qualifier} in FROM", f"write {' or '.join(['*', *known])}"
        )

    def _columns(self, number: int, qualifier: str | None = None) -> list[Named]:
        """The columns of a side that a star shows, or of one input of a side that is itself a join."""
        side = self.scope.sides[number]
        return [
            Named(column.called, f"__{'lr'[number]}{index}")
            for index, column in enumerate(side.scope.columns)
            if not column.is_hidden and qualifier in (None, (column.qualifier or side.qualifier or "").lower())
        ]

    def _is_window(self, name: str) -> bool:
        return name.lower() in _OF_WINDOWS and self.bounded.has_windows

    def _both(self, reference: Reference) -> SqlError:
        name = reference.parts[0]
        number = next(number for number in (0, 1) if self.scope.sides[number].scope.find(name) is not None)
        return reference.error(
            f"{name} is a column of the input and of the window",
            f"write {self.scope.qualified(number, name)} for the column, or rename it in a subquery",
        )

    def _table_bound(self, reference: Reference) -> str | None:
        """The bound of a window that a window table gives under this name."""
        for side in self.scope.sides:
            alone = side.window_bound_called(reference.parts[0]) if len(reference.parts) == 1 else None
            bound = alone or side.window_bound(reference)
            if bound is not None:
                return bound
        return None

    def _unqualified(self, reference: Reference) -> list[str]:
        """The parts without the name of a side, and a window's bound as the plan calls it."""
        bound = self._table_bound(reference)
        if bound is not None:
            return [bound]
        parts = [part.lower() for part in reference.parts]
        qualifiers = [side.qualifier.lower() for side in self.scope.sides if side.qualifier is not None]
        return parts[1:] if len(parts) > 1 and parts[0] in qualifiers and parts[1] in _OF_WINDOWS else parts

    def _pseudo(self, reference: Reference) -> Edit:
        parts = self._unqualified(reference)
        name, used = parts[0], len(reference.parts) - len(parts) + 1
        if name == ROWTIME:
            return reference.upto(used, TIME_OF_PAIR)
        if name == OP_COLUMN and self.bounded.has_op:
            return reference.upto(used, CHANGE)
        bound = self.bounded.bound
        if name in (*_OF_WINDOWS, "window") and isinstance(bound, Interval | Asof | AnyTime):
            join = {Interval: "an interval join", Asof: "an ASOF join"}.get(type(bound), "a join at any time")
            raise reference.error(
                f"{join} has no windows", "leave it out; rowtime is the time of a pair, the later of its two"
            )
        if name == "window":
            is_bound = len(parts) > 1 and parts[1] in ("start", "end")
            return reference.upto(used + is_bound, f"window_{parts[1]}" if is_bound else _STRUCT)
        if name in _OF_WINDOWS:
            return reference.upto(used, name)
        if name in _OF_AGGREGATES:
            raise reference.error(f"{name} is made by an aggregate: a pair is given once", "leave it out")
        more = _OF_WINDOWS if self.bounded.has_windows else ()
        raise self.scope.unknown(reference, ROWTIME, *more, *(output.name for output in self.outputs))


def join_outputs(items: tuple[SelectItem, ...], scope: JoinScope, bounded: Bounded) -> tuple[Named, ...]:
    """The select list over pairs."""
    outputs: list[Named] = []
    for item in items:
        above = AboveJoin(scope, bounded, tuple(outputs))
        if item.star:
            outputs += above.star(item)
        else:
            _check(item.expression, scope)
            name = item.alias or above.name(item.expression)
            outputs.append(Named(name, rewrite(item.expression, above)))
        twice = duplicate([output.name for output in outputs])
        if twice is not None:
            help = "name the columns in place of *" if item.star else "give one of them another name with AS"
            raise item.expression.error(f"two columns are called {twice}", help)
    return tuple(outputs)


def _check(span: Span, scope: JoinScope) -> None:
    refuse_windows(span)
    for side in scope.sides:
        refuse_quoted_columns(side.scope, span)


def refuse_windows(span: Span) -> None:
    """A window function in an expression over pairs."""
    for call in calls(span):
        if call.name in WINDOW_FUNCTIONS or call.name in BOUND_FUNCTIONS:
            raise call.span.error(
                "the window of a join is given by WITHIN", "use window_start and window_end to name its bounds"
            )
