"""What the driver sees of a folder: how many bytes a batch took, and how many wait."""

from __future__ import annotations

from pathlib import Path

from eventide.connectors.files.listing import FoundFile
from eventide.connectors.files.waiting import TAKEN, FilesWaiting
from eventide.errors import SourceError
from eventide.storage.atomic import write_json


class Folder:
    """Files by name: when they were written, and how long they are."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, int]] = {}

    def new_files(self, known: set[str]) -> list[FoundFile]:
        return [FoundFile(name, *found) for name, found in self.files.items() if name not in known]


def test_files_that_came_after_a_batch_began_wait_and_those_before_it_were_taken() -> None:
    folder = Folder()
    folder.files["old"] = (1, 1000)
    waiting = FilesWaiting(folder.new_files)
    assert waiting.observe(began=5) is None  # what was there before is nobody's news
    folder.files.update({"a": (6, 10), "b": (12, 20)})
    assert waiting.observe(began=10) == (10, 20)
    folder.files["c"] = (25, 40)
    assert waiting.observe(began=20) == (20, 40)
    assert waiting.observe(began=30) == (40, 0)


def test_what_a_paced_scan_left_waits_as_well(tmp_path: Path) -> None:
    folder = Folder()
    waiting = FilesWaiting(folder.new_files, tmp_path / TAKEN)
    waiting.observe(began=0)
    folder.files.update({"a": (1, 10), "b": (2, 20), "c": (3, 40)})
    write_json(tmp_path / TAKEN, {"left": 60})
    assert waiting.observe(began=5) == (10, 60)
    folder.files["d"] = (7, 100)
    write_json(tmp_path / TAKEN, {"left": 40})
    assert waiting.observe(began=6) == (20, 140)


def test_a_folder_that_cannot_be_read_says_nothing() -> None:
    def refuses(known: set[str]) -> list[FoundFile]:
        raise SourceError("it is gone")

    assert FilesWaiting(refuses).observe(began=1) is None
