"""What the snapshots hold: for each kernel a spec, the steps up to the snapshot, and those that follow a restore.

A case must stay as it is once a release has written it; new ones are added beside it. See docs/state.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from eventide.kernels.aggregates import AggregateSpec, UserAggregate
from eventide.kernels.contract import KernelSpec
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.kernels.logic.over import OverSpec
from eventide.kernels.logic.over_changes import OverChangesSpec
from eventide.kernels.logic.rank import SortKey
from eventide.kernels.logic.rank_changes import RankChangesSpec
from eventide.kernels.logic.windowed import WindowedAggregation
from eventide.plan.joins import (
    AnyTime,
    Asof,
    Interval,
    JoinBound,
    Nearest,
    OverlappingPanes,
    OverlappingSessions,
    SameWindow,
)
from eventide.plan.modes import EmitMode, RankFunction
from eventide.plan.windows import (
    Calendar,
    CalendarUnit,
    Cumulate,
    Frame,
    Hop,
    RangeFrame,
    RowsFrame,
    Tumble,
    Unbounded,
)
from tests.kernels import harness
from tests.kernels.harness import (
    BIGINT,
    DOUBLE,
    KEYED,
    KEYED_SUMS,
    STRING,
    Driver,
    Row,
    cumulating_spec,
    join_spec,
    paned_spec,
    session_spec,
    slide_spec,
)

Step = Callable[[Driver], Any]
DECIMAL, BOOLEAN, DATE = pa.decimal128(10, 2), pa.bool_(), pa.date32()


def batch(*rows: Row, watermark: int | None = None, right: Sequence[Row] = ()) -> Step:
    return lambda driver: driver.batch(list(rows), watermark, list(right))


def advance(watermark: int) -> Step:
    return lambda driver: driver.advance(watermark)


def tick(driver: Driver) -> None:
    driver.tick(driver.now + 1)


def flush(driver: Driver) -> None:
    driver.flush()


@dataclass(frozen=True)
class Case:
    spec: KernelSpec
    before: list[Step]
    after: list[Step]
    pack: Callable[[list[Row]], pa.Table] = field(default=harness.table)

    def driver(self) -> Driver:
        return Driver(self.spec, pack=self.pack)


def wide(rows: list[Row]) -> pa.Table:
    """The harness's rows with inputs of more types, all made from the value."""
    values = [row[2] for row in rows]
    narrow = harness.table(rows)

    def column(make: Callable[[int], Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if value is None else make(value) for value in values], kind)

    return (
        narrow.append_column("__i1", column(lambda v: v % 2 == 0, BOOLEAN))
        .append_column("__i2", column(lambda v: v / 2, DOUBLE))
        .append_column("__i3", column(lambda v: Decimal(v).scaleb(-2), DECIMAL))
        .append_column("__i4", column(lambda v: "abc"[v % 3] * (v % 4), STRING))
        .append_column("__i5", column(lambda v: v * 100, DATE))
    )


def times(state: int, rows: pa.RecordBatch) -> int:
    for value in rows.column(0).to_pylist():
        state *= value or 1
    return state


PRODUCT = UserAggregate(lambda: 1, times, lambda one, other: one * other, lambda state: state, "bigint", "bigint")

# (function, inputs, result, more)
Calls = list[tuple[str, tuple[str, ...], pa.DataType, dict[str, Any]]]
CALLS: Calls = [
    ("count", (), BIGINT, {}),
    ("count", ("__i0", "__i4"), BIGINT, {"distinct": True}),
    ("sum", ("__i0",), BIGINT, {}),
    ("sum", ("__i2",), DOUBLE, {}),
    ("sum", ("__i3",), pa.decimal128(20, 2), {}),
    ("sum", ("__i2",), DOUBLE, {"distinct": True}),
    *[(name, ("__i3",), pa.decimal128(14, 6), {}) for name in ("avg", "mean")],
    *[(name, ("__i2",), DOUBLE, {}) for name in ("min", "max", "avg")],
    *[(name, ("__i4",), STRING, {}) for name in ("min", "max")],
    *[(name, ("__i1",), BOOLEAN, {}) for name in ("bool_and", "every", "bool_or", "some", "any")],
    *[(f"var{name}", ("__i2",), DOUBLE, {}) for name in ("_pop", "_samp", "iance")],
    *[(f"std{name}", ("__i2",), DOUBLE, {}) for name in ("dev", "", "dev_pop", "dev_samp")],
    *[(name, ("__i4",), STRING, {}) for name in ("first", "first_value", "any_value", "last", "last_value")],
    ("first", ("__i0", "__i1"), BIGINT, {"parameters": ("filtered",)}),
    *[(name, ("__i5", "__i2"), DATE, {}) for name in ("min_by", "max_by")],
    *[(name, ("__i0",), pa.list_(BIGINT), {}) for name in ("collect_list", "array_agg", "collect_set")],
    ("approx_count_distinct", ("__i4",), BIGINT, {}),
    *[(name, ("__i0",), BIGINT, {"parameters": ("0.5",)}) for name in ("percentile_approx", "approx_percentile")],
    ("product", ("__i0",), BIGINT, {"user": PRODUCT, "state_type": BIGINT}),
]
COUNTED_CALLS: Calls = [  # apart, since the state of the others is kept as it was
    ("median", ("__i2",), DOUBLE, {}),
    ("percentile", ("__i0",), pa.list_(DOUBLE), {"parameters": ("array(0.1, 0.9)",)}),
    ("mode", ("__i4",), STRING, {}),
]
_TYPES = {"__i0": BIGINT, "__i1": BOOLEAN, "__i2": DOUBLE, "__i3": DECIMAL, "__i4": STRING, "__i5": DATE}


def aggregates_of(calls: Calls) -> tuple[AggregateSpec, ...]:
    return tuple(
        AggregateSpec(f"__a{number}", function, inputs, tuple(_TYPES[name] for name in inputs), result, **more)
        for number, (function, inputs, result, more) in enumerate(calls)
    )


def panes(size: int, slide: int, **more: Any) -> WindowedAggregation:
    return paned_spec(size, slide, **{**KEYED_SUMS, **more})


SOME = [batch((1, "A", 1), (2, "B", 5), (11, "A", 3)), batch((3, "A", None), (4, "Ü", 2), (12, "B", 4), watermark=2)]
MORE = [batch((5, "A", 8), (13, "B", 1), watermark=4), batch((21, "C", 9), watermark=10), advance(99)]
MANY = [
    batch(*[(n * 7 % 900, "ABC"[n % 3], n) for n in range(start, start + 20)], watermark=start * 9)
    for start in (0, 20, 40)
]
WIDE = {**KEYED, "aggregates": aggregates_of(CALLS)}
COUNTED = {**KEYED, "aggregates": aggregates_of(COUNTED_CALLS)}

# Rows of two sides: some match at once, some later, some never; the keys of a few are NULL.
MEETING = [
    batch((1, "A", 1), (2, "B", 5), (11, "A", 3), right=[(3, "A", 7), (14, None, 8)]),
    batch((4, "Ü", 2), (12, None, 4), watermark=2, right=[(2, "Ü", 9), (13, "B", 1), (16, "A", 6)]),
]
MEETING_MORE = [
    batch((5, "A", 8), (13, "B", 1), watermark=4, right=[(6, "B", 2), (12, "A", 3)]),
    batch((21, "C", 9), watermark=10, right=[(20, "C", 4), (1, "A", 5)]),
    advance(99),
]


def joined(bound: JoinBound, kind: str = "full", *steps: Step, **more: Any) -> Case:
    return Case(join_spec(bound, kind, **more), [*MEETING, *steps], MEETING_MORE)


JOINS = {
    "join_tumble": joined(SameWindow(Tumble(10))),
    "join_tumble_at_close": joined(SameWindow(Tumble(10)), "inner", at_close=True),
    "join_tumble_flushed": joined(SameWindow(Tumble(10)), "left", flush),
    "join_hop": joined(SameWindow(Hop(10, 4, 1))),
    "join_cumulate_semi": joined(SameWindow(Cumulate(20, 5)), "left semi"),
    "join_panes": joined(OverlappingPanes(Tumble(10), Hop(8, 4))),
    "join_interval": joined(Interval(-3, 5), lateness=2),
    "join_interval_anti": joined(Interval(-3, 5), "left anti"),
    "join_sessions": joined(OverlappingSessions(5)),
    "join_sessions_flushed": joined(OverlappingSessions(5), "left", flush),
    "join_asof": joined(Asof(), "left"),
    "join_asof_after": joined(Asof(Nearest.AFTER, tolerance=30), "left"),
    "join_asof_either": joined(Asof(Nearest.EITHER), "inner"),
    "join_any_time": joined(AnyTime(ttl=200), "full"),
    "join_any_time_inner": joined(AnyTime(ttl=200), "inner"),
}

PACKED = (("__k0", STRING), ("__i0", BIGINT))
RANKED = RankChangesSpec(
    RankFunction.ROW_NUMBER,
    partition=("__k0",),
    order=(SortKey("__i0", descending=True),),
    originals=KEYED["originals"],
    types=PACKED,
    first=1,
    last=2,
    shows_place=True,
    shown=("__i0",),
)


def over(frame: Frame) -> OverSpec:
    return OverSpec(frame, ("__k0",), KEYED["originals"], PACKED, KEYED_SUMS["aggregates"])


CASES = {
    "tumble": Case(panes(10, 10), SOME, MORE),
    "tumble_every_aggregate": Case(paned_spec(10, 10, **WIDE), SOME, MORE, wide),
    "tumble_counted_aggregates": Case(paned_spec(10, 10, **COUNTED), SOME, MORE, wide),
    "session_counted_aggregates": Case(session_spec(5, **COUNTED), SOME, MORE, wide),
    "tumble_key_types": Case(
        paned_spec(10, 10, **{**KEYED_SUMS, "keys": (("d", "__i3"), ("y", "__i5")), "key_types": (DECIMAL, DATE)}),
        SOME,
        MORE,
        wide,
    ),
    "tumble_without_keys": Case(panes(10, 10, keys=(), key_types=()), SOME, MORE),
    "tumble_flushed": Case(panes(10, 10), [*SOME, flush], MORE),
    "tumble_backfill": Case(panes(10, 10), [batch(*[(n * 10, "A", n) for n in range(40)])], MORE),
    "hop": Case(panes(10, 4, offset=1), SOME, MORE),
    "hop_shared_slices": Case(panes(500, 10), MANY, [batch((901, "A", 1), watermark=700), advance(5000)]),
    "cumulate": Case(cumulating_spec(20, 5, **KEYED_SUMS), SOME, MORE),
    "cumulate_changes": Case(cumulating_spec(20, 5, **KEYED_SUMS, emit="changes"), SOME, MORE),
    "hop_changes": Case(panes(10, 4, emit="changes"), SOME, MORE),
    "tumble_changes": Case(panes(10, 10, emit="changes"), SOME, MORE),
    "tumble_on_update": Case(panes(10, 10, emit="on update", lateness=5), SOME, MORE),
    "tumble_on_watermark": Case(
        panes(10, 10, emit="on watermark", lateness=50), [*SOME, batch((4, "A", 1), watermark=12)], MORE
    ),
    "tumble_every": Case(panes(10, 10, emit="every", every=1), [*SOME, tick, batch((6, "B", 1))], [tick, *MORE]),
    "tumble_max_groups": Case(panes(10, 10, max_groups=2), SOME, MORE),
    "session": Case(session_spec(5, **KEYED_SUMS), SOME, MORE),
    "session_every_aggregate": Case(session_spec(5, **WIDE), SOME, MORE, wide),
    "session_changes": Case(session_spec(5, **KEYED_SUMS, emit="changes", lateness=3), SOME, MORE),
    "session_every": Case(session_spec(5, **KEYED_SUMS, emit="every", every=1), [*SOME, tick], [tick, *MORE]),
    "session_flushed": Case(session_spec(5, **KEYED_SUMS), [*SOME, flush], MORE),
    "slide": Case(slide_spec(4, **KEYED_SUMS), SOME, MORE),
    "slide_ahead": Case(slide_spec(4, 6, **KEYED_SUMS), SOME, MORE),
    "slide_every_aggregate": Case(slide_spec(4, 6, **WIDE), SOME, MORE, wide),
    "forward_ordered": Case(ForwardSpec(KEYED["originals"], (STRING, BIGINT), ordered=True), SOME, MORE),
    "dedup": Case(
        IntakeSpec(panes(10, 10), dedup_within=(20,)),
        [batch((1, "A", 1, "x"), (2, "B", 5, "y")), batch((3, "A", 2, "x"), (4, "A", 2, None), watermark=2)],
        [batch((5, "A", 8, "y"), (6, "A", 8, "z"), watermark=4), advance(99)],
    ),
    "unbounded": Case(WindowedAggregation(Unbounded(ttl=50), **KEYED_SUMS, emit=EmitMode.CHANGES), SOME, MORE),
    "rank_changes": Case(RANKED, SOME, MORE),
    "over_range": Case(over(RangeFrame(10)), SOME, MORE),
    "over_rows": Case(over(RowsFrame(1)), SOME, MORE),
    "over_everything": Case(over(RangeFrame()), SOME, MORE),
    "over_changes": Case(
        OverChangesSpec(
            RowsFrame(1),
            ("__k0",),
            (SortKey("__i0"),),
            KEYED["originals"],
            PACKED,
            KEYED_SUMS["aggregates"],
            shown=("__i0",),
        ),
        SOME,
        MORE,
    ),
    "calendar": Case(
        WindowedAggregation(Calendar(CalendarUnit.DAY, 1, "Europe/Berlin"), **KEYED_SUMS),
        SOME,
        [*MORE, advance(3 * 86_400_000_000)],
    ),
    **JOINS,
}
