"""Joins over the whole input, where nothing is late, against DuckDB."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from eventide.kernels.contract import SEQ, TS, Clock
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.joins import Asof, Interval, JoinBound, Nearest, SameWindow
from eventide.plan.windows import Tumble
from tests.kernels.harness import join_spec, table

FAR = 10**6
KINDS = {"inner": "INNER", "left": "LEFT", "right": "RIGHT", "full": "FULL", "left semi": "SEMI", "left anti": "ANTI"}
rows = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["a", "b", None]), st.integers(0, 9)), max_size=25)
few_settings = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def joined(
    bound: JoinBound, kind: str, left: list[Any], right: list[Any], at_once: int, condition: Any
) -> Counter[Any]:
    """What the kernel gives for rows in batches of `at_once`."""
    kernel, store, found = join_spec(bound, kind, condition=condition).build(), MemoryStore(), []
    for at in range(0, max(len(left), len(right)), at_once):
        batch = {side: table(some[at : at + at_once]) for side, some in enumerate((left, right)) if some[at:]}
        found += kernel.on_rows(batch, Clock(None, 0), store).main
    found += kernel.on_time(Clock(FAR, 0), store).main
    return Counter((row["k"], row["v"], row["w"]) for part in found for row in part.to_pylist())


def asked(sql: str, left: list[Any], right: list[Any]) -> Counter[Any]:
    with duckdb.connect() as connection:
        for name, some in (("l", left), ("r", right)):
            connection.register(
                name, table(some).select([TS, "__k0", "__i0", SEQ]).rename_columns(["ts", "k", "v", "n"])
            )
        return Counter(connection.sql(sql).fetchall())


def less(pairs: pa.Table) -> pa.Array:
    return pa.array(
        [one < other for one, other in zip(*(pairs.column(name).to_pylist() for name in "vw"), strict=True)]
    )


def sql_of(kind: str, on: str, condition: bool) -> str:
    columns = "l.k, l.v, NULL" if kind in ("left semi", "left anti") else "l.k, l.v, r.v"
    return f"SELECT {columns} FROM l {KINDS[kind]} JOIN r ON l.k = r.k AND {on}{' AND l.v < r.v' if condition else ''}"


@pytest.mark.parametrize("kind", KINDS)
@few_settings
@given(rows, rows, st.tuples(st.integers(-15, 15), st.integers(-15, 15)), st.integers(1, 30), st.booleans())
def test_interval_joins(kind: str, left: Any, right: Any, ends: tuple[int, int], at_once: int, condition: bool) -> None:
    lower, upper = sorted(ends)
    sql = sql_of(kind, f"r.ts BETWEEN l.ts + {lower} AND l.ts + {upper}", condition)
    found = joined(Interval(lower, upper), kind, left, right, at_once, less if condition else None)
    assert found == asked(sql, left, right)


@pytest.mark.parametrize("kind", KINDS)
@few_settings
@given(rows, rows, st.integers(1, 30), st.integers(1, 30), st.booleans())
def test_window_joins(kind: str, left: Any, right: Any, size: int, at_once: int, condition: bool) -> None:
    sql = sql_of(kind, f"l.ts // {size} = r.ts // {size}", condition)
    found = joined(SameWindow(Tumble(size)), kind, left, right, at_once, less if condition else None)
    assert found == asked(sql, left, right)


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize(
    ("bound", "compared"),
    [
        (Asof(), ">="),
        (Asof(strict=True), ">"),
        (Asof(Nearest.AFTER), "<="),
        (Asof(Nearest.AFTER, strict=True), "<"),
    ],
    ids=str,
)
@few_settings
@given(left=rows, right=rows, at_once=st.integers(1, 30))
def test_asof_joins(kind: str, bound: Asof, compared: str, left: Any, right: Any, at_once: int) -> None:
    right = list({(ts, key): (ts, key, value) for ts, key, value in right}.values())  # DuckDB has no order of arrival
    sql = f"SELECT l.k, l.v, r.v FROM l ASOF {KINDS[kind]} JOIN r ON l.k = r.k AND l.ts {compared} r.ts"
    kernel_rows = joined(bound, kind, left, right, at_once, None)
    if bound.which is Nearest.AFTER:  # rows that nothing follows wait for ever
        kernel_rows += unanswered(kind, bound, left, right)
    assert kernel_rows == asked(sql, left, right)


def unanswered(kind: str, bound: Asof, left: list[Any], right: list[Any]) -> Counter[Any]:
    if kind == "inner":
        return Counter()
    return Counter(
        (key, value, None)
        for ts, key, value in left
        if key is not None and not any(k == key and (r > ts or (r == ts and not bound.strict)) for r, k, _ in right)
    )
