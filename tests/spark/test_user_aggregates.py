"""Aggregates that users define in Python: in SQL, in the fluent API, and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import eventide
from eventide.errors import CatalogError, CheckpointError, SqlError
from tests.conftest import DatabaseFactory

STREAM = """ CREATE SOURCE e (k STRING, v BIGINT, w DOUBLE, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms); CREATE
STREAM o AS SELECT k, product(v) AS p, product(v) FILTER (WHERE v > 2) AS q, Product(DISTINCT v) + count(*) AS d,
weighted(w, v) AS m FROM e GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)
"""


def helper(values: pa.Array) -> int:
    """A function of this module, which workers cannot import: it must travel with those that call it."""
    return int(pc.product(values).as_py() or 1)


def times(state: int, rows: pa.RecordBatch) -> int:
    return state * helper(rows.column(0))


def weigh(state: dict[str, float], rows: pa.RecordBatch) -> dict[str, float]:
    total = pc.sum(pc.multiply(rows.column(0), rows.column(1))).as_py()
    return {
        "total": state["total"] + (total or 0.0),
        "weight": state["weight"] + (pc.sum(rows.column(1)).as_py() or 0.0),
    }


def register(returns: str = "bigint") -> None:
    eventide.aggregates.register("product", lambda: 1, times, lambda one, other: one * other, returns=returns)
    eventide.aggregates.register(
        "Weighted",
        lambda: {"total": 0.0, "weight": 0.0},
        weigh,
        lambda one, other: {name: one[name] + other[name] for name in one},
        lambda state: state["total"] / state["weight"] if state["weight"] else None,
        returns="double",
        state="struct<total: double, weight: double>",
    )


def forget() -> None:
    for name in eventide.aggregates.list():
        eventide.aggregates.forget(name)


@pytest.fixture
def registered() -> Iterator[None]:
    register()
    yield
    forget()


def test_they_run_in_sql_and_continue_after_a_restart(
    registered: None, tmp_path: Path, db_factory: DatabaseFactory
) -> None:
    first = db_factory(checkpoint=tmp_path)
    first.execute(STREAM)
    first.write("e", [("a", 2, 1.0, 100), ("a", 3, 2.0, 200), ("b", 5, 9.0, 300)])
    first.tick()
    first.close()
    forget()
    with pytest.raises(SqlError, match=r"register it first: eventide.aggregates.register\('product'"):
        db_factory(checkpoint=tmp_path)
    register()
    second = db_factory(checkpoint=tmp_path)
    second.write("e", [("a", 3, 4.0, 400), ("a", None, 7.0, 500), ("c", 1, 0.0, 5000)])
    second.tick()
    assert sorted(tuple(row.values()) for row in second.read("o")) == [
        ("a", 18, 9, 6 + 4, (2.0 + 6.0 + 12.0) / 8),
        ("b", 5, 5, 5 + 1, 9.0),
    ]
    assert [str(kind) for kind in second.read("o").arrow().schema.types] == [
        "string",
        "int64",
        "int64",
        "int64",
        "double",
    ]
    second.close()
    register(returns="double")
    third = db_factory(checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="returns double"):
        third.tick()


def test_mistakes_are_found_when_the_stream_is_created(registered: None, db_factory: DatabaseFactory) -> None:
    db = db_factory()
    db.execute(STREAM.split(";")[0])
    stream = "CREATE STREAM x AS SELECT {} AS y FROM e GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)"
    for expression, message in [
        ("products(v)", r"v is neither a group key nor aggregated[\s\S]*register\('products'"),
        ("product()", "product takes 1 to 64 arguments"),
        ("product(sum(v))", "inside another"),
        ("product(nothing)", "nothing"),
        ("sum(k)", "sum does not take text"),
    ]:
        with pytest.raises(SqlError, match=message):
            db.execute(stream.format(expression))
    eventide.aggregates.register("odd", lambda: 1, times, max, returns="nonsense")
    with pytest.raises(SqlError, match=r"odd\(v\)[\s\S]*nonsense"):
        db.execute(stream.format("odd(v)"))
    with pytest.raises(CatalogError, match="Eventide's own"):
        eventide.aggregates.register("MAX", lambda: 1, times, max)


def test_the_fluent_api_takes_them_by_name(registered: None) -> None:
    from eventide.fluent import FluentStream, Origin

    origin = Origin("e", (("k", "string"), ("v", "bigint"), ("ts", "timestamp")))
    made = (
        FluentStream((origin,), ("`e`",))
        .event_time("ts")
        .group_by("k")
        .window(eventide.tumble("1 second"))
        .agg(p="product(v)")
    )
    assert "__a0 = product(v)" in made.explain()
