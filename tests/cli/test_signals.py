"""Ctrl-C as a terminal sends it: to the command and to all that it has started."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

EVENTIDE = [sys.executable, "-m", "eventide"]
LONGEST = 500  # seconds until a process that hangs is killed
APP = """
CREATE SOURCE numbers WITH ('connector' = 'rate', 'rows_per_second' = '20');
CREATE STREAM o AS SELECT window_start, count(*) AS n FROM numbers GROUP BY TUMBLE(timestamp, INTERVAL '2' SECOND);
"""


class Command:
    """An `eventide` command in a process group of its own; `mark` is in the environment of all its descendants."""

    def __init__(self, folder: Path, *arguments: str, stdin: int | None = None) -> None:
        self.mark = f"EVENTIDE_TEST_MARK={folder}"
        name, _, value = self.mark.partition("=")
        environment = {**os.environ, name: value, "COLUMNS": "200", "NO_COLOR": "1"}
        self.output = folder / "output"
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [*EVENTIDE, *arguments],
                stdin=stdin,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + LONGEST
        while not condition() and time.monotonic() < end:
            time.sleep(0.1)

    def interrupt(self) -> int:
        """Press Ctrl-C and wait for the end; gives the exit status."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(LONGEST)

    def descendants(self) -> list[str]:
        """The command lines of all processes that the command has started, whatever their group and parent."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                marked = self.mark.encode() in (folder / "environ").read_bytes().split(b"\0")
                if marked and int(folder.name) != self.process.pid:
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue  # it has just ended
        return [line for line in found if line]

    def kill(self) -> None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
            except OSError:
                continue
        self.process.wait()


@pytest.fixture
def commands() -> Iterator[list[Command]]:
    started: list[Command] = []
    yield started
    for command in started:
        command.kill()


@pytest.mark.slow
def test_control_c_while_spark_starts_leaves_nothing_behind(tmp_path: Path, commands: list[Command]) -> None:
    (tmp_path / "app.sql").write_text(APP)
    command = Command(tmp_path, "run", str(tmp_path / "app.sql"))
    commands.append(command)
    command.wait_until(lambda: any("java" in line for line in command.descendants()))
    assert command.interrupt() != 0
    command.wait_until(lambda: not command.descendants())
    assert command.descendants() == [] and "Traceback" not in command.text


@pytest.mark.slow
def test_control_c_on_a_source_that_never_ends_flushes_and_reads_nothing_more(
    tmp_path: Path, commands: list[Command]
) -> None:
    (tmp_path / "app.sql").write_text(APP)
    command = Command(tmp_path, "run", str(tmp_path / "app.sql"), "--checkpoint", str(tmp_path / "state"))
    commands.append(command)
    command.wait_until(lambda: len(list((tmp_path / "state").glob("streams/o/results/*.main.arrow"))) >= 2)
    assert command.interrupt() == 0, command.text
    last = command.text.strip().splitlines()[-1]
    assert last.startswith("o: rows in") and last.endswith("✓") and "late" not in last
    assert "Traceback" not in command.text and command.descendants() == []


@pytest.mark.slow
def test_control_c_in_the_shell_shows_no_traceback(tmp_path: Path, commands: list[Command]) -> None:
    primary, secondary = pty.openpty()
    try:
        command = Command(tmp_path, "sql", stdin=secondary)
        commands.append(command)
        command.wait_until(lambda: any("java" in line for line in command.descendants()))
        command.interrupt()
        command.wait_until(lambda: not command.descendants())
        assert "Traceback" not in command.text and command.descendants() == []
    finally:
        os.close(primary)
        os.close(secondary)
