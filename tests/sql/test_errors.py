"""Wrong SQL, what is said of it, and which part of it is underlined: errors.yaml, join_errors.yaml."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from eventide.errors import SqlError
from eventide.sql.parser import parse_statements
from tests.sql.support import HERE, JOIN_SOURCES, SOURCES, catalog

CASES: list[dict[str, Any]] = yaml.safe_load((HERE / "errors.yaml").read_text())
JOINS: list[dict[str, Any]] = yaml.safe_load((HERE / "join_errors.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_error(case: dict[str, Any]) -> None:
    _check(case, SOURCES)


@pytest.mark.parametrize("case", JOINS, ids=[case["name"] for case in JOINS])
def test_error_in_a_join(case: dict[str, Any]) -> None:
    _check(case, JOIN_SOURCES)


def _check(case: dict[str, Any], sources: str) -> None:
    made = catalog(sources)
    with pytest.raises(SqlError) as raised:
        for statement in parse_statements(case["sql"]):
            made.apply(statement)
    error = raised.value
    assert error.start is not None
    end = error.end if error.end is not None else error.start + 1
    assert (error.message, case["sql"][error.start : end], error.help) == (case["message"], case["at"], case["help"])
    assert error.sql == case["sql"]


def test_an_error_in_the_second_statement_is_shown_in_the_whole_text() -> None:
    sql = "CREATE SOURCE a (x INT);\n-- a comment\nCREATE STREAM o AS\n  SELECT y\n  FROM a;"
    made = catalog("")
    with pytest.raises(SqlError) as raised:
        for statement in parse_statements(sql):
            made.apply(statement)
    assert str(raised.value) == "there is no column y\n  4 |   SELECT y\n               ^\n  help: known: x"
