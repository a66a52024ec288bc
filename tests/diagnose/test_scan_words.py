"""What is said of files that are not taken."""

from __future__ import annotations

from pathlib import Path

from eventide.diagnose.scan_words import scan_lines
from eventide.storage.passed_over import PassedOver, scan_figures


def test_nothing_is_said_as_long_as_all_files_are_taken(tmp_path: Path) -> None:
    PassedOver(tmp_path / "0").note([], taken=["/in/a"])
    assert scan_figures(tmp_path) == {} and scan_lines({}) == []


def test_files_that_are_passed_over_are_counted_over_all_scans(tmp_path: Path) -> None:
    PassedOver(tmp_path / "0").note(["/in/a", "/in/b"], taken=[])
    PassedOver(tmp_path / "1").note(["/in/c"], taken=[])
    figures = scan_figures(tmp_path)
    assert figures == {"files_passed_over": 3}
    assert scan_lines(figures)[0].startswith("3 files are not taken: they are older than files whose names")
