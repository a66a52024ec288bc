"""HDFS for the tests: a name node and a data node on the loopback, from the jars that scripts/hdfs.sh fetches."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from eventide.storage.paths import RemotePath, remote_path

MISSING = "no HDFS: scripts/hdfs.sh fetches its jars with Maven, and `make setup` the package hdfs-native"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eventide"
JARS = Path(os.environ.get("HDFS_JARS") or _CACHE / "hdfs-3.5.0")
_NODES = ("namenode.NameNode", "datanode.DataNode")

_SETTINGS = {
    "fs.defaultFS": "hdfs://{address}",
    "hadoop.tmp.dir": "{folder}/data",
    "dfs.replication": "1",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
}


def is_there() -> bool:
    """Whether HDFS can be started here, and we can speak to it."""
    return (JARS / "complete").exists() and _java() is not None and has_client()


def has_client() -> bool:
    return importlib.util.find_spec("hdfs_native") is not None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class HdfsServer:
    """What was stored is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = f"127.0.0.1:{_free_port()}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        settings = {name: value.format(address=self.address, folder=self._folder) for name, value in _SETTINGS.items()}
        properties = "".join(
            f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
            for name, value in settings.items()
        )
        (self._folder / "core-site.xml").write_text(f"<configuration>\n{properties}</configuration>\n")
        self._run(_NODES[0], "-format", "-nonInteractive").wait()
        self._processes = [self._run(node) for node in _NODES]
        self._wait()

    def _wait(self) -> None:
        """Until a file can be written: the data node must have told the name node that it is there."""
        host, port = self.address.split(":")
        probe, problem, listens = self.folder("probe") / "file", "", False
        for _ in range(1200):
            if any(process.poll() is not None for process in self._processes):
                break
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.2):
                listens = True
            if listens:
                try:
                    probe.write_bytes(b"x")
                except OSError as error:
                    problem = str(error)
                else:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"HDFS did not start: {problem}\n{(self._folder / 'log').read_text()[-2000:]}")

    def _run(self, node: str, *arguments: str) -> subprocess.Popen[bytes]:
        # without its second compiler and G1 Java starts faster, and a test needs no fast HDFS
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
        command = [_java() or "java", *options, "-cp", f"{self._folder}{os.pathsep}{JARS}/*"]
        environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, f"org.apache.hadoop.hdfs.server.{node}", *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes = []

    def new_folder(self) -> str:
        """The URI of a folder that nobody has used."""
        return f"hdfs://{self.address}/{uuid.uuid4().hex[:12]}"

    def folder(self, name: str) -> RemotePath:
        return remote_path(f"hdfs://{self.address}/{name}", {})


@contextlib.contextmanager
def running_hdfs(folder: Path) -> Iterator[HdfsServer]:
    server = HdfsServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
