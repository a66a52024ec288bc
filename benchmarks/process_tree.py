"""What this process and everything below it use: Spark's JVM, its Python workers, and this process itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import psutil

SAMPLE_SECONDS = 0.1


def members() -> Iterator[psutil.Process]:
    process = psutil.Process()
    yield process
    yield from process.children(recursive=True)


def cpu_seconds() -> float:
    """Of all living processes, and of those that have ended and been waited for, which the system adds to their
    parents.
    """
    total = 0.0
    for process in members():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def resident_bytes() -> dict[str, int]:
    """By kind of process: java, python workers, and this one. Pages that forked workers share are counted once, where
    the system can tell.
    """
    own, sizes = psutil.Process().pid, {"java": 0, "workers": 0, "driver": 0}
    for process in members():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            kind = "driver" if process.pid == own else "java" if process.name() == "java" else "workers"
            sizes[kind] += _proportional(process) if kind == "workers" else process.memory_info().rss
    return sizes


def _proportional(process: psutil.Process) -> int:
    """Its own pages, and its share of shared ones. Only Linux can tell, and takes a millisecond per 100 MB to count."""
    return int(process.memory_full_info().pss if psutil.LINUX else process.memory_info().rss)


class Sampler:
    """Calls `measure` ten times a second inside the `with` block, and keeps the results."""

    def __init__(self, measure: Callable[[], Any] = resident_bytes) -> None:
        self.samples: list[Any] = []
        self._measure = measure
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self.samples.append(self._measure())
            if self._done.wait(SAMPLE_SECONDS):
                return
