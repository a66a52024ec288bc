"""The fluent API's example runs and prints what it should."""

from __future__ import annotations

from typing import Any

import pytest

from tests.test_examples import load


def test_fluent_clicks(keep_spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    accounts = load("fluent_clicks").main(keep_spark.newSession())
    assert {kind: count for kind, count in accounts.items() if count} == {"rows_in": 5, "used": 4, "late": 1}
    printed = [line.split(": ", 1)[1] for line in capsys.readouterr().out.splitlines() if line.startswith("batch")]
    assert printed[:2] == ["ann 2 rows, total 12", "bob 1 rows, total 1"]
    assert len(printed) == 3 and printed[2].startswith("late: ") and '"v": 3' in printed[2].replace('"v":3', '"v": 3')
