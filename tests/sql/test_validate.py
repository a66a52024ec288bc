"""Valid SQL that cannot be run is refused, with its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eventide.errors import SqlError
from eventide.plan.modes import LatePolicy
from eventide.plan.validate import validate
from tests.sql.support import stream


def test_an_ordered_stream_that_reassigns_is_refused_at_the_policy() -> None:
    options = "'late.policy' = 'reassign', 'late.max_lateness' = '1s'"
    with pytest.raises(SqlError, match="cannot reassign") as raised:
        stream(f"CREATE STREAM o WITH ({options}) AS SELECT k FROM s ORDER BY ts")
    error = raised.value
    assert error.sql[error.start : error.end] == "'reassign'"
    assert error.help


def test_a_plan_without_places_is_refused_without_a_place() -> None:
    ordered = stream("SELECT k FROM s ORDER BY ts")
    with pytest.raises(SqlError, match="cannot reassign") as raised:
        validate(replace(ordered, options=replace(ordered.options, late_policy=LatePolicy.REASSIGN)))
    assert raised.value.start is None
