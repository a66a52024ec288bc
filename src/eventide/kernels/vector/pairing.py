"""Pairs of equal things in two lists in which a thing may occur several times: the n-th of one with the n-th of the
other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eventide.kernels.vector.columns import Ints, Mask, column, combined_rank, is_slow_to_compare, kinds, numbered


def nth_of_its_kind(kinds: Ints) -> Ints:
    """For each place, how many of the same kind stand before it."""
    order = np.argsort(kinds, kind="stable")
    ordered = kinds[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(kinds) else order
    number = np.empty(len(kinds), np.int64)
    number[order] = np.arange(len(kinds)) - np.repeat(begins, np.diff(np.append(begins, len(kinds))))
    return number


def paired(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """The places in both lists that make pairs; kinds are numbers from 0 on."""
    most = max(len(one), len(other)) + 1
    left, right = (kinds * most + nth_of_its_kind(kinds) for kinds in (one, other))
    _, left_at, right_at = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    return left_at, right_at


def paired_rows(
    rows: pa.Table, one: Ints, other: Ints, names: Sequence[str], known: tuple[Ints, Ints] | None = None
) -> tuple[Ints, Ints]:
    """The places in two lists of rows that make pairs: of rows that are equal in these columns, and in numbers that are
    `known` of them. No row may be in a list twice.

    A row that is in both lists is its own partner, unless it is equal to one that is not: few rows are compared at
    all, and fewer in columns that are slow to compare, which come last.
    """
    count, places = len(one), np.concatenate((one, other))
    kind = np.zeros(len(places), np.int64) if known is None else numbered(np.concatenate(known))
    itself = _place_in(other, one, rows.num_rows)
    in_both = np.flatnonzero(itself >= 0)
    itself[in_both[kind[in_both] != kind[count + itself[in_both]]]] = -1
    stays = np.append(itself >= 0, np.isin(np.arange(len(other)), itself))
    items = np.arange(len(places))
    for name in ("", *sorted(names, key=lambda name: is_slow_to_compare(rows.schema.field(name).type))):
        if name:
            kind = combined_rank([kind, kinds(column(rows, name).take(pa.array(places[items])))], len(items))
        is_open = _open_kinds(kind, (~stays[items], items < count, items >= count))[kind]
        items, kind = items[is_open], kind[is_open]
        if len(items) == 0:
            break
    mine, theirs = items < count, items >= count
    at, their_at = paired(kind[mine], kind[theirs])
    stays[items] = False
    alone = np.flatnonzero(stays[:count])
    return np.append(alone, items[mine][at]), np.append(itself[alone], items[theirs][their_at] - count)


def _place_in(other: Ints, one: Ints, most: int) -> Ints:
    """For each number of one list its place in the other, or -1; numbers are less than `most`."""
    place = np.full(most, -1)
    place[other] = np.arange(len(other))
    return place[one]


def _open_kinds(kind: Ints, masks: Sequence[Mask]) -> Mask:
    """Which kinds there are under each of the masks."""
    count = int(kind.max(initial=-1)) + 1
    found: Mask = np.logical_and.reduce([np.bincount(kind[mask], minlength=count) > 0 for mask in masks])
    return found
