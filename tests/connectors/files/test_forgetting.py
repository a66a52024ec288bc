"""Names of files that are gone are forgotten in time; what is there is never taken twice, and nothing in silence."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventide.admission.pacing import AdaptiveBatcher, Pacing
from eventide.connectors.files import discoveries
from eventide.connectors.files.admission import FileAdmission, Forgetting
from eventide.connectors.files.discoveries import DiscoveryLog
from eventide.connectors.files.listing import FoundFile
from eventide.connectors.files.remembered import Remembered
from eventide.errors import CheckpointError
from eventide.storage.passed_over import PassedOver, scan_figures

SECOND = 1_000_000
HOUR, DAY = 3600 * SECOND, 86_400 * SECOND


@pytest.fixture(autouse=True)
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discoveries, "_WHOLE", 10)


class Folder:
    """Files that are there, with when they arrived; every listing finds all."""

    def __init__(self) -> None:
        self.files: dict[str, FoundFile] = {}

    def put(self, name: str, arrived: int, settled: int = 0) -> None:
        self.files[name] = FoundFile(name, arrived - settled, 100, settled)

    def new_files(self, known: object) -> list[FoundFile]:
        found = [file for name, file in self.files.items() if name not in known]  # type: ignore[operator]
        return sorted(found, key=lambda file: (file.modified, file.path))


class Source:
    """A stream that takes what is in a folder, batch after batch."""

    def __init__(self, state: Path, after: int = DAY) -> None:
        self.folder, self.state, self.after = Folder(), state, after
        self.taken: list[str] = []
        self.restart()

    def restart(self) -> None:
        self.log = DiscoveryLog(self.state)
        forgetting = Forgetting(self.after, lambda: self.folder.new_files(()), PassedOver(self.state))
        batcher = AdaptiveBatcher(Pacing(2.0, initial_batch=100, min_batch=10))
        self.admission = FileAdmission(self.folder, self.log, batcher, forgetting=forgetting)  # type: ignore[arg-type]

    def batch(self) -> list[str]:
        start = len(self.taken)
        end = self.admission.admit_all(start, 0.0)
        names = [file.path for file in self.admission.files(start, end)]
        self.taken += names
        return names

    def run(self, first: int, last: int, stays: bool = False) -> None:
        """A file an hour, each in a batch of its own."""
        for number in range(first, last):
            self.folder.put(f"/in/{number}", number * HOUR)
            assert self.batch() == [f"/in/{number}"]
            if not stays:
                del self.folder.files[f"/in/{number}"]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    yield Source(tmp_path / "scans" / "0")


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_names_of_files_that_are_gone_are_forgotten_a_day_after_the_newest(source: Source) -> None:
    source.run(0, 500)
    after_500 = size(source.state)
    source.run(500, 5_000)
    assert len(source.log) == 5_000 and source.log.first > 4_900
    assert "/in/4970" in source.log and "/in/4800" not in source.log
    assert size(source.state) < 1.5 * after_500
    assert {path.name for path in source.state.iterdir()} == {
        f"files-{source.log.first:012d}.log",
        f"names-{source.log.first:012d}.z",
    }


def test_a_file_that_is_there_is_never_taken_again(source: Source) -> None:
    source.run(0, 300, stays=True)
    for _ in range(2):
        assert source.batch() == [] and all(name in source.log for name in source.folder.files)
        source.restart()


def test_what_lies_in_the_folder_takes_little_of_the_checkpoint(source: Source) -> None:
    source.run(0, 2_000, stays=True)
    names = source.state / f"names-{source.log.first:012d}.z"
    assert names.stat().st_size < 12 * 2_000


def test_numbers_go_on_after_a_restart(source: Source) -> None:
    source.run(0, 100)
    source.restart()
    assert len(source.log) == 100 and source.log.files(95, 100)[0].path == "/in/95"
    source.run(100, 200)


def test_a_file_whose_name_was_forgotten_and_that_is_as_it_was_is_passed_over(source: Source) -> None:
    source.run(0, 300)
    source.folder.put("/in/7", 7 * HOUR)  # a disk that was not mounted
    assert source.batch() == []
    assert scan_figures(source.state.parent) == {"files_passed_over": 1}
    assert json.loads((source.state / "passed_over.json").read_text())["names"] == ["/in/7"]
    source.restart()
    assert source.batch() == [] and scan_figures(source.state.parent) == {"files_passed_over": 1}


def test_a_file_that_was_passed_over_is_taken_when_it_is_touched(source: Source) -> None:
    source.run(0, 300)
    source.folder.put("/in/old", 7 * HOUR)
    assert source.batch() == []
    source.folder.put("/in/old", 301 * HOUR)
    assert source.batch() == ["/in/old"] and scan_figures(source.state.parent) == {}


def test_an_old_file_that_is_moved_there_is_taken(source: Source) -> None:
    source.run(0, 300)
    source.folder.put("/in/moved", 301 * HOUR, settled=300 * HOUR)
    assert source.batch() == ["/in/moved"]


def test_a_folder_with_years_of_files_is_taken_as_a_whole_and_old_ones_that_join_them_too(source: Source) -> None:
    for number in range(100):
        source.folder.put(f"/in/{number}", number * 100 * DAY)
    assert len(source.batch()) == 100
    source.run(250_000, 250_030)  # names are put together here, and nothing is gone for long
    source.folder.put("/in/older", HOUR)
    assert source.batch() == ["/in/older"]


def test_a_time_to_come_does_not_make_others_old(source: Source) -> None:
    source.folder.put("/in/2199", 230 * 365 * DAY)
    now = 56 * 365 * DAY
    log = Remembered().with_files([FoundFile("a", now - HOUR, 1), FoundFile("2199", 230 * 365 * DAY, 1)], 2)
    assert set(log.without_gone([], DAY, now).arrivals()) == {"a", "2199"}


@pytest.mark.parametrize("step", ["log", "names", "tidy"])
def test_a_crash_while_names_are_put_together_changes_nothing(
    source: Source, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    source.run(0, 19)
    with monkeypatch.context() as patched:
        patched.setattr(
            *{
                "log": (discoveries, "growing", crash),
                "names": (Remembered, "write", crash),
                "tidy": (DiscoveryLog, "_tidy", crash),
            }[step]
        )
        with pytest.raises(KeyboardInterrupt):
            source.run(19, 40)
    source.restart()
    number = len(source.taken)
    assert number == 20 and source.log.files(15, 20)[0].path == "/in/15" and "/in/3" in source.log
    assert len({path.name for path in source.state.iterdir()}) == 1 + (step == "tidy")
    source.run(20, 60)


def test_damaged_names_are_refused(source: Source) -> None:
    source.run(0, 100)
    names = source.state / f"names-{source.log.first:012d}.z"
    whole = names.read_bytes()
    for place in (0, len(whole) // 2, len(whole) - 1):
        names.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match=names.name):
            source.restart()
    names.write_bytes(whole)
    os.unlink(source.log.path)
    with pytest.raises(CheckpointError, match="is missing"):
        source.restart()


def test_a_log_of_0_3_3_goes_on(source: Source) -> None:
    rest = b'[0,1738324800000000,5120,"/data/a.json"]'
    import zlib

    (source.state / "files.log").write_bytes(b"eventide files 1\n%08x %s\n" % (zlib.crc32(rest), rest))
    source.restart()
    source.taken = ["/data/a.json"]
    source.run(0, 60)
    assert "/data/a.json" in source.log
