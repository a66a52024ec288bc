"""What a query becomes whose parts keep state: its inner streams and what each means: compositions.yaml."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from eventide.diagnose.describe import list_objects
from eventide.errors import CatalogError, SqlError
from eventide.plan.column_roles import RowTime, roles_of
from eventide.plan.difference import canonical
from eventide.plan.logical import Stream
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from tests.sql.support import HERE, JOIN_SOURCES, catalog, meaning

CASES: list[dict[str, Any]] = yaml.safe_load((HERE / "compositions.yaml").read_text())
FINE = "SELECT k, count(*) AS n FROM l GROUP BY k, TUMBLE(ts, '1s')"


def made(sql: str) -> Catalog:
    created = catalog(JOIN_SOURCES)
    apply(created, sql)
    return created


def apply(changed: Catalog, sql: str) -> None:
    for statement in parse_statements(sql):
        changed.apply(statement)


def told(stream: Stream) -> str:
    """A stream's meaning without the plan ids of those that it reads."""
    return "\n".join(line for line in meaning(stream) if not line.strip().startswith("plan "))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_query_becomes(case: dict[str, Any]) -> None:
    parts = made(f"CREATE STREAM o AS {case['sql']}").parts("o")
    assert {part.name: told(part) for part in parts} == {
        name: text.rstrip("\n") for name, text in case["parts"].items()
    }
    assert [part.name for part in parts] == list(case["parts"])


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_parts_come_back_from_the_text_of_the_statement(case: dict[str, Any]) -> None:
    whole = made(f"CREATE STREAM o AS {case['sql']}")
    restored = Catalog.from_texts(whole.texts())
    assert [canonical(part) for part in restored.parts("o")] == [canonical(part) for part in whole.parts("o")]


def test_the_name_of_the_stream_is_no_part_of_the_meaning_of_its_parts() -> None:
    sql = f"AS SELECT max(n) AS n FROM ({FINE}) GROUP BY TUMBLE(window_time, '2s')"
    both = made(f"CREATE STREAM o {sql}; CREATE STREAM p {sql}")
    assert [canonical(part) for part in both.parts("o")] == [canonical(part) for part in both.parts("p")]


def test_options_apply_where_rows_come_in() -> None:
    inner, outer = made(
        "CREATE STREAM o WITH ('late.policy' = 'strict', 'max_groups' = '5', 'shards' = '3') AS "
        f"SELECT max(n) AS n FROM ({FINE}) GROUP BY TUMBLE(window_time, '2s') "
        "EMIT ON UPDATE ALLOW LATENESS INTERVAL '3' SECOND LATE DATA TO missed"
    ).parts("o")
    assert (inner.options.late_policy.value, outer.options.late_policy.value) == ("strict", "window")
    assert (inner.options.max_groups, outer.options.max_groups, inner.options.shards) == (5, 5, 3)
    assert (inner.emit.mode.value, outer.emit.mode.value) == ("on window close", "on update")
    assert (inner.emit.allowed_lateness, outer.emit.allowed_lateness) == (3_000_000, 0)
    assert (inner.emit.late_to, outer.emit.late_to) == ("missed", None)


COARSE = f"SELECT max(n) AS n FROM ({FINE}) GROUP BY TUMBLE(window_time, '2s')"


def test_inner_streams_go_and_are_replaced_with_their_owner() -> None:
    changed = made(f"CREATE STREAM o AS {COARSE}")
    assert list(changed.graph()) == ["o$1", "o"]
    apply(changed, f"CREATE OR REPLACE STREAM o AS {FINE}")
    assert list(changed.graph()) == ["o"]
    apply(changed, f"CREATE OR REPLACE STREAM o AS {COARSE}; DROP STREAM o")
    assert (changed.graph(), changed.inner) == ({}, {})


def test_inner_streams_are_in_no_list_and_in_no_text() -> None:
    whole = made(f"CREATE STREAM o AS {COARSE}")
    assert [row["name"] for row in list_objects(whole, "streams")] == ["o"]
    assert len(whole.texts()) == len(catalog(JOIN_SOURCES).texts()) + 1


def test_what_an_inner_stream_reads_is_read_by_its_owner() -> None:
    whole = made(f"CREATE STREAM o AS {COARSE}; CREATE STREAM p AS SELECT v FROM o$late")
    with pytest.raises(CatalogError, match="the stream o reads the source l"):
        apply(whole, "DROP SOURCE l")
    with pytest.raises(CatalogError, match="the stream p reads the stream o"):
        apply(whole, "DROP STREAM o")


def test_streams_and_those_that_read_them_come_in_order() -> None:
    of_z = "SELECT k, sum(n) AS n FROM z GROUP BY k, TUMBLE(window_time, '2s')"
    whole = made(
        f"CREATE STREAM z AS {FINE}; CREATE STREAM o AS SELECT max(n) AS n FROM ({of_z}) "
        "GROUP BY TUMBLE(window_time, '4s')"
    )
    assert whole.with_readers(["z"]) == ["z", "o$1", "o"]
    assert whole.with_readers(["o$1"]) == ["o$1", "o"]


def test_late_rows_are_those_of_the_part_that_reads_the_source() -> None:
    whole = made(f"CREATE STREAM o AS {COARSE} LATE DATA TO missed")
    assert {name: whole.late_names[name] for name in ("o$late", "o$1$late", "missed")} == dict.fromkeys(
        ("o$late", "o$1$late", "missed"), "o$1"
    )
    assert [row["late_to"] for row in list_objects(whole, "streams")] == ["missed"]


def test_late_rows_of_several_parts_are_apart() -> None:
    both = made("CREATE STREAM o AS " + " UNION ALL ".join([FINE, FINE.replace("'1s'", "'2s'")]))
    assert {name: stream for name, stream in both.late_names.items() if name.startswith("o")} == {
        "o$late": "o",
        "o$1$late": "o$1",
        "o$2$late": "o$2",
    }


def test_side_output_goes_where_the_options_say_from_every_part() -> None:
    whole = made(
        "CREATE SINK dlq WITH ('connector' = 'console'); "
        f"CREATE STREAM o WITH ('side_output.late.sink' = 'dlq') AS {COARSE}"
    )
    assert [part.routes["late"].sink for part in whole.parts("o")] == ["dlq", "dlq"]
    back = made(f"CREATE STREAM o WITH ('side_output.late.sink' = 'reinject') AS {COARSE}")
    assert [part.routes.get("late") is not None for part in back.parts("o")] == [True, False]


def test_a_name_with_a_number_is_not_the_users_to_give() -> None:
    with pytest.raises(SqlError, match=r"'o\$1' cannot be the name of a stream"):
        made("CREATE STREAM `o$1` AS SELECT k FROM l")


# Views ---------------------------------------------------------------------------------------------------------------


def test_a_view_means_its_query() -> None:
    by_view = made(f"CREATE VIEW fine AS {FINE}; CREATE STREAM o AS {COARSE.replace(f'({FINE})', 'fine AS f')}")
    assert [canonical(part) for part in by_view.parts("o")] == [
        canonical(part) for part in made(f"CREATE STREAM o AS {COARSE}").parts("o")
    ]


def test_views_on_views_and_streams_come_back_in_an_order_that_works() -> None:
    whole = made(
        "CREATE VIEW a AS SELECT k, v FROM l; CREATE STREAM b AS SELECT k, v FROM a; CREATE VIEW c AS SELECT k FROM b;"
        "CREATE STREAM o AS SELECT k FROM c UNION ALL SELECT k FROM a"
    )
    apply(whole, "CREATE OR REPLACE SOURCE e (id STRING)")
    restored = Catalog.from_texts(whole.texts())
    assert canonical(restored.streams["o"]) == canonical(whole.streams["o"])
    assert list(restored.views) == ["a", "c"]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("DROP VIEW w", "the stream o reads the view w"),
        ("CREATE OR REPLACE VIEW w AS SELECT v FROM l", "the stream o reads the view w"),
        ("DROP SOURCE l", "the view w reads the source l"),
        ("DROP VIEW nope", "there is no view nope"),
        ("CREATE VIEW l AS SELECT w FROM r", "the name l is taken by the source l"),
        ("CREATE STREAM w AS SELECT v FROM l", "the name w is taken by the view w"),
        ("CREATE VIEW w AS SELECT v FROM l", "there is already a view w"),
    ],
)
def test_a_view_is_guarded_like_everything_with_a_name(sql: str, error: str) -> None:
    whole = made("CREATE VIEW w AS SELECT k, v FROM l; CREATE STREAM o AS SELECT k FROM w")
    with pytest.raises(CatalogError, match=error):
        apply(whole, sql)


def test_a_view_that_nobody_reads_can_be_replaced_and_dropped() -> None:
    whole = made("CREATE VIEW w AS SELECT k FROM l; CREATE OR REPLACE VIEW w AS SELECT v FROM l")
    apply(whole, "CREATE STREAM o AS SELECT v FROM w; DROP STREAM o; DROP VIEW w; DROP VIEW IF EXISTS w; DROP SOURCE l")
    assert whole.views == {}


def test_a_view_of_groups_without_a_window_is_for_readers_that_want_every_change() -> None:
    whole = made("CREATE VIEW totals AS SELECT k, sum(v) AS t FROM l GROUP BY k")
    apply(whole, "CREATE STREAM o AS SELECT k, t FROM totals WHERE t > 1 EMIT ON UPDATE")
    assert [part.name for part in whole.parts("o")] == ["o"]
    with pytest.raises(SqlError, match="there is no window"):
        apply(whole, "CREATE STREAM p AS SELECT k, t FROM totals")


def test_a_stream_that_many_read_is_looked_at_once() -> None:
    """Levels of which each reads the one below it twice: without that, the ways down double with each level."""
    levels = "".join(
        f"CREATE STREAM s{level} AS SELECT k, ts FROM s{level - 1} UNION ALL SELECT k, ts FROM s{level - 1};"
        for level in range(1, 6)
    )
    whole = made(f"CREATE STREAM s0 AS SELECT k, ts FROM l; {levels}")
    asked: list[str] = []

    def stream(name: str) -> Stream:
        asked.append(name)
        return whole.stream(name)

    assert roles_of(whole.stream("s5"), stream) == {"ts": RowTime()}
    assert asked == ["s4", "s3", "s2", "s1", "s0"]
