"""Joins: every spelling and what it means: join_spellings.yaml."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from eventide.plan.planner import plan
from tests.sql.support import HERE, JOIN_SOURCES, meaning, stream

GROUPS: list[dict[str, Any]] = yaml.safe_load((HERE / "join_spellings.yaml").read_text())
SPELLINGS = [(group["meaning"], sql) for group in GROUPS for sql in group["sql"]]
IDS = [f"{group['name']}-{number}" for group in GROUPS for number in range(len(group["sql"]))]


@pytest.mark.parametrize(("means", "sql"), SPELLINGS, ids=IDS)
def test_spelling_means(means: str, sql: str) -> None:
    assert "\n".join(meaning(stream(sql, JOIN_SOURCES))) == means.rstrip("\n")


@pytest.mark.parametrize("group", GROUPS, ids=[group["name"] for group in GROUPS])
def test_spellings_of_one_join_have_one_plan_id(group: dict[str, Any]) -> None:
    assert len({plan(stream(sql, JOIN_SOURCES)).plan_id for sql in group["sql"]}) == 1
