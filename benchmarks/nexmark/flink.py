"""Flink SQL over the events, run by an interpreter that has apache-flink. Its answers are not looked at."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import CPU, SPEED, Results
from benchmarks.flink_jobs import Job, Outcome, run
from benchmarks.nexmark.material import Material, link
from benchmarks.nexmark.queries import Places, flink_sources_sql, flink_sql
from benchmarks.nexmark.runner import Say

_CANNOT = ("q6",)  # a running average over what is taken back


def compare(python: str, engine: str, queries: Sequence[str], material: Material, repeat: int, say: Say) -> Results:
    """Samples by query. The first run of each query warms it up; if it takes long, it is the only one, and counts."""
    names = [query for query in queries if query not in _CANNOT for _ in range(repeat + 1)]
    jobs = [
        Job(query, f"CREATE TABLE sink_{number} WITH ('connector' = 'blackhole') AS {flink_sql(query)}")
        for number, query in enumerate(names)
    ]
    with tempfile.TemporaryDirectory(prefix="nexmark-flink-") as name:
        watched = Path(name) / "watched"
        link(material.measured, watched)
        sources = flink_sources_sql(Places(watched, material.side_input, Path(name) / "output")).split(";")
        return _results(engine, run(python, engine, [each for each in sources if each.strip()], jobs), material, say)


def _results(engine: str, outcomes: Sequence[Outcome], material: Material, say: Say) -> Results:
    results: Results = {}
    by_query: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.error is not None:
            say(f"{outcome.name:4} {engine}: {outcome.error}")
        else:
            by_query.setdefault(outcome.name, []).append(outcome)
    for query, taken in by_query.items():
        for one in taken[1:] or taken:
            speed, cost = material.measured_rows / one.seconds, one.cpu / material.measured_rows * 1e6
            results.setdefault(query, {}).setdefault(engine, []).append({SPEED.key: speed, CPU.key: cost})
            say(f"{query:4} {engine}: {speed:,.0f} rows/s")
    return results
