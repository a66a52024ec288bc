"""Every aggregate compared with a few lines of Python, over partials that were split and merged at random."""

import math
import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eventide.errors import CatalogError, OptionError
from eventide.kernels.aggregates import (
    SUPPORTED,
    AggregateSpec,
    Aggregation,
    UserAggregate,
    aggregates,
    build_aggregate,
)
from eventide.kernels.contract import TS

BIGINT, DOUBLE, STRING = pa.int64(), pa.float64(), pa.string()
NAN = float("nan")


def run(rows: dict[str, pa.Array], specs: list[AggregateSpec], pieces: int, seed: int = 0) -> dict[Any, list[Any]]:
    """Results by group: rows dealt out to `pieces` partials, which are merged in two steps."""
    table = pa.table(rows)
    aggregation = Aggregation(("slice",), ["g"], [STRING], specs)
    owner = np.random.default_rng(seed).integers(0, pieces, table.num_rows)
    partials = []
    for piece in range(pieces):
        part = table.filter(pa.array(owner == piece))
        if part.num_rows:
            partials.append(aggregation.fold(part, [pa.array(np.zeros(part.num_rows, np.int64))]))
    half = max(1, len(partials) // 2)
    halves = [aggregation.merge(pa.concat_tables(some)) for some in (partials[:half], partials[half:]) if some]
    merged = aggregation.sort(aggregation.merge(pa.concat_tables(halves)))
    results = [values.to_pylist() for values in aggregation.results(merged)]
    return {group: [values[n] for values in results] for n, group in enumerate(merged["__k0"].to_pylist())}


def grouped(values: list[Any], times: list[int] | None = None) -> dict[str, pa.Array]:
    count = len(values)
    return {"g": pa.array(["ab"[n % 2] for n in range(count)]), TS: pa.array(times or list(range(count)), BIGINT)}


def one(function: str, values: list[Any], kind: pa.DataType, result: pa.DataType, **more: Any) -> Any:
    """The aggregate of one group, checked to be the same for one partial and for several."""
    times = more.pop("times", None)
    columns = {
        "g": pa.array(["a"] * len(values), STRING),
        TS: pa.array(times or list(range(len(values))), BIGINT),
        "x": pa.array(values, kind),
    }
    spec = AggregateSpec("__a0", function, ("x",), (kind,), result, **more)
    found = [run(columns, [spec], pieces)["a"][0] for pieces in (1, 3)]
    if function[:3] in ("var", "std") and found[0] is not None:
        assert found[0] == pytest.approx(found[1])
    else:
        assert repr(found[0]) == repr(found[1])
    return found[0]


def known(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def py_sum(values: list[Any]) -> Any:
    return sum(known(values)) if known(values) else None


def py_variance(values: list[Any], less: int) -> float | None:
    some = [float(v) for v in known(values)]
    if len(some) <= less:
        return None
    mean = math.fsum(some) / len(some)
    return math.fsum((v - mean) ** 2 for v in some) / (len(some) - less)


def rooted(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


REFERENCE: dict[str, tuple[pa.DataType, Callable[[list[Any]], Any]]] = {
    "count": (BIGINT, lambda v: len(known(v))),
    "sum": (BIGINT, py_sum),
    "avg": (DOUBLE, lambda v: sum(known(v)) / len(known(v)) if known(v) else None),
    "min": (BIGINT, lambda v: min(known(v), default=None)),
    "max": (BIGINT, lambda v: max(known(v), default=None)),
    "var_pop": (DOUBLE, lambda v: py_variance(v, 0)),
    "var_samp": (DOUBLE, lambda v: py_variance(v, 1)),
    "variance": (DOUBLE, lambda v: py_variance(v, 1)),
    "stddev_pop": (DOUBLE, lambda v: rooted(py_variance(v, 0))),
    "stddev": (DOUBLE, lambda v: rooted(py_variance(v, 1))),
    "collect_set": (pa.list_(BIGINT), lambda v: sorted(set(known(v)))),
    "collect_list": (pa.list_(BIGINT), known),
    "first": (BIGINT, lambda v: v[0]),
    "last": (BIGINT, lambda v: v[-1]),
}


@pytest.mark.parametrize("function", REFERENCE)
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_integers_of_two_groups(function: str, pieces: int) -> None:
    chance = random.Random(pieces)
    values = [chance.choice([None, *range(-9, 10)]) for _ in range(61)]
    result, expected = REFERENCE[function]
    spec = AggregateSpec("__a0", function, ("x",), (BIGINT,), result)
    found = run({**grouped(values), "x": pa.array(values, BIGINT)}, [spec], pieces, seed=pieces)
    for n, group in enumerate("ab"):
        want = expected(values[n::2])
        assert found[group][0] == (pytest.approx(want) if isinstance(want, float) else want)


@pytest.mark.parametrize(
    "function", [name for name in REFERENCE if name not in ("first", "last", "collect_list", "collect_set")]
)
def test_distinct_values_count_once(function: str) -> None:
    values = [3, 3, None, 5, 5, 5, -1]
    result, expected = REFERENCE[function]
    want = expected([3, 5, -1])
    assert one(function, values, BIGINT, result, distinct=True) == (
        pytest.approx(want) if isinstance(want, float) else want
    )


TAKES_MORE = {"min_by", "max_by", "percentile_approx", "approx_percentile", "percentile"}


@pytest.mark.parametrize("function", sorted(SUPPORTED - TAKES_MORE))
def test_only_nulls_have_the_same_result_as_in_spark(function: str) -> None:
    kind = pa.bool_() if function in ("bool_and", "bool_or", "every", "some", "any") else BIGINT
    lists = function in ("collect_list", "collect_set", "array_agg")
    result = (
        pa.list_(kind) if lists else DOUBLE if function in ("avg", "mean") or function[:3] in ("var", "std") else kind
    )
    expected = [] if lists else 0 if function in ("count", "approx_count_distinct") else None
    assert one(function, [None, None], kind, result) == expected
    if function != "count":
        assert one(function, [None], kind, result, distinct=True) == expected


def test_integer_sums_are_bigint_and_wrap_around_as_in_spark() -> None:
    assert one("sum", [2**31 - 1, 1], pa.int32(), BIGINT) == 2**31
    assert one("sum", [2**63 - 1, 1], BIGINT, BIGINT) == -(2**63)


def test_floats_of_single_precision_are_summed_in_double() -> None:
    assert one("sum", [0.1, 0.2], pa.float32(), DOUBLE) == float(np.float32(0.1)) + float(np.float32(0.2))


def test_nan_is_the_largest_number() -> None:
    assert math.isnan(one("max", [1.0, NAN, math.inf], DOUBLE, DOUBLE))
    assert one("min", [NAN, math.inf], DOUBLE, DOUBLE) == math.inf
    assert math.isnan(one("min", [NAN, None], DOUBLE, DOUBLE))
    assert one("max", [-1.5, -2.5], pa.float32(), pa.float32()) == -1.5
    assert repr(one("max", [-0.0], DOUBLE, DOUBLE)) == "-0.0"
    assert one("count", [NAN, NAN, 0.0, -0.0], DOUBLE, BIGINT, distinct=True) == 2
    assert math.isnan(one("sum", [1.0, NAN], DOUBLE, DOUBLE))


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (STRING, "Zebra", "ä"),
        (pa.binary(), b"\x00", b"\xff"),
        (pa.bool_(), False, True),
        (pa.date32(), date(1969, 1, 1), date(2024, 2, 29)),
        (pa.timestamp("us", tz="UTC"), datetime(1960, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us"), datetime(1960, 1, 1), datetime(2024, 1, 1)),
        (pa.duration("us"), timedelta(-1), timedelta(1)),
        (pa.decimal128(38, 4), Decimal("-1.0001"), Decimal("1.0001")),
        (pa.int8(), -128, 127),
        (pa.struct([("a", BIGINT), ("b", STRING)]), {"a": 1, "b": None}, {"a": 1, "b": "x"}),
        (pa.list_(BIGINT), [1], [1, 0]),
    ],
)
def test_min_max_and_friends_work_on_every_type(kind: pa.DataType, low: Any, high: Any) -> None:
    values = [high, None, low, high]
    assert one("min", values, kind, kind) == low
    assert one("max", values, kind, kind) == high
    assert one("count", values, kind, BIGINT, distinct=True) == 2
    assert one("collect_set", values, kind, pa.list_(kind)) == [low, high]
    assert one("collect_list", values, kind, pa.list_(kind)) == [high, low, high]
    assert one("approx_count_distinct", values, kind, BIGINT) == 2
    assert one("first", values, kind, kind) == high
    assert one("last", values[:3], kind, kind) == low


def test_decimal_sums_and_averages_are_exact() -> None:
    values = [Decimal("0.10"), Decimal("0.20"), None, Decimal("99999999.99")]
    kind = pa.decimal128(10, 2)
    assert one("sum", values, kind, pa.decimal128(20, 2)) == Decimal("100000000.29")
    exact = (Decimal("100000000.29") / 3).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    assert one("avg", values, kind, pa.decimal128(14, 6)) == exact
    assert one("avg", [Decimal("-0.01"), Decimal("-0.02")], kind, pa.decimal128(14, 6)) == Decimal("-0.015000")
    assert one("sum", values[:1] * 3, kind, pa.decimal128(20, 2), distinct=True) == Decimal("0.10")


def test_a_decimal_that_does_not_fit_is_null() -> None:
    assert one("sum", [Decimal("9.9"), Decimal("9.9")], pa.decimal128(2, 1), pa.decimal128(2, 1)) is None


def test_a_decimal_sum_that_exceeds_38_digits_on_the_way_is_right_and_one_that_ends_there_is_null() -> None:
    kind, big = pa.decimal128(38, 0), Decimal(9 * 10**37)
    assert one("sum", [big, big], kind, kind) is None
    assert one("sum", [big, None, big, -big], kind, kind) == big
    assert one("avg", [big, big], kind, pa.decimal128(38, 4)) is None
    small = Decimal("-1.5")
    assert one("avg", [small, small, Decimal("-1.4")], pa.decimal128(38, 1), pa.decimal128(38, 5)) == Decimal(
        "-1.46667"
    )
    assert one("avg", [None], pa.decimal128(38, 1), pa.decimal128(38, 5)) is None


def test_the_average_of_large_decimals_keeps_its_digits() -> None:
    big = Decimal("12345678901234567890123456789.1234")
    assert one("avg", [big, big, big], pa.decimal128(33, 4), pa.decimal128(37, 8)) == big


def test_count_over_several_columns_wants_all_of_them() -> None:
    rows = {**grouped([0] * 4), "x": pa.array([1, None, 1, 2]), "y": pa.array(["p", "q", "p", None])}
    rows["g"] = pa.array(["a"] * 4)
    plain = AggregateSpec("__a0", "count", ("x", "y"), (BIGINT, STRING), BIGINT)
    distinct = AggregateSpec("__a1", "count", ("x", "y"), (BIGINT, STRING), BIGINT, True)
    star = AggregateSpec("__a2", "count", (), (), BIGINT)
    assert run(rows, [plain, distinct, star], 2)["a"] == [2, 1, 4]


def test_variance_is_stable_far_from_zero() -> None:
    values = [1e9 + n % 3 for n in range(300)]
    assert one("var_pop", values, DOUBLE, DOUBLE) == pytest.approx(2 / 3, rel=1e-9)
    assert one("var_samp", [1.0], DOUBLE, DOUBLE) is None
    assert one("var_pop", [1.0], DOUBLE, DOUBLE) == 0.0


def test_first_and_last_go_by_event_time_and_ties_by_value() -> None:
    assert one("first", [5, 7, 6], BIGINT, BIGINT, times=[3, 1, 1]) == 6
    assert one("last", [5, 7, 6], BIGINT, BIGINT, times=[1, 3, 3]) == 7
    assert one("first", [None, 7], BIGINT, BIGINT) is None
    assert one("first", [None, 7], BIGINT, BIGINT, parameters=("true",)) == 7
    assert one("last", [7, None], BIGINT, BIGINT, parameters=("IGNORE NULLS",)) == 7


@pytest.mark.parametrize(("function", "expected"), [("min_by", ["z", "y"]), ("max_by", ["x", None])])
def test_min_by_and_max_by(function: str, expected: list[str | None]) -> None:
    rows = {
        "g": pa.array(["a", "a", "a", "a", "b", "b"]),
        TS: pa.array(range(6), BIGINT),
        "x": pa.array(["x", "y", "z", "n", "y", None]),
        "y": pa.array([3.0, 2.0, 1.0, None, 1.0, NAN]),
    }
    spec = AggregateSpec("__a0", function, ("x", "y"), (STRING, DOUBLE), STRING)
    for pieces in (1, 3):
        found = run(rows, [spec], pieces)
        assert [found["a"][0], found["b"][0]] == expected


def test_both_zeros_are_equal_in_the_order_of_min_by() -> None:
    order = pa.struct([("d", DOUBLE), ("n", BIGINT)])
    rows = {
        **{"g": pa.array(["a"] * 3), TS: pa.array(range(3), BIGINT), "x": pa.array(["x", "y", "z"])},
        "y": pa.array([{"d": -0.0, "n": 2}, {"d": 0.0, "n": 1}, {"d": -0.0, "n": 3}], order),
    }
    for function, expected in (("min_by", "y"), ("max_by", "z")):
        spec = AggregateSpec("__a0", function, ("x", "y"), (STRING, order), STRING)
        assert [run(rows, [spec], pieces)["a"][0] for pieces in (1, 3)] == [expected, expected]


def test_rows_that_a_filter_leaves_out_are_neither_first_nor_last() -> None:
    rows = {
        **{"g": pa.array(["a"] * 4), TS: pa.array(range(4), BIGINT), "x": pa.array([1, None, 3, 4])},
        "c": pa.array([False, True, True, None]),
    }
    for function, expected in (("first", None), ("last", 3)):
        spec = AggregateSpec("__a0", function, ("x", "c"), (BIGINT, pa.bool_()), BIGINT, parameters=("filtered",))
        assert [run(rows, [spec], pieces)["a"][0] for pieces in (1, 3)] == [expected, expected]


def test_averages_of_intervals_are_rounded_half_up() -> None:
    kind = pa.duration("us")
    assert one("avg", [timedelta(microseconds=1), timedelta(microseconds=2), None], kind, kind) == timedelta(
        microseconds=2
    )
    assert one("avg", [timedelta(microseconds=-1), timedelta(microseconds=-2)], kind, kind) == timedelta(
        microseconds=-2
    )
    assert one("avg", [timedelta(microseconds=1)] * 2 + [timedelta()], kind, kind) == timedelta(microseconds=1)
    assert one("avg", [None], kind, kind) is None
    assert one("sum", [timedelta(days=1), timedelta(hours=-1)], kind, kind) == timedelta(hours=23)


def test_booleans() -> None:
    assert one("bool_and", [True, None, False], pa.bool_(), pa.bool_()) is False
    assert one("bool_or", [True, None, False], pa.bool_(), pa.bool_()) is True
    assert one("every", [True, None], pa.bool_(), pa.bool_()) is True


@pytest.mark.parametrize("count", [1, 10, 300, 2000, 100_000])
def test_approximate_distinct_counts_are_near(count: int) -> None:
    values = [f"value {n}" for n in range(count)] * (2 if count < 50_000 else 1)
    assert one("approx_count_distinct", values, STRING, BIGINT) == pytest.approx(count, rel=0.15)
    assert one("approx_count_distinct", values, STRING, BIGINT, parameters=("0.01",)) == pytest.approx(count, rel=0.03)


def test_percentiles_of_small_data_are_exact() -> None:
    call = {"parameters": ("0.5",)}
    assert one("percentile_approx", [10, 0, None, 2, 1], BIGINT, BIGINT, **call) == 1
    assert one("percentile_approx", [None], BIGINT, BIGINT, **call) is None
    shares = {"parameters": ("array(0.0, 0.25, 1)", "100")}
    assert one("percentile_approx", list(range(11)), BIGINT, pa.list_(BIGINT), **shares) == [0, 2, 10]
    assert one("approx_percentile", [date(2024, 1, n) for n in (1, 2, 3)], pa.date32(), pa.date32(), **call) == date(
        2024, 1, 2
    )


def test_exact_percentiles_lie_between_two_values() -> None:
    assert one("median", [3, 1, 10, 7, None], BIGINT, DOUBLE) == 5.0
    assert one("median", [5, 5, 5], BIGINT, DOUBLE) == 5.0
    assert one("median", [1, 1, 2], BIGINT, DOUBLE, distinct=True) == 1.5
    assert one("median", [NAN, 1.0, 2.0, -0.0], DOUBLE, DOUBLE) == 1.5
    assert math.isnan(one("percentile", [NAN, 1.0], DOUBLE, DOUBLE, parameters=("1.0",)))
    assert one("median", [Decimal("1.25"), Decimal("2.50")], pa.decimal128(10, 2), DOUBLE) == 1.875
    day = timedelta(days=1)
    assert one("median", [day, 2 * day], pa.duration("us"), pa.duration("us")) == 1.5 * day
    shares = {"parameters": ("array(0.0, 0.3, 1.0)",)}
    assert one("percentile", [3, 1, 10, 7, None], BIGINT, pa.list_(DOUBLE), **shares) == [1.0, 2.8, 10.0]
    assert one("percentile", [None], BIGINT, pa.list_(DOUBLE), **shares) is None
    assert one("percentile", [None], BIGINT, DOUBLE, parameters=("0.5",)) is None


def test_percentiles_of_several_groups_do_not_mix() -> None:
    values = [1, 100, 2, 200, 3, 300]
    rows = {**grouped(values), "x": pa.array(values, BIGINT)}
    specs = [
        AggregateSpec(f"__a{n}", name, ("x",), (BIGINT,), kind)
        for n, (name, kind) in enumerate([("median", DOUBLE), ("mode", BIGINT)])
    ]
    assert run(rows, specs, 2) == {"a": [2.0, 1], "b": [200.0, 100]}


def test_the_mode_is_the_most_frequent_value_and_of_several_the_smallest() -> None:
    assert one("mode", [3, 1, 3, 1, 2], BIGINT, BIGINT) == 1
    assert one("mode", ["b", "a", "b", None, None, None], STRING, STRING) == "b"
    assert one("mode", [[2], [1], [2]], pa.list_(BIGINT), pa.list_(BIGINT)) == [2]


def test_percentiles_of_large_data_are_near() -> None:
    values = np.random.default_rng(3).permutation(200_000).tolist()
    found = one_of_many(values, ("[0.01, 0.5, 0.99]", "1000"))
    for got, share in zip(found, (0.01, 0.5, 0.99), strict=True):
        assert abs(got - share * 200_000) <= 200_000 / 1000


def one_of_many(values: list[int], parameters: tuple[str, ...]) -> list[int]:
    spec = AggregateSpec("__a0", "percentile_approx", ("x",), (BIGINT,), pa.list_(BIGINT), parameters=parameters)
    rows = {"g": pa.array(["a"] * len(values)), TS: pa.array(range(len(values)), BIGINT), "x": pa.array(values, BIGINT)}
    found: list[int] = run(rows, [spec], 9)["a"][0]
    return found


def times(state: int, rows: pa.RecordBatch) -> int:
    return state * math.prod(value for value in rows.column(0).to_pylist() if value is not None)


@pytest.fixture
def product() -> Iterator[UserAggregate]:
    aggregates.register("Product", lambda: 1, times, lambda one, other: one * other)
    yield aggregates.resolve("PRODUCT")
    aggregates.forget("product")


def test_a_user_defined_aggregate(product: UserAggregate) -> None:
    call = {"user": product, "state_type": BIGINT}
    assert (product.returns, product.state, aggregates.list(), "PRODUCT" in aggregates) == (
        "bigint",
        "bigint",
        ["product"],
        True,
    )
    assert one("product", [2, None, 3, 7], BIGINT, BIGINT, **call) == 42
    assert one("product", [2, 2, 3], BIGINT, BIGINT, **call) == 12
    assert one("product", [2, 2, 3], BIGINT, BIGINT, distinct=True, **call) == 6


def test_a_filter_leaves_rows_out_of_a_user_defined_aggregate(product: UserAggregate) -> None:
    rows = {
        **grouped([0] * 6),
        "x": pa.array([2, 3, 5, 7, 11, 13]),
        "c": pa.array([True, False, None, False, True, False]),
    }
    spec = AggregateSpec(
        "__a0", "product", ("x", "c"), (BIGINT, pa.bool_()), BIGINT, False, ("filtered",), product, BIGINT
    )
    for pieces in (1, 3):
        assert run(rows, [spec], pieces) == {"a": [22], "b": [1]}


def test_names_and_functions_of_user_defined_aggregates_are_checked() -> None:
    functions: tuple[Any, ...] = (lambda: 1, times, lambda one, other: one * other)
    with pytest.raises(CatalogError, match="own"):
        aggregates.register("SUM", *functions)
    with pytest.raises(OptionError, match="cannot be called 'a b'"):
        aggregates.register("a b", *functions)
    with pytest.raises(OptionError, match="merge is not a function"):
        aggregates.register("product", *functions[:2], None)  # type: ignore[arg-type]
    with pytest.raises(CatalogError, match=r"no aggregate produkt[\s\S]*register"):
        aggregates.resolve("produkt")


def test_unknown_functions_and_parameters_are_refused() -> None:
    with pytest.raises(OptionError, match=r"no aggregate sam[\s\S]*did you mean sum"):
        build_aggregate(AggregateSpec("__a0", "sam", ("x",), (BIGINT,), BIGINT))
    with pytest.raises(OptionError, match="from 0 to 1"):
        build_aggregate(AggregateSpec("__a0", "percentile_approx", ("x",), (BIGINT,), BIGINT, parameters=("50",)))
    with pytest.raises(OptionError, match="needs a number"):
        build_aggregate(AggregateSpec("__a0", "percentile_approx", ("x",), (BIGINT,), BIGINT))


def test_a_sum_of_integers_is_exact_where_its_result_is_a_decimal() -> None:
    most = 2**63 - 1
    assert one("sum", [most, most, 1], BIGINT, pa.decimal128(38, 0)) == Decimal(2 * most + 1)
    assert one("sum", [most, 1], BIGINT, BIGINT) == -(2**63)
