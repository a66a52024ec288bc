"""Tables that are looked up: what joins of them mean, and which are refused (table_errors.yaml)."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from eventide.errors import CatalogError, SqlError
from eventide.plan.logical import Lookup, Table
from eventide.plan.lookup_keys import lookup_keys
from eventide.plan.planner import plan
from eventide.plan.reads import relations_of, tables_of
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from tests.sql.support import HERE, TABLES, catalog, meaning, stream

ERRORS: list[dict[str, Any]] = yaml.safe_load((HERE / "table_errors.yaml").read_text())
LEFT_JOIN = """
forward: as rows come
output: id as id
output: name as name
left join table c on cust = c_id
  path /t
  scan a watermark lag 0s
"""


@pytest.mark.parametrize("case", ERRORS, ids=[case["name"] for case in ERRORS])
def test_error(case: dict[str, Any]) -> None:
    made = catalog(TABLES)
    with pytest.raises(SqlError) as raised:
        for statement in parse_statements(case["sql"]):
            made.apply(statement)
    error = raised.value
    assert error.start is not None
    assert (error.message, case["sql"][error.start : error.end], error.help) == (
        case["message"],
        case["at"],
        case["help"],
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.id, name FROM a LEFT JOIN c ON a.cust = c.id",
        "SELECT a.id, c.name FROM a LEFT OUTER JOIN c ON cust = c.id",
        "SELECT a.id, c.name FROM c RIGHT JOIN a ON cust = c.id",
    ],
)
def test_spellings_of_one_lookup(sql: str) -> None:
    assert "\n".join(meaning(stream(sql, TABLES))) == LEFT_JOIN.strip("\n")


def test_a_lookup_stands_before_the_window() -> None:
    query = (
        "SELECT country, count(*) AS n FROM a JOIN c ON cust = c.id WHERE v > 1 "
        "GROUP BY country, TUMBLE(ts, INTERVAL '10' SECOND)"
    )
    (input,) = plan(stream(query, TABLES)).inputs
    assert [type(step).__name__ for step in input.steps] == ["Lookup", "Filter"]


def test_a_lookup_on_one_side_of_a_join_of_streams_is_a_step_of_that_side() -> None:
    query = "SELECT a.id, name, w FROM a JOIN c ON cust = c.id LEFT JOIN b WITHIN INTERVAL '1' HOUR ON a.id = b.id"
    left, right = plan(stream(query, TABLES)).inputs
    assert [type(step) for step in left.steps] == [Lookup] and right.steps == ()


def test_a_lookup_behind_a_join_of_streams_is_a_stream_over_its_pairs() -> None:
    sql = (
        "CREATE STREAM x AS SELECT a.id, name, w FROM a JOIN b WITHIN INTERVAL '1' HOUR ON a.id = b.id "
        "LEFT JOIN c ON a.cust = c.id WHERE name IS NULL AND w > 5"
    )
    made = catalog(f"{TABLES}{sql}")
    pairs, last = made.parts("x")
    assert [table for part in (pairs, last) for table in tables_of(part.query)] == ["c"]
    assert [type(step).__name__ for step in plan(last).inputs[0].steps] == ["Lookup", "Filter"]
    assert [input.steps[0].condition for input in plan(pairs).inputs if input.steps] == ["w > 5"]  # type: ignore[union-attr]


def test_a_star_shows_the_columns_of_using_once() -> None:
    query = stream("SELECT * FROM a JOIN c USING (id)", TABLES).query
    assert [output.name for output in query.outputs] == ["id", "cust", "v", "ts", "name", "country"]


def test_columns_of_a_lookup_in_a_subquery_are_called_after_the_subquery() -> None:
    query = stream("SELECT x.id, x.name FROM (SELECT * FROM a JOIN c USING (id)) x", TABLES).query
    assert [(output.name, output.sql) for output in query.outputs] == [("id", "id"), ("name", "name")]


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("cust = c.id", ("id",)),
        ("c.id = upper(cust) AND (c.country <=> 'DE' AND v > 2)", ("id", "country")),
        ("cust = concat(c.id, 'x')", ()),
        ("c.name = c.id", ()),
        ("cust = c.id OR cust = c.name", ()),
    ],
)
def test_the_columns_that_find_a_row(condition: str, keys: tuple[str, ...]) -> None:
    (relation,) = relations_of(stream(f"SELECT v FROM a JOIN c ON {condition}", TABLES).query)
    assert isinstance(relation, Lookup) and lookup_keys(relation) == keys


def test_how_often_a_table_is_read_does_not_change_what_a_stream_means() -> None:
    query = "SELECT name FROM a JOIN c ON cust = c.id"
    often = TABLES.replace("'format' = 'csv')", "'format' = 'csv', 'refresh' = '1 minute')")
    elsewhere = TABLES.replace("'/t'", "'/elsewhere'")
    one, two, three = (plan(stream(query, sources)).plan_id for sources in (TABLES, often, elsewhere))
    assert one == two and one != three


def test_a_table_that_is_read_cannot_be_dropped_or_replaced() -> None:
    made = catalog(f"{TABLES} CREATE STREAM x AS SELECT name FROM a JOIN c ON cust = c.id")
    for sql in ("DROP TABLE c", TABLES.strip().splitlines()[-1].replace("CREATE TABLE", "CREATE OR REPLACE TABLE")):
        with pytest.raises(CatalogError, match="the stream x reads the table c"):
            made.apply(parse_statements(sql)[0])
    for sql in ("DROP STREAM x", "DROP TABLE c"):
        assert made.apply(parse_statements(sql)[0])
    assert not made.tables


def test_a_catalog_with_tables_comes_back_from_its_texts() -> None:
    made = catalog(
        f"{TABLES} CREATE VIEW y AS SELECT name, ts FROM a JOIN c ON cust = c.id; CREATE STREAM x AS SELECT name FROM y"
    )
    again = Catalog.from_texts(made.texts())
    assert again.tables == made.tables and again.streams == made.streams
    assert isinstance(made.definition("C"), Table)
