"""Grouping of rows: one pass of pyarrow's hash aggregation for all simple reductions, and segments for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.vector.columns import Ints, is_nested, sortable, whole

_AT_LEAST_ONE = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
_POPULATION = pc.VarianceOptions(ddof=0, skip_nulls=True, min_count=1)


@dataclass(frozen=True)
class Reduction:
    """One of pyarrow's hash aggregations over one column (None: over the rows)."""

    function: str
    values: pa.Array | None = None

    def request(self, name: str) -> tuple[Any, ...]:
        if self.values is None:
            return ([], "count_all")
        if self.function == "count":
            return (name, "count", pc.CountOptions(mode="only_valid"))
        return (name, self.function, _POPULATION if self.function == "variance" else _AT_LEAST_ONE)


@dataclass(frozen=True)
class Segments:
    """Which rows belong to which group: `order[starts[g]:starts[g + 1]]` are the rows of group g, in row order."""

    order: Ints
    starts: Ints

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def group(self) -> Ints:
        """For each row, the number of its group."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = np.repeat(np.arange(self.count), np.diff(self.starts))
        return numbers


@dataclass(frozen=True)
class Groups:
    """The result of `group_rows`: the groups' keys, one array per reduction, and the segments if requested."""

    keys: list[pa.Array]
    reduced: list[pa.Array]
    segments: Segments | None


def group_rows(keys: Sequence[pa.Array], reductions: Sequence[Reduction], *, segments: bool) -> Groups:
    """Group rows by at least one key column. How groups are numbered depends only on the key columns."""
    nested = any(is_nested(key.type) for key in keys)
    names = [f"k{n}" for n in range(len(keys))]
    arrays = [sortable(key) for key in keys]
    requests = []
    for n, reduction in enumerate(reductions):
        if reduction.values is not None:
            names.append(f"r{n}")
            arrays.append(reduction.values)
        requests.append(reduction.request(f"r{n}"))
    if segments or nested:
        names.append("row")
        arrays.append(pa.array(np.arange(len(keys[0]))))
        requests.append(("row", "list" if segments else "min", None))
    table = pa.table(arrays, names=names)
    result = table.group_by(names[: len(keys)], use_threads=False).aggregate(requests)
    columns = [whole(found) for found in result.columns]
    rows = _segments(columns[-1]) if segments else None
    group_keys = columns[: len(keys)]
    if nested:
        first = pa.array(rows.order[rows.starts[:-1]]) if rows is not None else columns[-1]
        group_keys = [
            key.take(first) if is_nested(key.type) else found for key, found in zip(keys, group_keys, strict=True)
        ]
    return Groups(group_keys, columns[len(keys) : len(keys) + len(reductions)], rows)


def _segments(rows: pa.ListArray) -> Segments:
    starts = rows.offsets.to_numpy().astype(np.int64)
    return Segments(rows.flatten().to_numpy(), starts - starts[0])
