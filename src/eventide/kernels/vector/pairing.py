"""Pairs of equal things in two lists in which a thing may occur several times: the n-th of one with the n-th of the
other."""

from __future__ import annotations

import numpy as np

from eventide.kernels.vector.columns import Ints


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
