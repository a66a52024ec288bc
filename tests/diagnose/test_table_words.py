"""What `why` says of tables."""

from __future__ import annotations

from eventide.diagnose.table_words import table_lines

FINE = {"version": 3, "rows": 2, "read_at": 0, "checked_at": 0, "refresh_failures": 0, "refresh_error": None}
MINUTE = 60_000_000


def test_nothing_is_said_of_a_table_that_is_well() -> None:
    assert table_lines({"t": FINE}, MINUTE) == []


def test_a_table_that_could_not_be_read_anew_says_what_is_used_instead() -> None:
    stale = {**FINE, "refresh_failures": 2, "refresh_error": "table t: the path /t does not exist"}
    assert table_lines({"t": stale, "u": FINE}, 10 * MINUTE) == [
        "The table t could not be read anew, 2 times in a row: table t: the path /t does not exist. "
        "Version 3, read at 1970-01-01 00:00:00 (10m ago), stays in use."
    ]


def test_a_table_that_was_never_read_says_so() -> None:
    none = {**FINE, "version": None, "rows": None, "read_at": None, "refresh_failures": 1, "refresh_error": "gone"}
    assert table_lines({"t": none}, MINUTE) == [
        "The table t could not be read anew, once: gone. There is no version of it yet."
    ]
