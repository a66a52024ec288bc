"""Runs in an environment of its own that has apache-flink and psutil: python flink_jobs.py < jobs.json

Flink SQL in streaming mode on one machine, with two slots. A line per job says what it took: seconds and CPU-seconds
from its start to its end, those of Java included. A job that takes long, or fails, is not run again under its name.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import psutil
from pyflink.table import EnvironmentSettings, TableEnvironment


def cpu_seconds() -> float:
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def started(task: dict[str, Any]) -> TableEnvironment:
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "parallelism.default": "2",
        "state.backend.type": task["backend"],
        "table.local-time-zone": "UTC",
        "table.exec.source.idle-timeout": "0 ms",
        "taskmanager.memory.managed.size": "1 gb",  # for RocksDB; with the 128 MB of a local Flink it starves
    }
    for name, value in settings.items():
        environment.get_config().set(name, value)
    for statement in task["before"]:
        environment.execute_sql(statement)
    return environment


def outcome(environment: TableEnvironment, statement: str) -> dict[str, Any]:
    began, cpu = time.perf_counter(), cpu_seconds()
    try:
        environment.execute_sql(statement).wait()
    except Exception as error:
        return {"error": str(error).strip().splitlines()[-1]}
    return {"seconds": time.perf_counter() - began, "cpu": cpu_seconds() - cpu}


def main() -> None:
    task = json.load(sys.stdin)
    environment = started(task)
    done = set()
    for name, statement in task["jobs"]:
        if name in done:
            continue
        found = outcome(environment, statement)
        if found.get("seconds", task["long"]) >= task["long"]:
            done.add(name)
        print(json.dumps({"name": name, **found}), flush=True)


if __name__ == "__main__":
    main()
