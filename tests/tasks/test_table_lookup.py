"""What tasks find in a table by keys."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eventide.tasks.expressions import Call, Column, Constant
from eventide.tasks.table_lookup import KeyedTable, LookupKey, TableColumn, TableLookup, TaskLookup

TABLE = pa.table(
    {"id": pa.array([3, 1, None, 3, 2], pa.int32()), "kind": ["x", "y", "x", "x", None], "name": list("abcde")}
)
NAME = TableColumn("name", "__n", "string")
BY_ID = TableLookup("t", (LookupKey(Column("k", "bigint"), "id"),), (NAME,), outer=False)
ROWS = pa.table({"k": pa.array([1, 3, None, 9, 2], pa.int64()), "s": ["y", "x", "x", "y", None]})
KNOWN = pa.table({"number": range(5)})


def found(
    lookup: TableLookup, table: pa.Table = TABLE, keeps: list[bool] | None = None
) -> list[tuple[int, str | None]]:
    task = TaskLookup(lookup, lambda asked: KeyedTable(table, asked)).opened()
    rows, known, kept = task.joined(ROWS, KNOWN, None if keeps is None else pa.array(keeps), None)
    assert rows.num_rows == known.num_rows == len(kept)
    return list(zip(known.filter(kept)["number"].to_pylist(), rows.filter(kept)["__n"].to_pylist(), strict=True))


def test_a_row_comes_once_for_each_that_is_found_and_null_finds_nothing() -> None:
    assert found(BY_ID) == [(0, "b"), (1, "a"), (1, "d"), (4, "e")]


def test_an_outer_lookup_keeps_rows_for_which_nothing_is_found() -> None:
    outer = TableLookup("t", BY_ID.keys, BY_ID.columns, outer=True)
    assert found(outer) == [(0, "b"), (1, "a"), (1, "d"), (2, None), (3, None), (4, "e")]
    assert found(outer, keeps=[False, True, True, False, False]) == [(1, "a"), (1, "d"), (2, None)]


def test_all_of_several_keys_must_be_equal() -> None:
    both = TableLookup("t", (*BY_ID.keys, LookupKey(Column("s", "string"), "kind")), (NAME,), outer=False)
    assert found(both) == [(0, "b"), (1, "a"), (1, "d")]


def test_a_condition_is_of_what_was_found() -> None:
    named = Call("=", (Column("__n", "string"), Constant("d", "string")), "boolean")
    assert found(TableLookup("t", BY_ID.keys, (NAME,), outer=False, condition=named)) == [(1, "d")]


@pytest.mark.parametrize("outer", [False, True])
def test_an_empty_table_has_nothing(outer: bool) -> None:
    lookup = TableLookup("t", BY_ID.keys, (NAME,), outer)
    assert found(lookup, TABLE.slice(0, 0)) == ([(number, None) for number in range(5)] if outer else [])


def test_what_is_no_row_any_more_passes_once() -> None:
    task = TaskLookup(BY_ID, lambda asked: KeyedTable(TABLE, asked))
    passes = pa.array([False, True, True, False, False])
    rows, known, kept = task.joined(ROWS, KNOWN, None, passes)
    assert known.filter(kept)["number"].to_pylist() == [0, 1, 2, 4]
    assert rows.filter(kept)["__n"].to_pylist() == ["b", None, None, "e"]


def test_many_keys_with_many_values_are_not_taken_for_each_other() -> None:
    """Without care numbers for combinations of five keys with thousands of values each do not fit 64 bits."""
    count, names = 10_000, [f"k{number}" for number in range(5)]
    columns = {
        name: pa.array([(row * 7919 + shift) % count for row in range(count)]) for shift, name in enumerate(names)
    }
    table = pa.table({**columns, "name": [str(row) for row in range(count)]})
    lookup = TableLookup("t", tuple(LookupKey(Column(name, "bigint"), name) for name in names), (NAME,), outer=False)
    keyed = KeyedTable(table, lookup)
    first, counts = keyed.found([table[name].combine_chunks() for name in names])
    assert counts.tolist() == [1] * count
    assert keyed.columns[0].take(pa.array(first)).to_pylist() == table["name"].to_pylist()
    strangers = [*(table[name].combine_chunks() for name in names[:-1]), table[names[0]].combine_chunks()]
    assert keyed.found(strangers)[1].sum() == 0
