"""A separate PostgreSQL server for the tests: Debian's binaries, a temporary folder, a free port."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MISSING = "no PostgreSQL server: sudo apt-get install -y --no-install-recommends postgresql"


def binaries() -> Path | None:
    """The folder with initdb and postgres, the newest version if there are several."""
    found = [Path(path) for path in glob.glob("/usr/lib/postgresql/*/bin") if (Path(path) / "initdb").exists()]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(os.path.realpath(on_path)).parent


def _account() -> str | None:
    """The user to run PostgreSQL as, since it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    def __init__(self, bin: Path, folder: Path, user: str | None) -> None:
        self._bin, self._folder, self._user = bin, folder, user
        self.port = _free_port()
        self.url = f"postgresql://eventide@127.0.0.1:{self.port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(self._bin / "postgres"), "-D", str(self._folder / "data"), "-p", str(self.port), "-k", "", "-F"]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=50", "-c", "shared_buffers=16MB"]
        path = self._folder / "log"
        before = path.stat().st_size if path.exists() else 0
        with path.open("ab") as log:
            self._process = subprocess.Popen(
                command, user=self._user, stdout=log, stderr=log, cwd="/", env={"PATH": os.environ["PATH"]}
            )
        for _ in range(6_000):  # it listens before it takes connections
            if b"ready to accept connections" in path.read_bytes()[before:]:
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(path.read_text())

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(2)  # a fast shutdown: connections are ended
            self._process.wait(20)
            self._process = None


@contextlib.contextmanager
def server() -> Iterator[Server]:
    bin = binaries()
    if bin is None:
        raise RuntimeError(MISSING)
    user = _account()
    folder = Path(tempfile.mkdtemp(prefix="eventide-postgres-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        options = ["-U", "eventide", "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale"]
        initdb = [str(bin / "initdb"), "-D", str(folder / "data"), *options]
        subprocess.run(initdb, user=user, check=True, capture_output=True, cwd="/", env={"PATH": os.environ["PATH"]})
        running = Server(bin, folder, user)
        running.start()
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
