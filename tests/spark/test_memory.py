"""A row that takes all memory: the error names the expression, and the process can connect again."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import eventide
from eventide.errors import StreamFailedError

SOURCE = "CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)"
small = eventide.connect(conf={"spark.driver.memory": "512m"})
small.execute(SOURCE)
small.execute("CREATE STREAM o AS SELECT k, upper(k) AS u, sequence(1, v) AS many FROM s")
small.write("s", [("a", 3, 1000), ("b", 100_000_000, 1100)])
try:
    small.tick()
except StreamFailedError as error:
    print("failed:", error.message)
small.close()
with eventide.connect() as db:
    db.execute(SOURCE)
    db.execute("CREATE STREAM o AS SELECT k FROM s")
    db.write("s", [("a", 3, 1000)])
    db.tick()
    print("then:", [row["k"] for row in db.read("o")])
"""


@pytest.mark.slow
def test_the_error_names_the_expression_and_the_next_connection_works() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    failed, then = done.stdout.splitlines()
    assert failed.startswith("failed: stream o stopped: ") and failed.endswith("memory: sequence(1, v)")
    assert then == "then: ['a']"
