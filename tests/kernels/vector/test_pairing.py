"""Pairs of equal rows in two lists: the first of a kind with the first, the second with the second."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from eventide.kernels.vector.pairing import paired_rows

VALUES = st.tuples(
    st.sampled_from([0, 1, None]), st.sampled_from(["a", "b", None]), st.sampled_from([float("nan"), 1.0])
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Table, list[int], list[int]]:
    rows = draw(st.lists(VALUES, min_size=1, max_size=8))
    table = pa.table([pa.array(list(values)) for values in zip(*rows, strict=True)], names=["x", "y", "z"])
    lists = st.lists(st.integers(0, len(rows) - 1), unique=True)
    return table, draw(lists), draw(lists)


@given(cases(), st.booleans())
def test_as_many_rows_find_a_partner_as_there_are_equal_ones(
    case: tuple[pa.Table, list[int], list[int]], numbered: bool
) -> None:
    table, one, other = case
    content = [repr(row) for row in table.to_pylist()]
    known = tuple(np.array(some, np.int64) % 2 for some in (one, other)) if numbered else None
    found, partner = paired_rows(table, np.array(one, np.int64), np.array(other, np.int64), ["y", "x", "z"], known)  # type: ignore[arg-type]
    assert len(set(found.tolist())) == len(found) and len(set(partner.tolist())) == len(partner)
    shown = [(content[row], row % 2 if numbered else 0) for row in range(len(content))]
    pairs = [(one[at], other[its]) for at, its in zip(found.tolist(), partner.tolist(), strict=True)]
    assert all(shown[mine] == shown[its] for mine, its in pairs)
    kinds = set(shown)
    expected = sum(
        min([shown[row] for row in one].count(kind), [shown[row] for row in other].count(kind)) for kind in kinds
    )
    assert len(pairs) == expected


def test_equal_rows_are_paired_in_turn_even_if_one_of_them_is_in_both_lists() -> None:
    table = pa.table({"x": [7, 7, 7]})
    found, partner = paired_rows(table, np.array([0, 1]), np.array([1, 2]), ["x"])
    assert sorted(zip(found.tolist(), partner.tolist(), strict=True)) == [(0, 0), (1, 1)]


def test_a_row_that_is_in_both_lists_is_its_own_partner_if_no_other_is_equal() -> None:
    table = pa.table({"x": [7, 7, 8]})
    found, partner = paired_rows(table, np.array([1, 0]), np.array([0, 1, 2]), ["x"])
    assert sorted(zip(found.tolist(), partner.tolist(), strict=True)) == [(0, 1), (1, 0)]


def test_no_row_has_a_partner_in_an_empty_list() -> None:
    table, nothing = pa.table({"x": [1, 2]}), np.empty(0, np.int64)
    for one, other in ((nothing, np.array([0, 1])), (np.array([0, 1]), nothing), (nothing, nothing)):
        assert [part.tolist() for part in paired_rows(table, one, other, ["x"])] == [[], []]
