"""Partial aggregates as tables: one row per group, with leading columns, group keys and the state of every
aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates.base import Aggregate, AggregateSpec
from eventide.kernels.aggregates.registry import build_aggregate, build_retractable
from eventide.kernels.contract import KEY, TS
from eventide.kernels.state.codec import Earlier
from eventide.kernels.state.past import Part, Past, StateLayout
from eventide.kernels.vector.columns import Mask, column, ints, normalised, sort_order, typed
from eventide.kernels.vector.grouping import Reduction, group_rows

ROWS = "rows"


class Aggregation:
    """The keys and aggregates of one query over tables of a fixed layout.

    A partial table has the columns `lead` (int64: a slice, a window's bounds), the keys KEY + n, the states `s<n>_<m>`
    and `status` (small integers that a kernel keeps per group; 0 after a fold, the largest after a merge). A group is
    identified by the leading columns and the keys together; there is always at least one leading column, so that a
    query without keys has one group per slice or window.

    `changes` names the column that says of rows of a change log whether they are added or taken back. A partial then
    has the column ROWS, too: how many rows are left.
    """

    def __init__(
        self,
        lead: Sequence[str],
        keys: Sequence[str],
        key_types: Sequence[pa.DataType],
        aggregates: Sequence[AggregateSpec],
        status: Sequence[pa.Field] = (),
        changes: str | None = None,
    ) -> None:
        self.lead = tuple(lead)
        self.changes = changes
        self.status = tuple(field.name for field in status)
        self._sources = tuple(keys)
        self.keys = tuple(f"{KEY}{n}" for n in range(len(keys)))
        self._key_types = tuple(key_types)
        build = build_aggregate if changes is None else build_retractable
        self._aggregates = tuple(build(spec) for spec in aggregates)
        self._segments = any(aggregate.needs_segments for aggregate in self._aggregates)
        self._states = tuple(tuple(f"s{n}_{m}" for m in range(len(a.state))) for n, a in enumerate(self._aggregates))
        self.key_fields = [pa.field(name, kind) for name, kind in zip(self.keys, key_types, strict=True)]
        self.result_fields = [pa.field(spec.name, spec.result_type) for spec in aggregates]
        states = [
            pa.field(name, kind)
            for names, a in zip(self._states, self._aggregates, strict=True)
            for name, kind in zip(names, a.state, strict=True)
        ]
        left = [] if changes is None else [pa.field(ROWS, pa.int64())]
        self.schema = pa.schema(
            [*[pa.field(name, pa.int64()) for name in self.lead], *self.key_fields, *states, *left, *status]
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """What of a partial table another text of the stream may have, too."""
        return tuple(part_of(aggregate) for aggregate in self._aggregates)

    def earlier(self, past: Past) -> tuple[Earlier, ...]:
        """How partial tables of earlier texts become such of this one."""
        return tuple(self._earlier(layout) for layout in past.layouts)

    def _earlier(self, layout: StateLayout) -> Earlier:
        states = [
            pa.field(f"s{n}_{m}", kind) for n, part in enumerate(layout.parts) for m, kind in enumerate(part.types)
        ]
        head, tail = len(self.lead) + len(self.keys), len(self.status) + (self.changes is not None)
        fields = list(self.schema)
        schema = pa.schema([*fields[:head], *states, *fields[len(fields) - tail :]])
        place = {part.identity: (n, part) for n, part in reversed(list(enumerate(layout.parts)))}

        def renewed(table: pa.Table) -> pa.Table:
            found = [
                _continued(aggregate, table, *place.get(part_of(aggregate).identity, (0, None)))
                for aggregate in self._aggregates
            ]
            rest = table.columns[table.num_columns - tail :]
            return self._table([*table.columns[:head], *(state for states in found for state in states), *rest])

        return Earlier(layout.fingerprint, schema, renewed)

    @property
    def is_simple(self) -> bool:
        """Whether every aggregate is a plain reduction, which does not depend on the order of rows."""
        return not self._segments

    def fold(self, rows: pa.Table, lead: Sequence[pa.Array]) -> pa.Table:
        """The partial of these rows; `lead` has the leading columns, row by row."""
        inputs = [self._inputs(rows, n) for n in range(len(self._aggregates))]
        plans = [a.fold_plan(values) for a, values in zip(self._aggregates, inputs, strict=True)]
        plans.append([] if self.changes is None else [Reduction("sum", self._ops(rows))])
        groups = group_rows(
            [*lead, *self.key_columns(rows)], [r for plan in plans for r in plan], segments=self._segments
        )
        *reduced, left = _split(groups.reduced, plans)
        states = [
            state
            for a, values, part in zip(self._aggregates, inputs, reduced, strict=True)
            for state in a.fold(values, part, groups.segments)
        ]
        nothing = pa.array(np.zeros(len(groups.keys[0]), np.int64))
        return self._table(groups.keys + states + left + [nothing] * len(self.status))

    def merge(self, partial: pa.Table) -> pa.Table:
        """One row per group from several."""
        if partial.num_rows < 2:
            return partial
        by = [column(partial, name) for name in self.lead + self.keys]
        held = [[column(partial, name) for name in names] for names in self._states]
        plans = [a.merge_plan(states) for a, states in zip(self._aggregates, held, strict=True)]
        plans.append([] if self.changes is None else [Reduction("sum", column(partial, ROWS))])
        plans.append([Reduction("max", column(partial, name)) for name in self.status])
        groups = group_rows(by, [r for plan in plans for r in plan], segments=self._segments)
        *reduced, left, status = _split(groups.reduced, plans)
        states = [
            state
            for a, old, part in zip(self._aggregates, held, reduced, strict=True)
            for state in a.merge(old, part, groups.segments)
        ]
        return self._table(groups.keys + states + left + status)

    def empty_groups(self, partial: pa.Table) -> Mask:
        """Which groups of a merged partial have no rows left."""
        if self.changes is None:
            return np.zeros(partial.num_rows, np.bool_)
        empty: Mask = ints(partial, ROWS) <= 0
        return empty

    def sort(self, partial: pa.Table) -> pa.Table:
        """The rows sorted by the leading columns and the keys, which makes stored bytes independent of arrival."""
        if partial.num_rows < 2:
            return partial
        return partial.take(sort_order([column(partial, name) for name in self.lead + self.keys]))

    def results(self, partial: pa.Table) -> list[pa.Array]:
        """The finished aggregates of a merged partial, one array each."""
        return [
            typed(a.final([column(partial, name) for name in names]), a.spec.result_type)
            for a, names in zip(self._aggregates, self._states, strict=True)
        ]

    def key_columns(self, rows: pa.Table) -> list[pa.Array]:
        """The group keys of incoming rows, in the types of the spec."""
        return [
            normalised(typed(column(rows, source), kind))
            for source, kind in zip(self._sources, self._key_types, strict=True)
        ]

    def _inputs(self, rows: pa.Table, number: int) -> list[pa.Array]:
        aggregate = self._aggregates[number]
        spec = aggregate.spec
        values = [typed(column(rows, name), kind) for name, kind in zip(spec.inputs, spec.input_types, strict=True)]
        time = [column(rows, TS)] if aggregate.needs_time else []
        return [*values, *time, *([] if self.changes is None else [self._ops(rows)])]

    def _ops(self, rows: pa.Table) -> pa.Array:
        return typed(column(rows, self.changes or ""), pa.int64())

    def _table(self, columns: Sequence[pa.Array]) -> pa.Table:
        arrays = [typed(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def part_of(aggregate: Aggregate) -> Part:
    spec = aggregate.spec
    return Part(f"{spec.identity} {spec.describe()}", aggregate.state, spec.begun_late)


def _continued(aggregate: Aggregate, table: pa.Table, number: int, part: Part | None) -> list[pa.Array]:
    """The states of an aggregate in a table that may know it, with or without the mark that it began late."""
    if part is None:
        return aggregate.nothing(table.num_rows)
    states = [column(table, f"s{number}_{m}") for m in range(len(part.types))]
    if aggregate.spec.begun_late and not part.begun_late:
        states.append(pa.array(np.zeros(table.num_rows, np.int8)))
    return states


def _split(arrays: list[pa.Array], plans: Sequence[Sequence[Reduction]]) -> list[list[pa.Array]]:
    """The results of all reductions, handed to the aggregates that asked for them."""
    parts, at = [], 0
    for plan in plans:
        parts.append(arrays[at : at + len(plan)])
        at += len(plan)
    return parts
