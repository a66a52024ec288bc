"""The option 'trigger' of a stream."""

from __future__ import annotations

import pytest

from eventide.errors import SqlError
from eventide.plan.difference import canonical
from eventide.plan.trigger import Trigger
from tests.sql.support import catalog, stream

SOURCES = "CREATE SOURCE s (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);"


def triggered(text: str) -> str:
    return f"CREATE STREAM o WITH ('trigger' = '{text}') AS SELECT k FROM s"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 seconds", Trigger(every=10_000_000)),
        ("PT1M", Trigger(every=60_000_000)),
        ("available now", Trigger(ends=True)),
        ("AVAILABLE NOW", Trigger(ends=True)),
        ("continuous batches", Trigger()),
    ],
)
def test_what_can_be_said(text: str, expected: Trigger) -> None:
    assert stream(triggered(text), SOURCES).options.trigger == expected


@pytest.mark.parametrize("text", ["sometimes", "0 seconds", "once", "", "-1 second", "5"])
def test_what_cannot_be_said(text: str) -> None:
    with pytest.raises(SqlError, match="trigger") as told:
        stream(triggered(text), SOURCES)
    assert "available now" in str(told.value) and "^" in str(told.value)


def test_a_trigger_is_no_part_of_what_a_stream_means() -> None:
    assert canonical(stream(triggered("1 hour"), SOURCES)) == canonical(
        stream("CREATE STREAM o AS SELECT k FROM s", SOURCES)
    )


def test_inner_streams_have_that_of_their_stream() -> None:
    counted = "(SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)) AS c"
    known = catalog(
        f"{SOURCES} CREATE STREAM o WITH ('trigger' = 'available now') AS SELECT max(n) AS m FROM "
        f"{counted} GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE);"
    )
    assert len(known.parts("o")) == 2 and all(part.options.trigger.ends for part in known.parts("o"))
