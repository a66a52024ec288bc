"""Aggregates of the user's own, tried on single rows: one that a row makes raise would end the stream at it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from eventide.errors import EngineError
from eventide.kernels.aggregates.base import AggregateSpec
from eventide.kernels.vector.columns import column
from eventide.plan.modes import FILTERED


@dataclass(frozen=True)
class Trial:
    """`sql` is the call, for details of errors."""

    aggregate: AggregateSpec
    sql: str

    def failures(self, rows: pa.Table) -> pa.Array:
        """For each row what is raised when it is the first and only one; NULL where nothing is."""
        inputs = [column(rows, name) for name in self.aggregate.inputs]
        if not inputs:
            return pa.nulls(rows.num_rows, pa.string())
        counts = inputs.pop().fill_null(False).to_pylist() if FILTERED in self.aggregate.parameters else None
        batch = pa.RecordBatch.from_arrays(inputs, names=[str(number) for number in range(len(inputs))])
        return pa.array(
            [
                self._failure(batch.slice(place, 1)) if counts is None or counts[place] else None
                for place in range(rows.num_rows)
            ],
            pa.string(),
        )

    def _failure(self, row: pa.RecordBatch) -> str | None:
        user, kind = self.aggregate.user, self.aggregate.state_type
        if user is None:
            raise EngineError(f"{self.aggregate.function} is no aggregate of the user's own")
        try:
            pa.array([user.update(user.create(), row)], kind)
        except Exception as error:
            return f"{self.sql} raised an error for {_shown(row)}: {type(error).__name__}: {error}"
        return None


def _shown(row: pa.RecordBatch) -> str:
    return ", ".join(str(values[0].as_py()) for values in row.columns)
