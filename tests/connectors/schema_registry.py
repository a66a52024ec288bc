"""A schema registry for the tests: Apicurio, on the loopback, in memory, from what scripts/registry.sh fetches."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

MISSING = "no schema registry: scripts/registry.sh fetches one with Maven"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eventide"
_VERSION = "3.0.9"  # the newest that runs on Java 17
FOLDER = Path(os.environ.get("APICURIO_HOME") or _CACHE / f"apicurio-{_VERSION}")
_SECONDS = 500  # a loaded machine takes its time; most need ten


def is_there() -> bool:
    """Whether a registry can be started here."""
    return (FOLDER / "complete").exists() and _java() is not None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


@contextlib.contextmanager
def running_registry(folder: Path) -> Iterator[str]:
    """The address of its interface that answers as Confluent's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"]
    jar = FOLDER / f"apicurio-registry-app-{_VERSION}-runner.jar"
    command = [_java() or "java", *options, f"-Dquarkus.http.port={port}", "-jar", str(jar)]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
    try:
        url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        _await(process, f"{url}/subjects", folder / "log")
        yield url
    finally:
        process.kill()
        process.wait()


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=20):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the registry did not start:\n{log.read_text()[-2000:]}")
