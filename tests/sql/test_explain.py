"""EXPLAIN against golden files: explain/*.sql and, beside each, the tree as *.txt.

EVENTIDE_UPDATE_GOLDEN=1 writes the files anew; read the difference before you keep it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eventide.plan.explain import Known, explain
from eventide.plan.planner import plan
from tests.sql.support import HERE, catalog

FILES = sorted((HERE / "explain").glob("*.sql"))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_tree_is_the_golden_one(file: Path) -> None:
    made = catalog(file.read_text())
    text = explain(plan(made.streams["o"]), known=Known(lambda name: plan(made.stream(name)))) + "\n"
    golden = file.with_suffix(".txt")
    if os.environ.get("EVENTIDE_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_types_that_spark_found_are_shown() -> None:
    physical = plan(catalog(FILES[0].read_text()).streams["o"])
    text = explain(physical, analyzed={"twice": "bigint", "__o0": "timestamp"})
    assert "value * 2 AS twice: bigint" in text
    assert "__o0 = `timestamp`: timestamp" in text
