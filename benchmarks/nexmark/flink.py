"""Flink SQL, run by an interpreter that has apache-flink: see `flink_peer.py`. Its answers are not looked at."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import CPU, SPEED, Results
from benchmarks.nexmark.material import Material, link
from benchmarks.nexmark.queries import Places, flink_sources_sql, flink_sql
from benchmarks.nexmark.runner import Say

BACKENDS = {"Flink, RocksDB": "rocksdb", "Flink, memory": "hashmap"}
_LONG = 30.0  # seconds: what Java must learn first does not matter then
_CANNOT = ("q6",)  # a running average over what is taken back


def compare(python: str, engine: str, queries: Sequence[str], material: Material, repeat: int, say: Say) -> Results:
    """Samples by query. The first run of each query warms it up; if it takes long, it is the only one, and counts."""
    names = [query for query in queries if query not in _CANNOT]
    with tempfile.TemporaryDirectory(prefix="nexmark-flink-") as name:
        watched = Path(name) / "watched"
        link(material.measured, watched)
        places = Places(watched, material.side_input, Path(name) / "output")
        job = {
            "backend": BACKENDS[engine],
            "long": _LONG,
            "sources": flink_sources_sql(places),
            "queries": [(query, flink_sql(query)) for query in names for _ in range(repeat + 1)],
        }
        told = subprocess.run(
            [python, str(Path(__file__).parent / "flink_peer.py")],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return _results(engine, [json.loads(line) for line in told.splitlines() if line.startswith("{")], material, say)


def _results(engine: str, runs: Sequence[dict[str, object]], material: Material, say: Say) -> Results:
    results: Results = {}
    by_query: dict[str, list[dict[str, object]]] = {}
    for run in runs:
        if "error" in run:
            say(f"{run['query']:4} {engine}: {run['error']}")
        else:
            by_query.setdefault(str(run["query"]), []).append(run)
    for query, taken in by_query.items():
        for run in taken[1:] or taken:
            seconds, cpu = float(str(run["seconds"])), float(str(run["cpu"]))
            speed, cost = material.measured_rows / seconds, cpu / material.measured_rows * 1e6
            results.setdefault(query, {}).setdefault(engine, []).append({SPEED.key: speed, CPU.key: cost})
            say(f"{query:4} {engine}: {speed:,.0f} rows/s")
    return results
