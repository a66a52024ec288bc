"""Group keys of every type, through every kernel: grouping, hashing, state and back."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eventide.kernels.aggregates import AggregateSpec
from eventide.kernels.contract import Clock, KernelSpec, iter_rows
from eventide.kernels.state.memory_store import MemoryStore
from tests.kernels.harness import COUNT, paned_spec, session_spec, slide_spec, table

NAN = float("nan")
KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["", "a", "ü" * 100, None]),
    (pa.large_string(), ["a", "b", None]),
    (pa.binary(), [b"", b"\x00", None]),
    (pa.bool_(), [True, False, None]),
    (pa.int8(), [-1, 1, None]),
    (pa.float32(), [0.5, NAN, None]),
    (pa.float64(), [0.5, NAN, None]),
    (pa.decimal128(38, 10), [Decimal("1.5"), Decimal("-99999999999999999999.5"), None]),
    (pa.date32(), [date(1960, 1, 1), date(2024, 1, 1), None]),
    (pa.timestamp("us", tz="UTC"), [datetime(1960, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC), None]),
    (pa.timestamp("us"), [datetime(1960, 1, 1), None]),
    (pa.duration("us"), [timedelta(seconds=-1), timedelta(1), None]),
    (pa.list_(pa.string()), [[], ["a"], ["a", None], None]),
    (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64()))]),
        [{"a": 1, "b": [NAN]}, {"a": None, "b": None}, None],
    ),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("a", 2)], None]),
    (pa.null(), [None]),
]
MAKERS: dict[str, Any] = {
    "closing": lambda **keys: paned_spec(10, 10, **keys),
    "changes": lambda **keys: paned_spec(10, 10, emit="changes", **keys),
    "session": lambda **keys: session_spec(100, **keys),
    "slide": lambda **keys: slide_spec(100, 1, **keys),
}


def final_counts(spec: KernelSpec, kind: pa.DataType, values: list[Any]) -> Counter[str]:
    """The last count of each key after two batches that have every key twice."""
    kernel, store = spec.build(), MemoryStore()
    tables = []
    for number in range(2):
        rows = table([(1, "", 0)] * (2 * len(values)))
        rows = rows.set_column(rows.schema.get_field_index("__k0"), "__k0", pa.array(values * 2, kind))
        tables += kernel.on_rows({0: rows}, Clock(None, number), store).main
    tables += kernel.on_time(Clock(10_000, 0), store).main
    assert store.spaces() == []
    counts: dict[str, int] = {}
    for row in iter_rows(tables):
        if row["op"] == 1:
            counts[repr(row["__k0"])] = row["__a0"]  # type: ignore[assignment]
    return Counter(counts)


@pytest.mark.parametrize("kernel", MAKERS)
@pytest.mark.parametrize(("kind", "values"), KEYS, ids=lambda part: str(part) if isinstance(part, pa.DataType) else "")
def test_every_type_can_be_a_key(kernel: str, kind: pa.DataType, values: list[Any]) -> None:
    keys = {"keys": (("k", "__k0"),), "key_types": (kind,), "aggregates": (COUNT,)}
    expected = pa.array(values, kind).to_pylist()
    assert final_counts(MAKERS[kernel](**keys), kind, values) == {repr(value): 4 for value in expected}


def test_an_aggregate_may_be_missing() -> None:
    spec = paned_spec(10, 10, keys=(("k", "__k0"),), key_types=(pa.string(),))
    kernel, store = spec.build(), MemoryStore()
    kernel.on_rows({0: table([(1, "A", 1), (2, "A", 1), (3, "B", 1)])}, Clock(None, 0), store)
    (found,) = kernel.on_time(Clock(10, 0), store).main
    assert found["__k0"].to_pylist() == ["A", "B"]


def test_key_and_input_may_be_one_packed_column() -> None:
    longest = AggregateSpec("__a0", "max", ("__k0",), (pa.string(),), pa.string())
    spec = paned_spec(10, 10, keys=(("k", "__k0"),), key_types=(pa.string(),), aggregates=(longest,))
    kernel, store = spec.build(), MemoryStore()
    kernel.on_rows({0: table([(1, "A", 1)])}, Clock(None, 0), store)
    (found,) = kernel.on_time(Clock(10, 0), store).main
    assert found["__a0"].to_pylist() == ["A"]
