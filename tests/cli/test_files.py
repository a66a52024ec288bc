"""`eventide validate`, `explain`, `version` and `--help`: no Spark, clear errors."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.cli.app import main

SOURCE = "CREATE SOURCE clicks (visitor STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);"
STREAM = (
    "CREATE STREAM per_user AS SELECT visitor, count(*) AS n FROM clicks GROUP BY visitor, TUMBLE(ts, "
    "INTERVAL '10' SECOND);"
)


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
    assert outcome(capsys, "validate", app(tmp_path, f"{SOURCE}\n{STREAM}")) == (
        0,
        "ok: 1 source, 1 stream, 0 sinks\n",
        "",
    )


def test_an_invalid_file_underlines_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = outcome(capsys, "validate", app(tmp_path, f"{SOURCE}\nCREATE STREAM x AS SELECT n FROM click;"))
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and "clicks" in err and "^" in err and "Traceback" not in err


def test_a_function_that_nobody_has_is_found_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = app(tmp_path, f"{SOURCE}\nCREATE STREAM x AS SELECT upperr(visitor) AS v FROM clicks;")
    code, _, err = outcome(capsys, "validate", file)
    assert code == 1 and "there is no function upperr" in err and "did you mean upper?" in err
    assert outcome(capsys, "validate", file, "--function", "upperr")[0] == 0


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
    assert code == 0 and "eventide " in out and "pyspark 4." in out


TOML = """
[sources.clicks]
columns = { visitor = "STRING", ts = "BIGINT" }
eventtime = { column = "ts", type = "unixtimestamp_ms" }

[transforms.per_user]
sql = "SELECT visitor, count(*) AS n FROM clicks GROUP BY visitor, TUMBLE(ts, INTERVAL '10' SECOND)"
"""


def toml(tmp_path: Path, text: str) -> str:
    file = tmp_path / "app.toml"
    file.write_text(text)
    return str(file)


def test_an_app_file_is_validated_and_explained_as_sql_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(capsys, "validate", toml(tmp_path, TOML)) == (0, "ok: 1 source, 1 stream, 0 sinks\n", "")
    explained = outcome(capsys, "explain", toml(tmp_path, TOML))
    assert explained == outcome(capsys, "explain", app(tmp_path, f"{SOURCE}\n{STREAM}"))


def test_a_wrong_key_of_an_app_file_is_named_with_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = outcome(capsys, "validate", toml(tmp_path, TOML + 'allow_lateness = "1 s"\n'))
    assert (code, out) == (1, "")
    assert err.startswith(
        "error: transforms.per_user.allow_lateness: there is no such key\n  help: did you mean allowed_lateness?"
    )


def test_init_writes_a_valid_app_file_and_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "app.toml"
    code, out, _ = outcome(capsys, "init", str(file))
    assert code == 0 and "eventide run" in out
    assert outcome(capsys, "validate", str(file))[1] == "ok: 1 source, 1 stream, 1 sink\n"
    file.write_text("mine")
    code, _, err = outcome(capsys, "init", str(file))
    assert code == 1 and "already exists" in err and file.read_text() == "mine"
    assert outcome(capsys, "init", str(tmp_path / "app.sql"))[0] == 1


def test_why_reads_a_checkpoint_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from eventide.storage.layout import Layout
    from eventide.storage.results import Account, Results

    layout = Layout(tmp_path / "state")
    layout.root.mkdir()
    layout.catalog.write_text(json.dumps([SOURCE, STREAM]))
    assert outcome(capsys, "why", "per_user", "--checkpoint", str(layout.root))[1].startswith(
        "per_user has not run yet."
    )
    marks = {"clicks": {"watermark": 8_000_000, "max_timestamp_seen": 8_000_000}}
    kept = Account(0, {}, {"rows_in": 3, "used": 3}, {}, {"open_windows#0": 1, "next_close#0": 10_000_000}, None, marks)
    Results(layout.results("per_user")).write(pa.table({}), pa.table({}), kept)
    (layout.stream("per_user") / "watermark.json").write_text("8000000")
    before = sorted(layout.root.rglob("*"))
    code, out, _ = outcome(capsys, "why", "PER_USER", "--checkpoint", str(layout.root))
    assert code == 0 and out.startswith(
        "per_user: the oldest open window is [1970-01-01 00:00:00, 1970-01-01 00:00:10).\n"
    )
    assert "A row of clicks with a time of 1970-01-01 00:00:10 or later would close it." in out
    assert sorted(layout.root.rglob("*")) == before


def test_why_says_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome(capsys, "why", "o", "--checkpoint", str(tmp_path / "nowhere"))
    assert code == 1 and "is not an Eventide checkpoint" in err and not (tmp_path / "nowhere").exists()
    (tmp_path / "catalog.json").write_text(json.dumps([SOURCE, STREAM]))
    code, _, err = outcome(capsys, "why", "per_usr", "--checkpoint", str(tmp_path))
    assert code == 1 and "did you mean per_user?" in err
