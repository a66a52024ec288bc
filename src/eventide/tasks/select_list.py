"""Evaluates the select list and HAVING where the kernel runs: rows leave the operator as the user sees them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.contract import ROWTIME, WINDOW_END, WINDOW_START
from eventide.storage.results import OUTPUT_TIME
from eventide.tasks.expressions import Column, Expression, columns_of, evaluate
from eventide.tasks.portable import portable

WINDOW_ID = "window_id"
RANK = "__rank"  # main rows of a batch are emitted in this order; NULL: as they come


@dataclass(frozen=True)
class WindowIds:
    """Adds WINDOW_ID = hash(plan_id, start, end in nanoseconds): one hash per distinct window, not per row."""

    plan_id: str

    def __call__(self, table: pa.Table) -> pa.Table:
        starts = table[WINDOW_START].cast(pa.int64()).to_pylist()
        ends = table[WINDOW_END].cast(pa.int64()).to_pylist()
        known: dict[tuple[int | None, int | None], str | None] = {(None, None): None}
        for pair in zip(starts, ends, strict=True):
            if pair not in known:
                text = f"{self.plan_id}:{pair[0] * 1000}:{pair[1] * 1000}"
                known[pair] = hashlib.sha256(text.encode()).hexdigest()[:32]
        ids = pa.array([known[pair] for pair in zip(starts, ends, strict=True)], pa.string())
        return table.append_column(WINDOW_ID, ids)


@dataclass(frozen=True)
class OutputTimes:
    """The event time of each row that leaves the operator, in microseconds: its ROWTIME, or its window's end less
    `before_end`. None where a row has neither.
    """

    before_end: int | None = None

    def __call__(self, table: pa.Table) -> pa.ChunkedArray:
        if self.before_end is None:
            return table[ROWTIME].cast(pa.int64())
        return pc.subtract(table[WINDOW_END].cast(pa.int64()), self.before_end)


@dataclass(frozen=True)
class Finish:
    """`rank` names the column that orders a batch's rows, if they have an order; `times` gives their event times."""

    outputs: tuple[tuple[str, Expression], ...]
    having: Expression | None
    window_ids: WindowIds | None
    rank: str | None
    times: OutputTimes

    @property
    def columns(self) -> set[str]:
        """The columns that are looked at."""
        conditions = () if self.having is None else (self.having,)
        rank = set() if self.rank is None else {self.rank}
        return rank.union(*map(columns_of, (*(expression for _, expression in self.outputs), *conditions)))

    def __call__(self, table: pa.Table) -> pa.Table:
        if self.window_ids is not None:
            table = self.window_ids(table)
        if self.having is not None:
            table = table.filter(evaluate(self.having, table))
        columns = [evaluate(expression, table) for _, expression in self.outputs]
        rank = pa.nulls(table.num_rows, pa.int32()) if self.rank is None else table[self.rank].cast(pa.int32())
        return pa.table(
            [*columns, self.times(table), rank], names=[*(name for name, _ in self.outputs), OUTPUT_TIME, RANK]
        )


def finish(
    outputs: Mapping[str, str],
    having: str | None,
    columns: Mapping[str, str],
    plan_id: str,
    rank: str | None,
    times: OutputTimes,
) -> Finish:
    """How `outputs` are made of a kernel's `columns` by name and type; a NotPortableError says what only Spark can."""
    made = tuple((name, _expression(sql, columns)) for name, sql in outputs.items())
    condition = (
        None
        if having is None
        else portable(having, {name.lower(): Column(name, type) for name, type in columns.items()})
    )
    used = set().union(
        *(columns_of(expression) for _, expression in made), set() if condition is None else columns_of(condition)
    )
    return Finish(made, condition, WindowIds(plan_id) if WINDOW_ID in used else None, rank, times)


def _expression(sql: str, columns: Mapping[str, str]) -> Expression:
    """A column of any type as it is, or an expression over those that can be computed here."""
    plain = sql.removeprefix("`").removesuffix("`")
    if plain in columns:
        return Column(plain, columns[plain])
    return portable(sql, {name.lower(): Column(name, type) for name, type in columns.items()}, decimals=True)
