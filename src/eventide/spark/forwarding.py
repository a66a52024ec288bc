"""Rows that need no operator: the task that has read them makes of them what the stream gives, and writes it.

What travels to a shard is how many there were, and the names of the files; or the finished rows, where they are few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.contract import PROBLEM, TS
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.kernels.prefold import TimeBound
from eventide.kernels.vector.columns import Mask, column, ints
from eventide.plan.modes import LatePolicy
from eventide.spark.task_output import Assignment, OutputForm, TaskOutput
from eventide.tasks.select_list import Finish


@dataclass(frozen=True)
class ForwardByTasks:
    """`spec` has the columns that the select list uses; `unused` are the packed ones that it does not. `spares_late`:
    rows that the watermark may have passed are for the operator to judge.
    """

    spec: ForwardSpec
    finish: Finish
    form: OutputForm
    spares_late: bool
    unused: frozenset[str]

    def begin(self, task: int) -> RowForwarder:
        return RowForwarder(self, task)


def forwarding_of(spec: IntakeSpec, finish: Finish, form: OutputForm) -> ForwardByTasks | None:
    """How tasks that read forward rows by themselves; None where each must meet the operator."""
    inner = spec.inner
    if not isinstance(inner, ForwardSpec) or inner.ordered or spec.deduplicates or spec.trials:
        return None
    used = finish.columns
    kept = [each for each in zip(inner.originals, inner.types, strict=True) if each[0][0] in used]
    unused = {packed for name, packed in inner.originals if name not in used}
    needed = replace(inner, originals=tuple(names for names, _ in kept), types=tuple(type for _, type in kept))
    packed = {packed for _, packed in needed.originals}
    return ForwardByTasks(needed, finish, form, spec.policy is not LatePolicy.WINDOW, frozenset(unused - packed))


class RowForwarder:
    """Lives as long as a task."""

    def __init__(self, how: ForwardByTasks, task: int) -> None:
        self._how = how
        self._output = TaskOutput(how.form, task, partial(Assignment.of_task, how.form.store))
        self._count = 0

    def take(self, rows: pa.Table, bound: TimeBound | None) -> pa.Table:
        keeps = self._for_operator(rows, bound)
        rest = rows.filter(pa.array(keeps)) if keeps.any() else rows.slice(0, 0)
        taken = rows.filter(pa.array(~keeps)) if keeps.any() else rows
        if taken.num_rows:
            spec = self._how.spec
            self._output.add_main(self._how.finish(spec.main(spec.values(taken), ints(taken, TS))))
            self._count += taken.num_rows
        return rest

    def end(self) -> tuple[int, list[tuple[str, bytes]]]:
        return self._count, list(self._output.end())

    def _for_operator(self, rows: pa.Table, bound: TimeBound | None) -> Mask:
        """Which rows have a problem, or may be late."""
        if self._how.spares_late and bound is None:
            return np.ones(rows.num_rows, np.bool_)
        kept: Mask = np.zeros(rows.num_rows, np.bool_)
        if PROBLEM in rows.column_names:
            kept = kept | np.asarray(column(rows, PROBLEM).is_valid())
        if self._how.spares_late and bound is not None and bound.watermark is not None:
            kept = kept | np.asarray(pc.less_equal(column(rows, TS), bound.watermark).fill_null(True))
        return kept
