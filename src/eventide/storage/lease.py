"""The right to use a checkpoint in a store that has no locks: held by showing that one is alive.

    owners/ID.json   who wants or has it, and a number that grows while that process lives
    owners/ID.over   it was silent for too long, and has lost the right for ever

Who wants it writes its own object and then lists the others: of two that try at once, the one whose object is there
last sees the other's, so that never both believe to be alone. A process that has it writes its object again every few
seconds. One that was silent for `TAKEN_AFTER` seconds, by the clock of the one who looks, is told by the second object
that it is over; only if it is silent even then, the right is free. A process that has not been heard for `SURE_FOR`
seconds, by its own clock, writes nothing before it has shown itself again and found that it is not over. So two
processes write at the same time only if a request stays under way for longer than the difference of the two. Clocks
need not agree, only run at about the same speed. Where the other process was on this machine and is gone, nobody waits.
"""

from __future__ import annotations

import json
import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from eventide.errors import CheckpointError, StorageError
from eventide.storage.paths import OWNED, Ownership, RemotePath

BEAT, SURE_FOR, TAKEN_AFTER = 4.0, 20.0, 30.0  # seconds
_ATTEMPTS = 5
_FORGET_AFTER = 3600.0  # seconds: objects of owners that are over
_LOG = logging.getLogger("eventide")


def _steady() -> float:
    """Seconds that go on while the machine sleeps, where the system knows such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """See `storage.layout.hold`. `clock` and `sleep` are seconds."""

    def __init__(
        self,
        root: RemotePath,
        folder: RemotePath,
        clock: Callable[[], float] = _steady,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._root, self._folder, self._clock, self._sleep = root, folder, clock, sleep
        self._id = uuid.uuid4().hex
        self._beats = 0
        self._confirmed = clock()
        self._lost = False
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._take()
        OWNED[root] = Ownership(self.check, folder)
        self._heart = threading.Thread(target=self._keep, name="eventide lease", daemon=True)
        self._heart.start()

    def check(self) -> None:
        """Raise if the right is somebody else's by now, or may be."""
        silent = self._clock() - self._confirmed
        if silent > SURE_FOR and not self._lost:
            self._lost = silent > _FORGET_AFTER / 2  # it may have been told, and that be forgotten
            if not self._lost:
                self.beat()
        self._raise_if_lost()

    def _raise_if_lost(self) -> None:
        if self._lost:
            raise StorageError(
                f"the checkpoint {self._root} is not held by this process any more",
                help="it could not be reached for a while, and another process has gone on with it; if there is none, "
                "start again",
            )

    def beat(self) -> None:
        """Show that this process is alive, and see whether it still has the right."""
        with self._writing:
            asked = self._clock()
            self._write()
            if self._is_over(self._id):
                self._lost = True
            else:
                self._confirmed = asked  # from before the request: what others see is later
        self._raise_if_lost()

    def release(self) -> None:
        self._ended.set()
        OWNED.pop(self._root, None)
        with self._writing, suppress(OSError):
            if not self._lost:
                self._claim(self._id).unlink(missing_ok=True)
            self._lost = True

    def _keep(self) -> None:
        while not self._ended.wait(BEAT):
            if self._lost:
                return
            with suppress(OSError, StorageError):  # who writes next tries again
                self.beat()

    # Taking it ------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        for _ in range(_ATTEMPTS):
            self._write()
            self._confirmed = self._clock()
            try:
                others = [each for each in self._claims() if each != self._id and not self._is_over(each)]
                if not others:
                    self._tidy()
                    return
            except BaseException:
                self._claim(self._id).unlink(missing_ok=True)
                raise
            self._claim(self._id).unlink(missing_ok=True)  # while we look whether they are alive, others may try
            for other in others:
                self._outlive(other)
            self._sleep(random.uniform(0, 0.5))
        raise self._refused("other processes that open it as well")

    def _outlive(self, other: str) -> None:
        """Raise if the other one is alive; otherwise it is over."""
        first = self._read(other)
        if first is None:
            return
        is_alive = _is_running(first)
        if is_alive:
            raise self._refused(_named(first))
        if is_alive is None:
            _LOG.warning("%s was open in %s: waiting whether that is alive", self._root, _named(first))
            end = self._clock() + TAKEN_AFTER
            while self._clock() < end:
                self._sleep(BEAT / 2)
                now = self._read(other)
                if now is None:
                    return
                if now != first:
                    raise self._refused(_named(first))
        (self._folder / f"{other}.over").write_bytes(b"")
        if self._read(other) not in (first, None):  # it has awoken, and does not know yet that it is over
            raise self._refused(_named(first))
        self._claim(other).unlink(missing_ok=True)

    def _refused(self, holder: str) -> CheckpointError:
        return CheckpointError(
            f"the checkpoint {self._root} is open in {holder}",
            help="close that database first, or use another checkpoint folder; two writers would corrupt it",
        )

    # Objects --------------------------------------------------------------------------------------------------

    def _claim(self, owner: str) -> RemotePath:
        return self._folder / f"{owner}.json"

    def _claims(self) -> list[str]:
        return [path.stem for path in self._folder.glob("*.json")]

    def _is_over(self, owner: str) -> bool:
        try:
            (self._folder / f"{owner}.over").read_bytes()  # one request; `exists` makes two
        except FileNotFoundError:
            return False
        return True

    def _read(self, owner: str) -> dict[str, Any] | None:
        with suppress(FileNotFoundError, ValueError):
            found: dict[str, Any] = json.loads(self._claim(owner).read_text())
            return found
        return None

    def _write(self) -> None:
        self._beats += 1
        claim = {**_myself(), "beat": self._beats}
        self._claim(self._id).write_bytes(json.dumps(claim).encode())

    def _tidy(self) -> None:
        """Forget owners that have been over for long: they know it by their own clocks."""
        for path in list(self._folder.glob("*.over")):
            if time.time() - path.stat().st_mtime_ns / 1e9 > _FORGET_AFTER:
                self._claim(path.stem).unlink(missing_ok=True)
                path.unlink(missing_ok=True)


def holders(folder: RemotePath) -> list[str]:
    """Who has shown lately to be alive, for those who only look."""
    found = []
    for path in list(folder.glob("*.json")):
        with suppress(OSError, ValueError):
            claim = json.loads(path.read_text())
            seen = time.time() - path.stat().st_mtime_ns / 1e9
            if _is_running(claim) or (_is_running(claim) is None and seen < TAKEN_AFTER):
                found.append(_named(claim))
    return found


def _named(claim: dict[str, Any]) -> str:
    return f"process {claim.get('process')} on {claim.get('host')}"


def _myself() -> dict[str, Any]:
    return {"host": socket.gethostname(), "machine": _machine(), "process": os.getpid(), "began": _began(os.getpid())}


def _is_running(claim: dict[str, Any]) -> bool | None:
    """Whether the process of a claim is there; None if it is on another machine, or this one cannot tell."""
    machine, process = _machine(), claim.get("process")
    if machine is None or claim.get("machine") != machine or not isinstance(process, int):
        return None
    return _began(process) == claim.get("began")


def _machine() -> str | None:
    """This machine since it was started, and the container in which its processes have their numbers."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return None


def _began(process: int) -> int | None:
    """When a process of this machine began, in the system's own measure; None if it is not there, or a zombie."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
