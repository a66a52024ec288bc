"""A real standalone cluster on this machine: a master and workers, each a JVM of its own with a folder of its own.

Its classes come with pyspark. Everything listens on loopback, at ports that are free. Each worker has an address of its
own, where there are several (Linux): Spark repeats a slow task only on another host.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

_SPARK = Path(pyspark.__file__).parent
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # JVMs that live for a minute
_LONGEST_SECONDS = 300.0
_EXECUTOR = "CoarseGrainedExecutorBackend"
# small executors, which report every second: a dead one is noticed soon
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _QUICK,
    "spark.executor.heartbeatInterval": "1s",
    "spark.ui.enabled": "false",
}


@dataclass
class Node:
    """A master or a worker: its process, and where it says what it does."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def said(self, pattern: str) -> str:
        """The first group of what the log says, when it does."""
        end = time.monotonic() + _LONGEST_SECONDS
        while time.monotonic() < end:
            found = re.search(pattern, self.log.read_text(errors="replace"))
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} has not come up:\n{self.log.read_text(errors='replace')[-3000:]}")

    def executors(self) -> list[psutil.Process]:
        """The executors that run here now."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children(recursive=True)
            return [each for each in children if _is_executor(each)]
        return []

    def kill(self) -> None:
        """-9, together with its executors: the machine is gone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for each in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
        self.process.wait()


def _is_executor(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(_EXECUTOR in word for word in process.cmdline())
    return False


@dataclass
class Cluster:
    """Workers come and go; the master stays."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    workers: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.master = self._node("master", "127.0.0.1", "org.apache.spark.deploy.master.Master")
        self.url = self.master.said(r"Starting Spark master at (spark://\S+)")

    def add_worker(self, cores: int = 1) -> Node:
        name = f"worker{len(self.workers)}"
        arguments = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(self.folder / name), self.url]
        host = f"127.0.0.{2 + len(self.workers)}" if sys.platform == "linux" else "127.0.0.1"
        worker = self._node(name, host, "org.apache.spark.deploy.worker.Worker", *arguments)
        self.workers.append(worker)
        worker.said(r"(Successfully registered with master)")
        return worker

    def close(self) -> None:
        for node in (*self.workers, self.master):
            node.kill()

    def _node(self, name: str, host: str, main: str, *arguments: str) -> Node:
        folder, log = self.folder / name, self.folder / f"{name}.log"
        folder.mkdir(parents=True, exist_ok=True)
        command = [_java(), *_QUICK.split(), "-Xmx256m", "-cp", f"{_SPARK / 'jars'}/*", main]
        spark = {"SPARK_HOME": str(_SPARK), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_DIRS": str(folder)}
        environment = {**os.environ, **spark, **self.environment}
        with log.open("wb") as written:
            process = subprocess.Popen(
                [*command, "--host", host, "--port", "0", "--webui-port", "0", *arguments],
                stdout=written,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=folder,
                env=environment,
            )
        return Node(name, process, log)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


@contextlib.contextmanager
def running(folder: Path, environment: Mapping[str, str], workers: int = 2) -> Iterator[Cluster]:
    """A cluster in `folder`; what its processes find in the environment beside this one's."""
    cluster = Cluster(folder, environment)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()
