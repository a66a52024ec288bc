"""`eventide run` around a database without Spark: signals, exit codes, what is printed."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

import eventide
from eventide.cli.app import main
from tests.cli.fake import FakeDatabase

SQL = """
CREATE SOURCE clicks (visitor STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE STREAM per_user AS SELECT visitor, count(*) AS n FROM clicks GROUP BY visitor, TUMBLE(ts, INTERVAL '10' SECOND);
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.sql"
    path.write_text(SQL)
    return path


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch) -> FakeDatabase:
    fake = FakeDatabase()
    fake.connected_with = None  # type: ignore[attr-defined]

    def connect(**options: object) -> FakeDatabase:
        fake.connected_with = options  # type: ignore[attr-defined]
        return fake

    monkeypatch.setattr(eventide, "connect", connect, raising=False)
    return fake


def status(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


def signal_after_start(db: FakeDatabase, number: signal.Signals) -> None:
    def send() -> None:
        db.started.wait(10)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()


def stops(db: FakeDatabase) -> list[bool]:
    return [call[1] for call in db.calls if call[0] == "stop"]


def test_once_ticks_and_leaves_windows_open(file: Path, db: FakeDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("run", str(file), "--once") == 0
    assert [call[0] for call in db.calls] == ["execute", "tick", "stop", "close"]
    assert stops(db) == [False]
    out = capsys.readouterr().out
    assert "1 source, 1 stream, 0 sinks" in out
    assert "ann" in out and "per_user: rows in 60,000 = used 58,912 + late 1,012 + error 76 ✓" in out


def test_once_with_flush_emits_what_is_open(file: Path, db: FakeDatabase) -> None:
    assert status("run", str(file), "--once", "--flush") == 0
    assert stops(db) == [True]


def test_control_c_stops_gracefully(file: Path, db: FakeDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    signal_after_start(db, signal.SIGINT)
    assert status("run", str(file)) == 0
    assert [call[0] for call in db.calls] == ["execute", "start", "stop", "close"]
    assert stops(db) == [True]
    assert "per_user: 60,000 rows in" in capsys.readouterr().out


def test_a_termination_leaves_windows_open_for_the_next_run(file: Path, db: FakeDatabase) -> None:
    signal_after_start(db, signal.SIGTERM)
    assert status("run", str(file)) == 0
    assert stops(db) == [False]


def test_a_stream_that_fails_ends_the_run_with_its_message(
    file: Path, db: FakeDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    db.failure = "the disk is full"
    assert status("run", str(file)) == 1
    assert db.calls[-1] == ("close",)
    assert "per_user: the disk is full" in capsys.readouterr().err


def test_an_error_while_ticking_is_reported(
    file: Path, db: FakeDatabase, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tick() -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(db, "tick", tick)
    assert status("run", str(file), "--once") == 1
    err = capsys.readouterr().err
    assert "unexpected error: RuntimeError: boom" in err and "Traceback" not in err


def test_options_reach_connect(file: Path, db: FakeDatabase, tmp_path: Path) -> None:
    spark = ["--master", "local[2]", "--conf", "spark.a=b=c", "--conf", "spark.d=e", "--no-local-speed"]
    assert status("run", str(file), "--once", "--checkpoint", str(tmp_path / "state"), "--shards", "4", *spark) == 0
    assert db.connected_with == {  # type: ignore[attr-defined]
        "checkpoint": str(tmp_path / "state"),
        "master": "local[2]",
        "conf": {"spark.a": "b=c", "spark.d": "e"},
        "shards": 4,
        "local_speed": False,
        "allow_jvm_calls": False,
    }


def test_a_file_may_drop_what_is_in_the_checkpoint_only(file: Path, db: FakeDatabase, tmp_path: Path) -> None:
    sql = file.read_text()
    file.write_text(f"DROP SINK old; {sql}")
    assert status("run", str(file), "--once") == 1
    state = tmp_path / "state"
    state.mkdir()
    old = "CREATE SINK old WITH ('connector' = 'console')"
    (state / "catalog.json").write_text(json.dumps([old]))
    assert status("run", str(file), "--once", "--checkpoint", str(state)) == 0


def test_calls_into_the_jvm_are_allowed_by_an_option(file: Path, db: FakeDatabase) -> None:
    file.write_text("CREATE SOURCE s (k STRING); CREATE STREAM o AS SELECT reflect('a', 'b') AS x FROM s;")
    assert status("run", str(file), "--once") == 1
    assert status("run", str(file), "--once", "--allow-jvm-calls") == 0
    assert db.connected_with["allow_jvm_calls"] is True  # type: ignore[attr-defined]


def test_wrong_arguments_are_status_2(file: Path, db: FakeDatabase) -> None:
    assert status("run", str(file), "--conf", "novalue") == 2
    assert status("run", str(file), "--shards", "0") == 2
    assert status("run", str(file), "--shards", "4097") == 2
    assert status("run") == 2
    assert status("fly") == 2
    assert db.calls == []


def test_wrong_sql_is_found_before_spark_starts(
    tmp_path: Path, db: FakeDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "app.sql"
    file.write_text("CREATE STREAM x AS SELECT count(*) FROM nowhere GROUP BY TUMBLE(ts, INTERVAL '1' SECOND);")
    assert status("run", str(file), "--once") == 1
    assert db.calls == [] and "nowhere" in capsys.readouterr().err


def test_an_app_file_brings_its_own_settings_and_the_command_line_wins(tmp_path: Path, db: FakeDatabase) -> None:
    file = tmp_path / "app.toml"
    file.write_text(
        '[app]\ncheckpoint = "kept"\nmaster = "local[1]"\nshards = 2\nlocal_speed = false\n'
        'conf = { "spark.a" = "1", "spark.b" = "2" }\n'
        '[sources.clicks]\ncolumns = "visitor STRING, at TIMESTAMP"\neventtime.column = "at"\n'
        "[transforms.o]\nsql = \"SELECT count(*) AS n FROM clicks GROUP BY TUMBLE(at, INTERVAL '1' SECOND)\"\n"
    )
    assert status("run", str(file), "--once", "--shards", "5", "--conf", "spark.b=3") == 0
    assert db.connected_with == {  # type: ignore[attr-defined]
        "checkpoint": "kept",
        "master": "local[1]",
        "conf": {"spark.a": "1", "spark.b": "3"},
        "shards": 5,
        "local_speed": False,
        "allow_jvm_calls": False,
    }
    assert db.calls[0][1].startswith("CREATE SOURCE `clicks`")
