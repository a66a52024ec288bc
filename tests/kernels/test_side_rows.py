import json
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from eventide.kernels.contract import FROM, TS, InputSpec, Output
from eventide.kernels.side_rows import SideRows, json_objects

NESTED = pa.struct([("d", pa.decimal128(20, 3)), ("l", pa.list_(pa.float64())), ("t", pa.timestamp("us", tz="UTC"))])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.int64(), -3, "-3"),
        (pa.bool_(), True, "true"),
        (pa.float64(), 1.5, "1.5"),
        (pa.float64(), -2.0, "-2.0"),
        (pa.float64(), 1e300, "1e+300"),
        (pa.float64(), float("inf"), '"Infinity"'),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float32(), float("-inf"), '"-Infinity"'),
        (pa.string(), 'say "hi" \\ ü', '"say \\"hi\\" \\\\ ü"'),
        (pa.string(), "tab\there\x00", '"tab\\there\\u0000"'),
        (pa.decimal128(38, 10), Decimal("12345678901234567890.0000000001"), "12345678901234567890.0000000001"),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.date32(), date(2024, 2, 29), '"2024-02-29"'),
        (pa.timestamp("us", tz="UTC"), datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), '"2024-01-02T03:04:05Z"'),
        (
            pa.timestamp("us", tz="Europe/Berlin"),
            datetime(2024, 1, 2, 3, 4, 5, 6000, tzinfo=UTC),
            '"2024-01-02T03:04:05.006000Z"',
        ),
        (pa.timestamp("us"), datetime(2024, 1, 2, 3, 4, 5), '"2024-01-02T03:04:05"'),
        (pa.list_(pa.int32()), [1, None], "[1, null]"),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], '{"a": 1}'),
        (
            NESTED,
            {"d": Decimal("0.100"), "l": [float("nan")], "t": datetime(2024, 1, 1, tzinfo=UTC)},
            '{"d": 0.100, "l": ["NaN"], "t": "2024-01-01T00:00:00Z"}',
        ),
    ],
)
def test_every_type_has_its_json(kind: pa.DataType, value: object, text: str) -> None:
    rows = pa.table({"c": pa.array([value, None], kind)})
    found = json_objects(rows, [("the name", "c")]).to_pylist()
    assert found == [f'{{"the name": {text}}}', '{"the name": null}']
    json.loads(found[0])


def test_several_columns_make_one_object_in_order() -> None:
    rows = pa.table({"a": ["x", "y"], "b": [1, 2]})
    assert json_objects(rows, [("B", "b"), ('"q"', "a")]).to_pylist() == [
        '{"B": 1, "\\"q\\"": "x"}',
        '{"B": 2, "\\"q\\"": "y"}',
    ]


def test_no_columns_make_an_empty_object() -> None:
    assert json_objects(pa.table({"a": [1, 2]}), []).to_pylist() == ["{}", "{}"]


def test_late_rows_that_are_only_counted_leave_no_payload() -> None:
    rows = pa.table({TS: pa.array([1], pa.int64())})
    late, error = Output(), Output()
    SideRows((InputSpec("s"),), store_late=False).put(late, rows, np.array([True]), "late", "r")
    SideRows((InputSpec("s"),), store_late=False).put(error, rows, np.array([True]), "error", "r")
    assert (late.counts["late"], late.side) == (1, [])
    assert (error.counts["error"], [table["source"].to_pylist() for table in error.side]) == (1, [["s"]])


def test_a_payload_names_the_input_that_its_row_came_from() -> None:
    rows = pa.table({TS: pa.array([1, 2, 3], pa.int64()), FROM: pa.array([1, 0, 1], pa.int32())})
    output = Output()
    left = SideRows((InputSpec("a"), InputSpec("b"))).put(output, rows, np.array([True, True, False]), "late", "r")
    assert left[TS].to_pylist() == [3]
    assert [table["source"].to_pylist() for table in output.side] == [["b", "a"]]
