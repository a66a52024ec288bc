"""What `eventide late advise` recommends can be applied as it is printed."""

from __future__ import annotations

import pytest

from eventide.diagnose.late import remedies
from eventide.plan.changes import differences, refused
from tests.sql.test_changes import catalog

WINDOW = "GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            f"SELECT k, count(*) AS n FROM s {WINDOW}",
            [
                "ALTER STREAM o SET ('allowed_lateness' = '3 seconds')",
                "ALTER SOURCE s SET ('watermark.lag' = '3 seconds')",
            ],
        ),
        (
            f"SELECT k, count(*) AS n FROM s {WINDOW} ALLOW LATENESS INTERVAL '500' MILLISECOND",
            [
                "ALTER STREAM o SET ('allowed_lateness' = '3500 milliseconds')",
                "ALTER SOURCE s SET ('watermark.lag' = '3 seconds')",
            ],
        ),
        (f"SELECT k, count(*) AS n FROM s {WINDOW} EMIT FINAL", ["ALTER SOURCE s SET ('watermark.lag' = '3 seconds')"]),
        ("SELECT k FROM s ORDER BY ts", ["ALTER SOURCE s SET ('watermark.lag' = '3 seconds')"]),
    ],
)
def test_the_remedy_goes_on_from_the_state(query: str, expected: list[str]) -> None:
    made = catalog(f"CREATE STREAM o AS {query}")
    assert remedies(made.streams["o"], 2_999_999) == expected
    for statement in expected:
        changed = catalog(f"CREATE STREAM o AS {query}; {statement}")
        found = differences(made.streams["o"], changed.streams["o"])
        assert len(found) == 1 and not refused(found)


def test_nothing_is_recommended_where_nothing_was_late() -> None:
    assert remedies(catalog(f"CREATE STREAM o AS SELECT k, count(*) AS n FROM s {WINDOW}").streams["o"], 0) == []
