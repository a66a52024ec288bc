"""Who may use a checkpoint in a store without locks: one process at a time, and a dead one is not waited for for ever.

Time is the test's own: a clock that moves when somebody sleeps.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eventide.errors import CheckpointError, StorageError
from eventide.storage import lease as module
from eventide.storage.layout import Layout, hold
from eventide.storage.lease import BEAT, SURE_FOR, TAKEN_AFTER, Lease, holders
from eventide.storage.paths import OWNED, RemotePath, listed


class Clock:
    """`during` is called when somebody sleeps, and may let another process do something meanwhile."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.during: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.during()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """No heart beats by itself."""
    monkeypatch.setattr(Lease, "_keep", lambda self: None)
    return Clock()


@pytest.fixture
def take(remote: RemotePath, clock: Clock) -> Iterator[Callable[[], Lease]]:
    """Takes the checkpoint as another process would, of which this machine knows nothing."""
    taken: list[Lease] = []

    def taking() -> Lease:
        taken.append(Lease(remote, remote / "owners", clock, clock.sleep))
        return taken[-1]

    yield taking
    for lease in taken:
        lease.release()
    OWNED.pop(remote, None)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes seem to be on other machines."""
    monkeypatch.setattr(module, "_machine", lambda: None)


def test_a_second_one_on_this_machine_is_refused_at_once(take: Callable[[], Lease], clock: Clock) -> None:
    held, began = take(), clock.now
    with pytest.raises(CheckpointError, match=r"is open in process \d+ on "):
        take()
    assert clock.now == began
    held.check()
    held.release()
    take().check()


def test_a_process_of_this_machine_that_is_gone_is_not_waited_for(
    take: Callable[[], Lease], remote: RemotePath, clock: Clock
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    claim = {**module._myself(), "process": ended.pid, "began": module._began(ended.pid), "beat": 1}
    ended.wait()
    (remote / "owners" / "dead.json").write_bytes(json.dumps(claim).encode())
    before = clock.now
    take().check()
    assert clock.now - before < BEAT


def test_a_second_process_is_refused_until_the_first_is_killed(remote: RemotePath) -> None:
    program = "import pickle, sys, time; from eventide.storage.layout import Layout, hold; "
    program += "hold(Layout(pickle.loads(bytes.fromhex(sys.argv[1])))); print('held', flush=True); time.sleep(600)"
    command = [sys.executable, "-c", program, pickle.dumps(remote).hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "held\n"
            with pytest.raises(CheckpointError, match=f"is open in process {other.pid} on "):
                hold(Layout(remote))
        finally:
            other.kill()
            other.wait()
    hold(Layout(remote)).release()


@pytest.mark.usefixtures("elsewhere")
def test_one_elsewhere_that_shows_itself_is_left_alone(take: Callable[[], Lease], clock: Clock) -> None:
    held = take()
    clock.during = held.beat
    with pytest.raises(CheckpointError, match="is open in"):
        take()
    held.check()


@pytest.mark.usefixtures("elsewhere")
def test_one_elsewhere_that_is_silent_for_long_has_lost_it_for_ever(
    take: Callable[[], Lease], clock: Clock, remote: RemotePath
) -> None:
    silent, before = take(), clock.now
    new = take()
    assert clock.now - before >= TAKEN_AFTER > SURE_FOR
    new.check()
    for _ in range(2):
        with pytest.raises(StorageError, match="not held by this process any more"):
            silent.check()
    assert len(listed(remote / "owners", "*.json")) >= 1
    new.beat()
    new.check()


@pytest.mark.usefixtures("elsewhere")
def test_one_that_awakes_while_it_is_told_keeps_nobody_from_being_safe(
    take: Callable[[], Lease], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows itself between the last look and the word that it is over: then neither has the checkpoint."""
    silent = take()
    plain = RemotePath.write_bytes

    def write(path: RemotePath, content: bytes) -> None:
        if path.suffix == ".over":
            monkeypatch.undo()
            silent.beat()
        plain(path, content)

    monkeypatch.setattr(RemotePath, "write_bytes", write)
    with pytest.raises(CheckpointError, match="is open in"):
        take()
    with pytest.raises(StorageError):
        silent.beat()


def test_who_was_silent_shows_itself_before_it_writes(
    take: Callable[[], Lease], clock: Clock, remote: RemotePath
) -> None:
    lease = take()
    (path,) = listed(remote / "owners", "*.json")
    first = json.loads(path.read_text())["beat"]
    clock.now += SURE_FOR - 1
    (remote / "one").write_bytes(b"x")
    assert json.loads(path.read_text())["beat"] == first
    clock.now += 2
    (remote / "one").write_bytes(b"y")
    assert json.loads(path.read_text())["beat"] == first + 1
    clock.now += 3600
    with pytest.raises(StorageError):
        (remote / "one").write_bytes(b"z")
    assert (remote / "one").read_bytes() == b"y"
    lease.release()


def test_of_several_that_try_at_once_never_two_have_it(remote: RemotePath, clock: Clock) -> None:
    """The others come in when the first has listed nobody, and when it has written its own object."""
    taken: list[Lease] = []
    plain, depth = Lease._claims, 0

    def claims(self: Lease) -> list[str]:
        nonlocal depth
        found = plain(self)
        if depth < 3:
            depth += 1
            with contextlib.suppress(CheckpointError):
                taken.append(Lease(remote, remote / "owners", clock, clock.sleep))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Lease, "_claims", claims)
        with contextlib.suppress(CheckpointError):
            taken.append(Lease(remote, remote / "owners", clock, clock.sleep))
    assert len(taken) <= 1
    for lease in taken:
        lease.release()
    assert listed(remote / "owners", "*.json") == []


def test_who_only_looks_sees_whether_it_is_open(take: Callable[[], Lease], remote: RemotePath) -> None:
    assert holders(remote / "owners") == []
    lease = take()
    assert len(holders(remote / "owners")) == 1
    lease.release()
    assert holders(remote / "owners") == []


def test_a_process_that_has_ended_is_told_from_one_that_has_its_number(tmp_path: Path) -> None:
    mine = module._myself()
    assert module._is_running(mine) is True
    assert module._is_running({**mine, "began": (mine["began"] or 0) + 1}) is False
    assert module._is_running({**mine, "machine": "another"}) is None
