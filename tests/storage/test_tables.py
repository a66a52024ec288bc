"""Versions of tables, and which of them a batch uses."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eventide.errors import CheckpointError
from eventide.storage.paths import AnyPath
from eventide.storage.tables import TableVersions, VersionLog, table_figures

SECOND = 1_000_000
ANN, BOB = pa.table({"name": ["Ann"]}), pa.table({"name": ["Ann", "Bob"]})


def test_a_version_is_read_as_it_was_published(folder: AnyPath) -> None:
    versions = TableVersions(folder / "t")
    assert versions.state().latest is None
    versions.publish(ANN, 1 * SECOND, "a")
    second = versions.publish(BOB, 2 * SECOND, "b")
    assert TableVersions(folder / "t").state().latest == second
    assert versions.read(1) == ANN and versions.read(2) == BOB


def test_a_table_that_fails_keeps_its_version_and_says_how_often_it_failed(folder: AnyPath) -> None:
    versions = TableVersions(folder / "t")
    versions.publish(ANN, 1 * SECOND, "a")
    versions.failed(2 * SECOND, "no such file")
    versions.failed(3 * SECOND, "no such file")
    figures = table_figures(versions.state(), 1)
    assert figures == {
        "version": 1,
        "rows": 1,
        "read_at": 1000,
        "checked_at": 3000,
        "refresh_failures": 2,
        "refresh_error": "no such file",
    }
    versions.unchanged(4 * SECOND)
    assert table_figures(versions.state(), 1)["refresh_failures"] == 0
    assert table_figures(versions.state(), 1)["refresh_error"] is None


def test_versions_that_no_batch_needs_are_deleted(folder: AnyPath) -> None:
    versions = TableVersions(folder / "t")
    for number in range(1, 5):
        versions.publish(ANN, number * SECOND, str(number))
    versions.forget_all_but([2])
    assert [version.number for version in versions.state().versions] == [2, 4]
    assert sorted(path.name for path in (folder / "t").glob("*.arrow")) == ["000002.arrow", "000004.arrow"]
    assert versions.publish(BOB, 5 * SECOND, "5").number == 5


def test_a_missing_version_is_a_damaged_checkpoint(folder: AnyPath) -> None:
    with pytest.raises(CheckpointError, match=r"000007\.arrow is missing"):
        TableVersions(folder).read(7)


def test_a_batch_that_comes_again_uses_the_version_that_it_used(folder: AnyPath) -> None:
    """began   10        20            30
    log  v1 ─────────┤     v2 ──────────────
    """
    log = VersionLog(folder / "tables.json")
    log.add(5 * SECOND, None, {"t": 1})
    log.add(21 * SECOND, 20 * SECOND, {"t": 2})
    again = VersionLog(folder / "tables.json")
    assert again.at(20 * SECOND) == {"t": 1}, "it began before the change"
    assert again.at(30 * SECOND) == {"t": 2} == again.latest()


def test_a_change_never_reaches_back_to_a_batch_that_has_begun(folder: AnyPath) -> None:
    """Though the clock was set back in between, or no time has passed."""
    log = VersionLog(folder / "tables.json")
    log.add(5 * SECOND, None, {"t": 1})
    log.add(10 * SECOND, 20 * SECOND, {"t": 2})
    assert log.at(20 * SECOND) == {"t": 1}
    assert log.at(20 * SECOND + 1000) == {"t": 2}, "the next batch can begin a millisecond later"


def test_times_are_in_the_milliseconds_that_spark_logs(folder: AnyPath) -> None:
    log = VersionLog(folder / "tables.json")
    log.add(5 * SECOND, None, {"t": 1})
    log.add(20 * SECOND + 700, 10 * SECOND, {"t": 2})
    assert log.at(20 * SECOND) == {"t": 2}, "a batch that begins in the same millisecond is logged without the rest"


def test_only_what_a_batch_may_still_ask_for_is_kept(folder: AnyPath) -> None:
    log = VersionLog(folder / "tables.json")
    for number in range(1, 6):
        log.add(number * SECOND, (number - 1) * SECOND + 500_000 if number > 1 else None, {"t": number})
    assert log.needed() == [{"t": 4}, {"t": 5}]


def test_a_log_before_its_first_entry_has_the_first_versions(folder: AnyPath) -> None:
    log = VersionLog(folder / "tables.json")
    assert log.at(0) == {} == log.latest()
    log.add(5 * SECOND, None, {"t": 1})
    assert log.at(0) == {"t": 1}
