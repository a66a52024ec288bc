"""Evaluates the select list and HAVING where the kernel runs: rows leave the operator as the user sees them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from eventide.kernels.contract import WINDOW_END, WINDOW_START
from eventide.tasks.expressions import Expression, evaluate

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
class Finish:
    """`rank` names the column that orders a batch's rows, if they have an order."""

    outputs: tuple[tuple[str, Expression], ...]
    having: Expression | None
    window_ids: WindowIds | None
    rank: str | None

    def __call__(self, table: pa.Table) -> pa.Table:
        if self.window_ids is not None:
            table = self.window_ids(table)
        if self.having is not None:
            table = table.filter(evaluate(self.having, table))
        columns = [evaluate(expression, table) for _, expression in self.outputs]
        rank = pa.nulls(table.num_rows, pa.int32()) if self.rank is None else table[self.rank].cast(pa.int32())
        return pa.table([*columns, rank], names=[*(name for name, _ in self.outputs), RANK])
