"""Numbers that stand for values: for their order, or only for which of them are equal."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from eventide.kernels.logic.rank import SortKey, ranks, sort_rank
from eventide.kernels.vector.columns import combined_rank, in_one_number, kinds, numbered, order_by
from eventide.kernels.vector.matching import hashes_of, key_numbers

SMALL, LARGE = st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1)
NUMBERS = st.lists(st.one_of(SMALL, LARGE)) | st.lists(SMALL)
NAN = float("nan")


@given(NUMBERS)
def test_numbered_gives_each_value_its_rank_among_the_distinct_ones(values: list[int]) -> None:
    ordered = sorted(set(values))
    assert numbered(np.array(values, np.int64)).tolist() == [ordered.index(value) for value in values]


@given(st.lists(st.tuples(st.one_of(SMALL, LARGE), SMALL, st.one_of(SMALL, LARGE))))
def test_order_by_sorts_by_the_first_column_and_leaves_equal_rows_as_they_come(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array([row[at] for row in rows], np.int64) for at in range(3)]
    assert order_by(columns).tolist() == sorted(range(len(rows)), key=lambda at: rows[at])


@given(st.lists(st.tuples(SMALL, SMALL)))
def test_combined_rank_is_dense_and_in_order(rows: list[tuple[int, int]]) -> None:
    columns = [np.array([row[at] + 3 for row in rows], np.int64) for at in range(2)]
    ordered = sorted(set(rows))
    assert combined_rank(columns, len(rows)).tolist() == [ordered.index(row) for row in rows]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, None, 3, 1, None]),
        pa.array(["b", None, "b", "", None]),
        pa.array([NAN, None, NAN, 0.5, None]),
        pa.array([{"x": 1}, None, {"x": 1}, {"x": None}, None], pa.struct([("x", pa.int64())])),
        pa.array([[1, 2], None, [1, 2], [], None], pa.list_(pa.int64())),
    ],
)
def test_kinds_are_the_same_for_equal_values_only(values: pa.Array) -> None:
    first, nothing, again, other, nothing_again = kinds(values).tolist()
    assert (first, nothing) == (again, nothing_again)
    assert len({first, nothing, other}) == 3


def test_all_nulls_are_of_one_kind() -> None:
    assert len(set(kinds(pa.nulls(3)).tolist())) == 1


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0.0, 1.0, NAN, None]))))
def test_rows_with_equal_keys_have_the_same_number_even_where_hashes_collide(rows: list[tuple[object, object]]) -> None:
    keys = [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.float64())]
    shown = [repr(row) for row in rows]
    for hashes in (hashes_of(keys, len(rows)), np.zeros(len(rows), np.int64)):
        numbers = key_numbers(hashes, keys).tolist()
        assert len(set(zip(numbers, shown, strict=True))) == len(set(numbers)) == len(set(shown))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@given(values=st.lists(st.one_of(st.none(), SMALL, LARGE)))
def test_a_sort_rank_sorts_as_the_key_says(values: list[int | None], descending: bool, nulls_first: bool) -> None:
    found = sort_rank(pa.table({"v": pa.array(values, pa.int64())}), SortKey("v", descending, nulls_first))
    known = [at for at, value in enumerate(values) if value is not None]
    known = sorted(known, key=lambda at: values[at] or 0, reverse=descending)
    nulls = [at for at, value in enumerate(values) if value is None]
    assert order_by([found]).tolist() == (nulls + known if nulls_first else known + nulls)
    assert all((found[one] == found[two]) == (values[one] == values[two]) for one, two in pairwise(known))


def test_ranks_of_several_columns_sort_by_the_first() -> None:
    most, least = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    found = ranks([np.array([most, least, most]), np.array([least, most, least + 1])], 3)
    assert found.tolist() == [1, 0, 2]


def test_numbers_that_do_not_fit_into_one_are_not_put_into_one() -> None:
    near, far = np.array([5, 7, 6]), np.array([0, 1 << 61, 1])
    assert in_one_number([near, far]) is None
    fitting = in_one_number([near, np.array([-3, 4, 1 << 40])])
    assert fitting is not None and np.argsort(fitting).tolist() == [0, 2, 1]
