"""Expressions that raise for a row: the row becomes an `error`, the others go on.

A stream runs without guards until an expression raises; then, once in its life, it is compiled anew with guards, and
takes the same batch again (docs/row_errors.md says why it is done so). A guard is Spark's own TryEval, which gives NULL
where what it holds raises. What is evaluated becomes a struct first, so that NULL always means that it raised.

What a guard holds stands in a branch of CASE. There Spark does not look for parts that several expressions have in
common, which it would evaluate in front of them, out of the guard's reach.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, functions as F

from eventide.connectors.contract import PASSED
from eventide.eventtime.resolution import IS_FAILED, IS_NO_ROW
from eventide.kernels.contract import DETAIL
from eventide.plan.logical import Named
from eventide.plan.names import backticked
from eventide.spark.guarded_functions import with_guarded_functions
from eventide.tasks.packing import HOW, KEPT
from eventide.tasks.portable import never_raises, source_names

# Gets a frame, which of its rows raised, and why; gives it back with these rows marked.
Mark = Callable[[DataFrame, Column, Column], DataFrame]
Names = Mapping[str, str]  # what the user calls columns of ours

_TRIED = "__tried"
_LONGEST_VALUE = 200  # characters of a value that an error's detail shows


@dataclass
class Guard:
    """`is_on`: expressions that may raise are guarded. `guarded` are those met so far."""

    is_on: bool = False
    guarded: list[str] = field(default_factory=list)

    def of_rows(self, frame: DataFrame, columns: Sequence[Named]) -> tuple[DataFrame, list[Column]]:
        """The frame, and `columns` over it. Rows for which one of them raises are marked in HOW and DETAIL.

        They are not evaluated for what is no row of the user's any more, nor for rows that filters leave out.
        """
        is_kept = F.col(KEPT) if KEPT in frame.columns else F.lit(True)
        values = [F.expr(column.sql) for column in columns]
        if self.is_on:
            sound = (F.col(HOW) < IS_NO_ROW) & F.col(PASSED).isNull() & is_kept
            frame, values = self.evaluated(frame, columns, sound, _marked_row)
        return frame, [F.when(is_kept, value) for value in values] if KEPT in frame.columns else values

    def evaluated(
        self, frame: DataFrame, columns: Sequence[Named], sound: Column, mark: Mark, names: Names | None = None
    ) -> tuple[DataFrame, list[Column]]:
        """The frame with rows for which one of `columns` raises marked, and `columns` over it, for `sound` rows."""
        types = source_names({field.name: field.dataType.simpleString() for field in frame.schema.fields})
        risky = [place for place, column in enumerate(columns) if not never_raises(column.sql, types)]
        values = [F.expr(column.sql) for column in columns]
        if not risky:
            return frame, values
        self.guarded += [columns[place].sql for place in risky]
        attempts = [_Attempt.of(frame, columns[place].sql, names or {}) for place in risky]
        tried = frame.withColumn(_TRIED, _all_tried(sound, attempts))
        whys = [F.when(_all_tried(sound, [each]).isNull(), each.why) for each in attempts]
        marked = mark(tried, sound & F.col(_TRIED).isNull(), F.coalesce(*whys, attempts[0].why))
        for number, place in enumerate(risky):
            values[place] = F.col(f"{_TRIED}.c{number}")
        return marked, values

    def cleared(self, frame: DataFrame) -> DataFrame:
        """The frame when what was evaluated has been taken out of it."""
        return frame.drop(_TRIED) if self.is_on else frame


def _marked_row(frame: DataFrame, failed: Column, why: Column) -> DataFrame:
    how = F.when(failed, F.lit(IS_FAILED)).otherwise(F.col(HOW)).cast("tinyint")
    return frame.withColumns({DETAIL: F.when(failed, why).otherwise(F.col(DETAIL)), HOW: how})


@dataclass(frozen=True)
class _Attempt:
    """An expression as it is tried, and what is told of it where it raises."""

    value: Column
    why: Column

    @classmethod
    def of(cls, frame: DataFrame, sql: str, names: Names) -> _Attempt:
        guarded, errors = with_guarded_functions(frame, sql)
        said = F.coalesce(*[F.concat(F.lit(": "), F.expr(error)) for error in errors], F.lit(""))
        return cls(F.expr(guarded), F.concat(_detail(frame, sql, names), said))


def tried(value: Column) -> Column:
    """`value`, NULL where it raises."""
    jvm: Any = SparkContext._jvm
    utilities = jvm.org.apache.spark.sql.classic.ExpressionUtils
    guard = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(utilities.expression(value._jc))
    return Column(utilities.column(guard))


def _all_tried(sound: Column, attempts: Sequence[_Attempt]) -> Column:
    """A struct of the values; NULL where one of them raises, and where the row is not `sound`."""
    values = [each.value.alias(f"c{number}") for number, each in enumerate(attempts)]
    return tried(F.when(sound, F.struct(*values)))


def _detail(frame: DataFrame, sql: str, names: Names) -> Column:
    """The expression, and the values that it could not take."""
    used = {name.lower() for name in re.findall(r"\w+", sql)}
    pieces = []
    for column in frame.columns:
        if column.lower() in used and column != _TRIED:
            text = F.substring(F.coalesce(F.col(backticked(column)).cast("string"), F.lit("NULL")), 1, _LONGEST_VALUE)
            pieces.append(F.concat(F.lit(f"{names.get(column, column)} = "), text))
    shown = re.sub(r"__[a-z]\d+\b", lambda found: names.get(found[0], found[0]), sql)
    return F.concat(F.lit(f"{shown} raised an error for "), F.concat_ws(", ", *pieces)) if pieces else F.lit(shown)
