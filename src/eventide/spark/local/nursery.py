"""The parent of the Python processes of a Spark that is started here.

For every kind of question, and anew for every query, Spark starts a Python: to find data sources, to make one, to plan
its reading, to ask it for offsets, to prepare the state of an operator, to run tasks. Each would load the same modules
first, most of a second of CPU, and a stream's first batch waits for six of them. Here they are loaded once, while the
JVM starts, and every Python that Spark asks for is a fork of that: a few milliseconds, and most of its memory is
shared.

    driver ──starts──> nursery ──forks──> the process that Spark asked for
       └──starts──> JVM ──runs──> launcher ──hands over arguments, environment, standard streams──> nursery

The launcher stands for the process as long as it lives: it ends with the same status, and a signal to end goes on to
the process. The nursery ends when the driver does, however that ends: then its standard input does. Without a nursery
the launcher becomes a plain Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from eventide.spark.local import daemon

_ALL = (
    *daemon.OF_TASKS,
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
)
# Spark gives its workers 0 unless the user has one; it cannot be changed in a process that runs
_SEED = "PYTHONHASHSEED"
_LAUNCHER = Path(__file__).with_name("launcher.py")
_ASKING_SECONDS = 10.0
_LONGEST_NAME = 15  # as Linux keeps them


class Nursery:
    """The process, and the `python` for Spark to run. An OSError where there can be none: the folder's path is too long
    for a socket, or it is on a disk that runs no programs.
    """

    def __init__(self, folder: Path) -> None:
        self.python = folder / "python"
        door = folder / "nursery"
        arguments = [sys.executable, "-I", "-S", str(_LAUNCHER), str(door), sys.executable]
        self.python.write_text(f'#!/bin/sh\nexec {shlex.join(arguments)} "$@"\n')
        self.python.chmod(0o700)
        if not os.access(self.python, os.X_OK):
            raise PermissionError(f"{folder} is on a disk that runs no programs")
        environment = {**os.environ, _SEED: os.environ.get(_SEED, "0")}
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(door))
            listening.listen(128)  # whoever asks early waits until all is loaded, which is still faster than alone
            command = [sys.executable, "-m", "eventide.spark.local.nursery", str(listening.fileno())]
            options: dict[str, Any] = {"pass_fds": [listening.fileno()], "start_new_session": True}
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, **options
            )

    def close(self) -> None:
        """After Spark, which stops what it has started."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.terminate()  # a process that the user's code has forked may hold its standard input open
        self._process.wait()


class _Server:
    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._launchers: dict[int, socket.socket] = {}  # by the process that was forked for them
        self._poller = select.poll()
        self._deaths, wake = socket.socketpair()
        for end in (self._deaths, wake):
            end.setblocking(False)
        self._wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source in (0, door, self._deaths):
            self._poller.register(source, select.POLLIN)

    def serve(self) -> None:
        """Until standard input ends."""
        while True:
            ready = {source for source, _ in self._poller.poll()}
            if 0 in ready:
                return
            self._abandon(ready)
            if self._deaths.fileno() in ready:
                self._bury()
            if self._door.fileno() in ready:  # last: a new launcher may get the number of one that has gone
                self._answer(self._door.accept()[0])

    def _answer(self, launcher: socket.socket) -> None:
        """Fork what a launcher asks for, or tell it to be a Python of its own."""
        streams: list[int] = []
        try:
            launcher.settimeout(_ASKING_SECONDS)
            head, streams, _, _ = socket.recv_fds(launcher, 4, 3)
            with launcher.makefile("rb") as asked:
                request = json.loads(asked.read(int.from_bytes(head, "big")))
            if _fits(request):
                self._fork(request, streams, launcher)
                return
            launcher.sendall(b"0\n")
        except (OSError, ValueError):
            pass  # whoever asks so is on its own
        finally:
            for stream in streams:
                os.close(stream)
        launcher.close()

    def _fork(self, request: dict[str, Any], streams: list[int], launcher: socket.socket) -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self._leave(launcher)
                code = _live(request, streams)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code & 0xFF)
        self._launchers[child] = launcher
        self._poller.register(launcher, select.POLLIN)
        with contextlib.suppress(OSError):  # it has gone already: the poller tells
            launcher.sendall(b"%d\n" % child)

    def _leave(self, launcher: socket.socket) -> None:
        """In the child: what belongs to the nursery is none of its business."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for owned in (self._door, self._deaths, self._wake, launcher, *self._launchers.values()):
            owned.close()

    def _bury(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._deaths.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                child, status = os.waitpid(-1, os.WNOHANG)
                if child == 0:
                    return
                launcher = self._launchers.pop(child, None)
                if launcher is not None:
                    code = os.waitstatus_to_exitcode(status)
                    self._poller.unregister(launcher)
                    with contextlib.suppress(OSError), launcher:
                        launcher.sendall(b"%d\n" % (code if code >= 0 else 128 - code))

    def _abandon(self, ready: set[int]) -> None:
        """A launcher says nothing once it has asked. One that can be read was killed; the process that it stood for
        goes too.
        """
        for child, launcher in list(self._launchers.items()):
            if launcher.fileno() in ready:
                self._poller.unregister(launcher)
                launcher.close()
                del self._launchers[child]
                os.kill(child, signal.SIGTERM)


def _fits(request: dict[str, Any]) -> bool:
    """Whether a fork can be the Python that is asked for: one with the same hashes."""
    return bool(request["environment"].get(_SEED, "0") == os.environ[_SEED])


def _live(request: dict[str, Any], streams: list[int]) -> int:
    """The life of a process that was forked, and the status that it ends with."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    _, module, *arguments = request["arguments"]
    _be_called(arguments[0] if arguments else module)
    sys.path[0] = request["folder"]
    sys.path[1:1] = [
        part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part not in sys.path
    ]
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # it is to run as a program, not to be there already
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        for written in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                written.flush()
    return 0


def _be_called(module: str) -> None:
    """Named for what it does in lists of processes: `ev worker` runs tasks."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"ev {module.rpartition('.')[2]}"[:_LONGEST_NAME])


def main(door: int) -> None:
    daemon.keep_memory()
    daemon.preload(_ALL)
    with socket.socket(fileno=door) as listening:
        _Server(listening).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
