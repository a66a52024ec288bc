"""Runs in an environment of its own that has apache-flink: python flink_peer.py < job.json

Every query writes into a black hole, with two slots. A line per run says what it took: seconds and CPU-seconds from
the start of the job to its end, those of Java included. A query that takes long, or fails, is not run again.
"""

from __future__ import annotations

import json
import sys
import time

import psutil
from pyflink.table import EnvironmentSettings, TableEnvironment


def cpu_seconds() -> float:
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def started(job: dict) -> TableEnvironment:
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "parallelism.default": "2",
        "state.backend.type": job["backend"],
        "table.local-time-zone": "UTC",
        "table.exec.source.idle-timeout": "0 ms",
        "taskmanager.memory.managed.size": "1 gb",  # for RocksDB; with the 128 MB of a local Flink it starves
    }
    for name, value in settings.items():
        environment.get_config().set(name, value)
    for statement in job["sources"].split(";"):
        if statement.strip():
            environment.execute_sql(statement)
    return environment


def main() -> None:
    job = json.load(sys.stdin)
    environment = started(job)
    done = set()
    for number, (name, select) in enumerate(job["queries"]):
        if name in done:
            continue
        began, cpu = time.perf_counter(), cpu_seconds()
        try:
            sink = f"CREATE TABLE sink_{number} WITH ('connector' = 'blackhole') AS {select}"
            environment.execute_sql(sink).wait()
            outcome = {"seconds": time.perf_counter() - began, "cpu": cpu_seconds() - cpu}
        except Exception as error:
            outcome = {"error": str(error).strip().splitlines()[-1]}
        if outcome.get("seconds", job["long"]) >= job["long"]:
            done.add(name)
        print(json.dumps({"query": name, **outcome}), flush=True)


if __name__ == "__main__":
    main()
