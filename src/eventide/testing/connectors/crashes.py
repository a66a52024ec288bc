"""A sink whose process dies in the middle of a batch, at every step in turn.

A step is a call that the connector's code makes, or the code of `eventide.storage` on its behalf. The process ends as
by kill -9: nothing is closed, nothing is flushed.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

from eventide.connectors.registry import SINKS
from eventide.connectors.writers import open_sink
from eventide.plan.logical import Sink
from eventide.storage import atomic

_DIED = 9
_SECONDS = 120.0


def steps_of(sink: Sink, identity: str, batch: int, rows: pa.Table) -> int:
    """How many steps it takes to open the sink and to write a batch, which is written."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    code = _run(sink, identity, batch, rows, None, sender)
    if code != 0 or not receiver.poll(1):
        raise AssertionError(f"a process of its own writes to {sink.connector}: it ended with {code}")
    return int(receiver.recv())


def dies_at(step: int, sink: Sink, identity: str, batch: int, rows: pa.Table) -> bool:
    """Whether a process that writes the batch died at this step; False if it came to the end before."""
    return _run(sink, identity, batch, rows, step, None) == _DIED


def _run(sink: Sink, identity: str, batch: int, rows: pa.Table, step: int | None, sender: Any) -> int | None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["eventide.testing.connectors.crashes"])
    process = context.Process(target=_write, args=(list(sys.path), sink, identity, batch, rows, step, sender))
    process.start()
    process.join(_SECONDS)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"writing to {sink.connector} takes more than {_SECONDS:.0f} seconds")
    return process.exitcode


def _write(
    path: list[str], sink: Sink, identity: str, batch: int, rows: pa.Table, step: int | None, sender: Any
) -> None:
    sys.path[:] = path
    counter = _Counter(_folders(sink), step)
    sys.setprofile(counter)
    try:
        writer = open_sink(sink, identity)
        if writer is not None:
            writer.write(batch, rows)
    finally:
        sys.setprofile(None)
    if writer is not None:
        writer.close()
    if sender is not None:
        sender.send(counter.count)


def _folders(sink: Sink) -> tuple[str, ...]:
    """Where the code lies whose calls are steps."""
    open: Callable[..., Any] | None = SINKS[sink.connector].open
    module = sys.modules[open.__module__] if open is not None else atomic
    return tuple(str(Path(str(each.__file__)).parent) for each in (module, atomic))


class _Counter:
    def __init__(self, folders: tuple[str, ...], last: int | None) -> None:
        self.count = 0
        self._folders, self._last = folders, last

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        caller = frame if event == "c_call" else frame.f_back if event == "call" else None
        if caller is not None and caller.f_code.co_filename.startswith(self._folders):
            self.count += 1
            if self.count == self._last:
                os._exit(_DIED)
