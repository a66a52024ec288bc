"""What a query becomes whose parts keep state: its inner streams and what each means: compositions.yaml."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from eventide.plan.difference import canonical
from eventide.plan.logical import Stream
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from tests.sql.support import HERE, JOIN_SOURCES, catalog, meaning

CASES: list[dict[str, Any]] = yaml.safe_load((HERE / "compositions.yaml").read_text())
FINE = "SELECT k, count(*) AS n FROM l GROUP BY k, TUMBLE(ts, '1s')"


def made(sql: str) -> Catalog:
    created = catalog(JOIN_SOURCES)
    for statement in parse_statements(sql):
        created.apply(statement)
    return created


def told(stream: Stream) -> str:
    """A stream's meaning without the plan ids of those that it reads."""
    return "\n".join(line for line in meaning(stream) if not line.strip().startswith("plan "))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_query_becomes(case: dict[str, Any]) -> None:
    parts = made(f"CREATE STREAM o AS {case['sql']}").parts("o")
    assert {part.name: told(part) for part in parts} == {name: text.rstrip("\n") for name, text in case["parts"].items()}
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
