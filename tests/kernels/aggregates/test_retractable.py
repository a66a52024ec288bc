"""Aggregates over change logs: what is left when rows were taken back is what the rest alone would give."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eventide.errors import OptionError
from eventide.kernels.aggregates import SUPPORTED, AggregateSpec, Aggregation, can_retract
from eventide.kernels.contract import TS

BIGINT, DOUBLE, STRING, TRUTH = pa.int64(), pa.float64(), pa.string(), pa.bool_()
NAN, INF = float("nan"), float("inf")

CASES = [
    ("count", BIGINT, BIGINT, {}),
    ("sum", BIGINT, BIGINT, {}),
    ("sum", pa.decimal128(10, 2), pa.decimal128(20, 2), {}),
    ("avg", BIGINT, DOUBLE, {}),
    ("avg", pa.decimal128(10, 2), pa.decimal128(14, 6), {}),
    ("min", BIGINT, BIGINT, {}),
    ("max", STRING, STRING, {}),
    ("max", DOUBLE, DOUBLE, {}),
    ("count", BIGINT, BIGINT, {"distinct": True}),
    ("sum", BIGINT, BIGINT, {"distinct": True}),
    ("first", BIGINT, BIGINT, {}),
    ("last", STRING, STRING, {"parameters": ("ignore nulls",)}),
    ("stddev_pop", BIGINT, DOUBLE, {}),
    ("median", BIGINT, DOUBLE, {}),
    ("mode", BIGINT, BIGINT, {}),
    ("bool_and", TRUTH, TRUTH, {}),
    ("bool_or", TRUTH, TRUTH, {}),
    ("collect_set", BIGINT, pa.list_(BIGINT), {}),
]
CHOICES: dict[pa.DataType, list[Any]] = {
    BIGINT: [None, -3, 0, 1, 2, 7],
    DOUBLE: [None, -1.5, 0.25, 2.0, NAN, INF],
    STRING: [None, "a", "b", "ä"],
    TRUTH: [None, True, False],
    pa.decimal128(10, 2): [None, Decimal("1.10"), Decimal("-2.25"), Decimal("9.99")],
}


def results(rows: list[tuple[int, Any, int]], spec: AggregateSpec, pieces: int, changes: str | None) -> tuple[Any, int]:
    """(result of one group, rows left); rows are (time, value, op), dealt out to partials."""
    kind = spec.input_types[0]
    aggregation = Aggregation(("slice",), [], [], [spec], (), changes)
    size = -(-len(rows) // pieces)
    partials = []
    for start in range(0, len(rows), size):
        times, values, ops = zip(*rows[start : start + size], strict=True)
        table = pa.table({TS: pa.array(times, BIGINT), "x": pa.array(values, kind), "__c0": pa.array(ops, pa.int32())})
        partials.append(aggregation.fold(table, [pa.array(np.zeros(len(times), np.int64))]))
    merged = aggregation.merge(pa.concat_tables(partials))
    left = merged["rows"].to_pylist()[0] if changes else len(rows)
    return aggregation.results(merged)[0].to_pylist()[0], left


@pytest.mark.parametrize(("function", "kind", "result", "more"), CASES, ids=[f"{c[0]}({c[1]}){c[3]}" for c in CASES])
@pytest.mark.parametrize("pieces", [1, 3])
def test_what_is_left_is_what_the_rest_alone_gives(
    function: str, kind: Any, result: Any, more: Any, pieces: int
) -> None:
    spec = AggregateSpec("__a0", function, ("x",), (kind,), result, **more)
    for seed in range(30):
        chance = random.Random(seed)
        added = [(chance.randrange(5), chance.choice(CHOICES[kind]), 1) for _ in range(chance.randrange(2, 12))]
        taken = chance.sample(added, chance.randrange(len(added)))
        rest = list(added)
        for row in taken:
            rest.remove(row)
        log = [*added, *((time, value, -1) for time, value, _ in taken)]
        found, left = results(log, spec, pieces, "__c0")
        wanted, _ = results(rest, spec, 1, None)
        assert left == len(rest)
        same = found == wanted or (isinstance(found, float) and math.isclose(found, wanted, abs_tol=1e-9))
        assert same or (found != found and wanted != wanted), (log, found, wanted)


@pytest.mark.parametrize(
    ("left", "total"), [([1.5, NAN], NAN), ([INF], INF), ([INF, -INF], NAN), ([0.5, 0.25], 0.75), ([], None)]
)
def test_sums_of_what_is_not_finite_can_be_taken_back(left: list[float], total: float | None) -> None:
    spec = AggregateSpec("__a0", "sum", ("x",), (DOUBLE,), DOUBLE)
    odd = [(0, value, op) for value in (NAN, INF, -INF) for op in (1, -1)]
    found, _ = results([*odd, *((0, value, 1) for value in left)], spec, 2, "__c0")
    assert found == total or (total is not None and math.isnan(total) and math.isnan(found))


@pytest.mark.parametrize("function", sorted(name for name in SUPPORTED if not can_retract(name)))
def test_others_are_refused_by_name(function: str) -> None:
    spec = AggregateSpec("__a0", function, ("x",), (BIGINT,), BIGINT, parameters=("0.5",))
    with pytest.raises(OptionError, match=f"{function} cannot take rows back") as refused:
        Aggregation(("slice",), [], [], [spec], (), "__c0")
    assert refused.value.help
