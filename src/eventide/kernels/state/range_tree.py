"""Aggregates over many overlapping ranges of rows, each in logarithmic time: a tree of merged partials."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import Aggregation
from eventide.kernels.vector.columns import Ints, ints

_AT_ONCE = 200_000  # ranges


def merged_ranges(aggregation: Aggregation, partials: pa.Table, first: Ints, behind: Ints) -> pa.Table:
    """The merged partial of every range [first, behind) of rows, none of them empty: row n is that of range n.

    `aggregation` has one leading column and no keys; `partials` has its layout, with anything in the leading column.
    """
    tree = _tree(aggregation, partials, int((behind - first).max(initial=0)))
    found = [aggregation.schema.empty_table()]
    for start in range(0, len(first), _AT_ONCE):
        found.append(_merged(aggregation, tree, first[start : start + _AT_ONCE], behind[start : start + _AT_ONCE]))
    return pa.concat_tables(found)


def _tree(aggregation: Aggregation, partials: pa.Table, longest: int) -> list[pa.Table]:
    """Level n holds merged partials of 2 ** n neighbours each; there are as many levels as the longest range needs."""
    tree = [partials]
    while 2 ** len(tree) <= longest:
        below = tree[-1]
        tree.append(_by_lead(aggregation, below, np.arange(below.num_rows) >> 1))
    return tree


def _merged(aggregation: Aggregation, tree: list[pa.Table], first: Ints, behind: Ints) -> pa.Table:
    parts, numbers = [aggregation.schema.empty_table()], [np.empty(0, np.int64)]
    for level, (number, node) in enumerate(_nodes(first, behind)):
        if len(node):
            parts.append(tree[level].take(pa.array(node)))
            numbers.append(number)
    return _by_lead(aggregation, pa.concat_tables(parts), np.concatenate(numbers))


def _nodes(first: Ints, behind: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Level by level, which nodes of the tree make up which range."""
    number, low, high = np.arange(len(first)), first, behind
    while len(number):
        left, right = (low & 1) == 1, (high & 1) == 1
        yield np.concatenate((number[left], number[right])), np.concatenate((low[left], high[right] - 1))
        low, high = (low + 1) >> 1, high >> 1
        left_over = low < high
        number, low, high = number[left_over], low[left_over], high[left_over]


def _by_lead(aggregation: Aggregation, table: pa.Table, lead: Ints) -> pa.Table:
    """The rows merged by new values of the leading column, in that order."""
    merged = aggregation.merge(table.set_column(0, aggregation.lead[0], pa.array(lead)))
    return merged.take(pa.array(np.argsort(ints(merged, aggregation.lead[0]))))
