"""The catalog: names, replacement, dependencies, persistence."""

from __future__ import annotations

import pytest

from eventide.errors import CatalogError, SqlError
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements

BASE = """
CREATE SOURCE s (k STRING, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE STREAM o AS SELECT k, sum(v) AS t FROM s GROUP BY k, TUMBLE(ts, '1s') LATE DATA TO l;
CREATE SINK out FROM o WITH ('connector' = 'console');
"""


def apply(catalog: Catalog, sql: str) -> list[bool]:
    return [catalog.apply(statement) for statement in parse_statements(sql)]


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog()
    assert apply(made, BASE) == [True, True, True]
    return made


def test_names_are_found_in_any_case_and_kept_as_written(catalog: Catalog) -> None:
    assert catalog.source("S").name == "s"
    assert catalog.stream("O").name == "o"
    assert catalog.resolve_readable("O") == ("o", False)


def test_late_rows_have_two_names(catalog: Catalog) -> None:
    assert catalog.late_names == {"o$late": "o", "l": "o"}
    assert catalog.resolve_readable("o$LATE") == ("o", True)
    assert catalog.resolve_readable("l") == ("o", True)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE SOURCE s (a INT)", "there is already a source s"),
        ("CREATE SOURCE o (a INT)", "taken by the stream o"),
        ("CREATE SOURCE l (a INT)", "taken by the late rows of o"),
        ("CREATE STREAM out AS SELECT k FROM s", "taken by the sink out"),
        ("CREATE STREAM p AS SELECT k FROM s GROUP BY k, TUMBLE(ts, '1s') LATE DATA TO s", "taken by the source s"),
        (
            "CREATE STREAM p AS SELECT k FROM s GROUP BY k, TUMBLE(ts, '1s') LATE DATA TO p",
            "the name of the stream itself",
        ),
        ("CREATE SINK x FROM nope WITH ('connector' = 'console')", "there is no stream nope"),
        ("CREATE SINK x FROM s WITH ('connector' = 'console')", "s is a source"),
        ("DROP SOURCE s", "the stream o reads the source s"),
        ("CREATE OR REPLACE SOURCE s (a INT)", "the stream o reads the source s"),
        ("DROP STREAM o", "the sink out reads the stream o"),
        ("DROP SINK nope", "there is no sink nope"),
    ],
)
def test_refused(catalog: Catalog, sql: str, message: str) -> None:
    before = catalog.texts()
    with pytest.raises(CatalogError, match=message) as raised:
        apply(catalog, sql)
    assert raised.value.help
    assert catalog.texts() == before


def test_a_stream_that_does_not_lower_leaves_the_catalog_as_it_was(catalog: Catalog) -> None:
    with pytest.raises(SqlError):
        apply(catalog, "CREATE OR REPLACE STREAM o AS SELECT nope FROM s")
    assert catalog.stream("o").emit.late_to == "l"


def test_if_not_exists_and_if_exists_change_nothing(catalog: Catalog) -> None:
    before = catalog.texts()
    assert (
        apply(catalog, "CREATE SOURCE IF NOT EXISTS s (a INT); DROP STREAM IF EXISTS p; SHOW STREAMS; SELECT 1")
        == [False] * 4
    )
    assert catalog.texts() == before


def test_replacing_a_stream_keeps_its_sinks(catalog: Catalog) -> None:
    apply(catalog, "CREATE OR REPLACE STREAM o AS SELECT k, max(v) AS t FROM s GROUP BY k, TUMBLE(ts, '1s')")
    assert list(catalog.sinks) == ["out"]
    assert catalog.stream("o").emit.late_to is None


def test_replacing_a_stream_cannot_take_the_late_rows_from_a_sink(catalog: Catalog) -> None:
    apply(catalog, "CREATE SINK late_out FROM L WITH ('connector' = 'console')")
    assert catalog.sink("late_out").stream == "l"
    with pytest.raises(CatalogError, match="late_out reads l"):
        apply(catalog, "CREATE OR REPLACE STREAM o AS SELECT k FROM s GROUP BY k, TUMBLE(ts, '1s')")


def test_everything_can_be_dropped_from_the_end(catalog: Catalog) -> None:
    assert apply(catalog, "DROP SINK out; DROP STREAM O; DROP SOURCE s") == [True] * 3
    assert catalog.texts() == []


def test_texts_make_the_same_catalog_again(catalog: Catalog) -> None:
    again = Catalog.from_texts(catalog.texts())
    assert (again.sources, again.streams, again.sinks) == (catalog.sources, catalog.streams, catalog.sinks)
    assert list(again.streams) == ["o"]


def test_a_copy_is_independent_and_without_lacks_one_name(catalog: Catalog) -> None:
    rest = catalog.without("o")
    assert "o" not in rest.streams and "o" in catalog.streams
    assert rest.texts() == [text for text in catalog.texts() if not text.startswith("CREATE STREAM")]


def test_a_stream_that_is_read_stays_until_its_reader_goes(catalog: Catalog) -> None:
    apply(catalog, "CREATE STREAM p AS SELECT k FROM o; CREATE STREAM q AS SELECT k FROM p$late")
    assert [catalog.level(name) for name in ("o", "p", "q")] == [0, 1, 2]
    for statement in ("DROP STREAM p", "CREATE OR REPLACE STREAM p AS SELECT k FROM o WHERE k = 'a'"):
        with pytest.raises(CatalogError, match="the stream q reads the stream p"):
            apply(catalog, statement)
    apply(catalog, "DROP STREAM q; DROP STREAM p")
    assert list(catalog.streams) == ["o"]


def test_a_query_can_be_lowered_without_being_created(catalog: Catalog) -> None:
    (explain,) = parse_statements("EXPLAIN CREATE STREAM o AS SELECT k FROM s")
    assert [stream.name for stream in catalog.lower(explain.stream)] == ["o"]  # type: ignore[union-attr, arg-type]
    assert catalog.stream("o").emit.late_to == "l"


def test_a_source_that_either_side_of_a_join_reads_cannot_be_dropped(catalog: Catalog) -> None:
    apply(catalog, "CREATE SOURCE r (k STRING, w INT, t TIMESTAMP, WATERMARK FOR t AS t)")
    apply(catalog, "CREATE STREAM j AS SELECT v, w FROM s JOIN r WITHIN INTERVAL '1' SECOND USING (k); DROP SINK out")
    apply(catalog, "DROP STREAM o")
    for source in ("s", "r"):
        with pytest.raises(CatalogError, match=f"the stream j reads the source {source}"):
            apply(catalog, f"DROP SOURCE {source}")
    apply(catalog, "DROP STREAM j; DROP SOURCE r; DROP SOURCE s")
    assert not catalog.sources
