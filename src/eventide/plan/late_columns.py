"""Which columns of an input only a late row needs, for its payload: they need not be decoded nor travel for others."""

from __future__ import annotations

from eventide.kernels.contract import ORIGINAL
from eventide.plan.physical import AggregateWindows, Input, JoinRows, Physical


def late_only_columns(physical: Physical, input: Input) -> frozenset[str]:
    """Packed columns; none where rows may be put aside for another reason than being late, which is known sooner."""
    if physical.deduplicates or physical.options.max_groups is not None:
        return frozenset()
    originals = {column.name for column in input.packed if column.name.startswith(ORIGINAL)}
    match physical.operator:
        case AggregateWindows():
            return frozenset(originals)
        case JoinRows(left=left, right=right):
            return frozenset(originals - {column.sql for column in (left, right)[input.side]})
        case _:
            return frozenset()
