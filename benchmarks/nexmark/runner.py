"""Runs queries on engines in turn, over the same events, and refuses figures of a wrong answer.

A run is a fresh query. It first takes the warm-up batches; then all measured files become visible at once, and rows
per second come from the time until the last result is there, with all windows closed.
CPU is that of the whole process tree over the same time. Rows are events, whichever of them a query uses. Before a
query is measured every engine takes its warm-up batches once, to the last window, since Java is slow in what it does
for the first time, and before the first query a few times more; who comes first changes from query to query.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.figures import CPU, SPEED, Results, Sample
from benchmarks.nexmark.answers import TOO_MANY, Answers
from benchmarks.nexmark.engines import Engine
from benchmarks.nexmark.material import Material, link
from benchmarks.process_tree import cpu_seconds
from benchmarks.runner import rotated

_TIMES_OF_HEAT = 4  # that the first query's batches are taken before anything is measured

Say = Callable[[str], None]


class WrongAnswer(Exception):
    """An engine answered otherwise than DuckDB: its speed means nothing."""


def compare(
    queries: Sequence[str], engines: Sequence[Engine], material: Material, repeat: int, say: Say
) -> tuple[Results, list[str]]:
    """Samples by query and engine, and what went wrong."""
    results: Results = {}
    problems = []
    answers = material.answers()
    for engine in [engine for engine in engines if engine.can(queries[0])] * _TIMES_OF_HEAT:
        warm_up(engine, queries[0], material)
    for number, query in enumerate(queries):
        able = [engine for engine in engines if engine.can(query)]
        for engine in rotated(able, number):
            try:
                warm_up(engine, query, material)
                samples = [measure(engine, query, material, answers) for _ in range(repeat)]
            except Exception as error:
                problems.append(f"{query}, {engine.name}: {type(error).__name__}: {error}")
                say(f"  FAILED: {problems[-1]}")
                continue
            results.setdefault(query, {})[engine.name] = samples
            say(f"{query:4} {engine.name}: {max(sample[SPEED.key] for sample in samples):,.0f} rows/s")
    return results, problems


def warm_up(engine: Engine, query: str, material: Material) -> None:
    with tempfile.TemporaryDirectory(prefix="nexmark-run-") as name:
        link(material.warm, Path(name) / "watched")
        with contextlib.closing(engine.start(query, material, Path(name))) as run:
            run.take()
            run.finish(material.end_ms)


def measure(engine: Engine, query: str, material: Material, answers: Answers) -> Sample:
    with tempfile.TemporaryDirectory(prefix="nexmark-run-") as name:
        folder = Path(name)
        watched = folder / "watched"
        link(material.warm, watched)
        with contextlib.closing(engine.start(query, material, folder)) as run:
            run.take()
            began, cpu = time.perf_counter(), cpu_seconds()
            link(material.measured, watched)
            run.take()
            run.finish(material.end_ms)
            seconds, used = time.perf_counter() - began, cpu_seconds() - cpu
            check(engine, query, answers.differences(query, run.rows()))
    return {SPEED.key: material.measured_rows / seconds, CPU.key: used / material.measured_rows * 1e6}


def check(engine: Engine, query: str, differences: Sequence[str]) -> None:
    """An engine that tells of updates has given older rows, too."""
    judged = [each for each in differences if not (engine.repeats(query) and TOO_MANY in each)]
    if judged:
        raise WrongAnswer("; ".join(judged[:3]))
