"""`eventide validate`, `explain`, `version` and `--help`: no Spark, clear errors."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventide.cli.app import main

SOURCE = "CREATE SOURCE clicks (visitor STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);"
STREAM = "CREATE STREAM per_user AS SELECT visitor, count(*) AS n FROM clicks GROUP BY visitor, TUMBLE(ts, INTERVAL '10' SECOND);"


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


def app(tmp_path: Path, text: str) -> str:
    file = tmp_path / "app.sql"
    file.write_text(text)
    return str(file)


def test_a_valid_file_is_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(capsys, "validate", app(tmp_path, f"{SOURCE}\n{STREAM}")) == (0, "ok: 1 source, 1 stream, 0 sinks\n", "")


def test_an_invalid_file_underlines_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = outcome(capsys, "validate", app(tmp_path, f"{SOURCE}\nCREATE STREAM x AS SELECT n FROM click;"))
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and "clicks" in err and "^" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"", "is empty"), (b"SELECT '\xff';", "not UTF-8")],
)
def test_a_file_that_cannot_be_read_is_a_clear_error(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "app.sql"
    if content is not None:
        file.write_bytes(content)
    code, _, err = outcome(capsys, "validate", str(file))
    assert code == 1 and message in err


def test_a_folder_is_not_a_sql_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome(capsys, "validate", str(tmp_path))
    assert code == 1 and "is a folder" in err


def test_explain_shows_the_plan_with_its_watermark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "explain", app(tmp_path, f"{SOURCE}\n{STREAM}"), "per_user")
    assert code == 0 and "per_user" in out and "atermark" in out and "clicks" in out


def test_explain_of_an_unknown_stream_names_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome(capsys, "explain", app(tmp_path, f"{SOURCE}\n{STREAM}"), "per_usr")
    assert code == 1 and "did you mean per_user?" in err


def test_version_names_eventide_and_spark(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "version")
    assert code == 0 and "eventide " in out and "pyspark 4.3" in out


def test_help_is_there_in_half_a_second() -> None:
    def timed() -> float:
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "eventide", "--help"], capture_output=True, text=True, check=True)
        assert "explain" in done.stdout
        return time.monotonic() - started

    assert min(timed() for _ in range(3)) < 0.5
