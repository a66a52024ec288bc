"""Files that somebody else has written: whatever is in them, tasks and Spark see the same, and the stream goes on."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from eventide import Database, EventideError
from eventide.errors import OptionError, UnreadableFileError
from tests.connectors.random_files import random_file
from tests.connectors.test_fused_scan import outcome

Factory = Callable[..., Database]

ROADS = ["true", "false"]
ALL_ROADS = {"fused": "'fused_scan' = 'true'", "lines": "'fused_scan' = 'false'", "plain": "'fusion.enabled' = 'false'"}
FORMATS = ("json", "json", "csv", "json", "parquet", "csv")  # of random files, in turns
MOST_STOPS = 12  # at files that cannot be read, of a hundred
SOURCE = (
    "CREATE SOURCE {name} (k STRING, v BIGINT, d DOUBLE, unused INT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)"
)


def good(value: int, ts: int = 1000) -> bytes:
    return json.dumps({"k": "a", "v": value, "ts": ts}).encode()


def nested(levels: int) -> bytes:
    return b'{"k":"a","v":7,"ts":1000,"x":%b}' % (b"[" * levels + b"]" * levels)


HOSTILE = {
    "bom.json": b"\xef\xbb\xbf" + good(1) + b"\n" + good(2),
    "utf16.json": (good(1) + b"\n" + good(2)).decode().encode("utf-16"),
    "utf16be.json": (good(1) + b"\n" + good(2)).decode().encode("utf-16-be"),
    "deep.json": nested(10_000) + b"\n" + nested(900) + b"\n" + good(3),
    "a:b c%20d.json": good(4),
    "bytes.json": b'{"k":"\xff\xe2\x82","v":1,"ts":1000}\n' + good(5) + b'\n{"k":"a","v":1,"ts":1000} \xc3',
    "three.json": good(1) + good(2) + good(3) + b"\n" + good(6) + b"," + good(7) + b"\n" + good(8) + b"]\n" + good(9),
    "unused.json": b'{"k":"a","v":1,"unused":"no number","ts":1000}',
    "lists.json": b'[%b,{"v":"x"}]\n[]\n[null]\n["{}"]\n[%b][%b]\n[[%b]]' % ((good(1),) * 4),
    "returns.json": good(1) + b"\r" + good(2) + b"\r\n\r\n\x00\n\x0b\n \t \n" + good(3),
    "surrogate.json": b'{"k":"\\ud800","v":1,"ts":1000}\n{"k":"a\\u0000","v":1,"ts":1000}',
    "long.json": b'{"k":"a","v":1,"d":1%b.5,"ts":1000}\n{"k":"%b","v":2,"ts":1000}' % (b"0" * 1200, b"x" * 70_000),
    "packed.json.gz": gzip.compress(b"\xef\xbb\xbf" + good(1) + b"\n\xff\n"),
    "empty.json": b"",
    "empty.json.gz": b"",
}


def create_all(db: Database, folder: Path, format: str = "json") -> None:
    db.execute(f"{SOURCE.format(name='s')} WITH ('connector' = 'files', 'path' = '{folder}', 'format' = '{format}')")
    for road, option in ALL_ROADS.items():
        db.execute(f"CREATE STREAM {road} WITH ({option}) AS SELECT k, v, d FROM (SELECT k, v, d, ts FROM s)")


def outcomes(db: Database) -> list[dict[str, Any]]:
    """Of all roads: tasks read files, they decode lines that Spark reads, Spark does all of it."""
    db.tick()
    return [outcome(db, road) for road in ALL_ROADS]


def test_hostile_files_mean_the_same_on_all_roads(db: Database, tmp_path: Path) -> None:
    for name, content in HOSTILE.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "self.json").symlink_to("self.json")
    (tmp_path / "nowhere.json").symlink_to("gone")
    (tmp_path / "link.json").symlink_to("bom.json")
    create_all(db, tmp_path)
    fused, lines, plain = outcomes(db)
    assert fused == lines == plain
    assert fused["accounts"]["rows_in"] == 37 and fused["accounts"]["error"] == 19
    assert any("\ufffd" in json.loads(payload)["error_detail"] for payload in fused["side"])


LINE = st.one_of(
    st.builds(good, st.integers(0, 9), st.integers(900, 1100)),
    st.binary(max_size=12),
    st.lists(
        st.sampled_from([
            b"{", b"}", b"[", b"]", b'"', b":", b",", b'"v"', b'"k"', b'"ts"', b"1", b"-0", b"1e5", b"NaN", b"null",
            b" ", b"true", b"\\u00e9", b"\xef\xbb\xbf", b"\xff", b"\x00", b"'", good(1), b'{"x":{}}', b'"d":0.1',
        ]), max_size=9,
    ).map(b"".join),
    st.sampled_from([nested(999), nested(1000), nested(1001), b'{"d":"Infinity","ts":1000}', b'{"K":"a","ts":1000}']),
)  # fmt: skip
FILES = st.lists(
    st.tuples(
        st.lists(LINE, max_size=8),
        st.sampled_from([b"\n", b"\r\n", b"\r"]),
        st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\xfe"]),
        st.booleans(),
    ),
    min_size=10,
    max_size=25,
)


@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@given(FILES)
def test_random_files_mean_the_same_on_all_roads(
    db_factory: Factory, files: list[tuple[list[bytes], bytes, bytes, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, (lines, end, mark, is_packed) in enumerate(files):
            content = mark + end.join(lines)
            path = Path(folder) / f"{number}.json{'.gz' if is_packed else ''}"
            path.write_bytes(gzip.compress(content) if is_packed else content)
        db = db_factory()
        create_all(db, Path(folder))
        fused, lines, plain = outcomes(db)
        db.close()
    assert fused == lines == plain


def take_in(db: Database, folder: Path, files: Mapping[str, bytes]) -> None:
    """Tick; a file that cannot be read is named in plain words, and taken away. A stream that had found it, and has not
    come to it yet, asks for it to be put back.
    """
    for _ in range(MOST_STOPS):
        try:
            db.tick()
            return
        except EventideError as error:
            told = str(error)
            named = [name for name in files if str(folder / name) in told]
            assert named and "Traceback" not in told and "java." not in told, told
            for name in named:
                if "has gone" in told:
                    (folder / name).write_bytes(files[name])
                else:
                    (folder / name).unlink(missing_ok=True)
    db.tick()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_a_hundred_random_files_mean_the_same_on_all_roads(db: Database, tmp_path: Path, seed: int) -> None:
    random, format = Random(seed), FORMATS[seed % len(FORMATS)]
    files = dict(random_file(random, format, number) for number in range(100))
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    create_all(db, tmp_path, format)
    take_in(db, tmp_path, files)
    fused, lines, plain = outcomes(db)
    assert fused == lines == plain
    accounts = fused["accounts"]
    assert accounts["rows_in"] == sum(count for kind, count in accounts.items() if kind != "rows_in") > 0


def test_a_dead_letter_sink_delivers_bytes_that_are_no_text(db: Database, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_bytes(b'{"k":"\xff","v":1,"ts":1000}\n' + good(2))
    db.execute(f"""
        {SOURCE.format(name="s")} WITH ('connector' = 'files', 'path' = '{tmp_path / "in"}');
        CREATE SINK dlq WITH ('connector' = 'files', 'path' = '{tmp_path / "dlq"}');
        CREATE STREAM o WITH ('fused_scan' = 'false', 'side_output.error.sink' = 'dlq') AS SELECT k, v FROM s
    """)
    db.tick()
    db.close()
    (path,) = (tmp_path / "dlq").iterdir()
    assert json.loads(path.read_text())["error_detail"] == '{"k":"\ufffd","v":1,"ts":1000}'


def test_text_that_an_expression_makes_can_be_read(db: Database) -> None:
    """In front of the operator, and in a select list that Spark evaluates behind it."""
    db.execute("""
        CREATE SOURCE s (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE STREAM o AS SELECT upper(CAST(unhex(k) AS STRING)) AS k, array(CAST(unhex(k) AS STRING)) AS a FROM s;
        CREATE STREAM w AS SELECT CAST(unhex(max(k)) AS STRING) AS k FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)
    """)
    db.write("s", [("ff41", 1), ("ff42", 5000)])
    db.tick()
    assert db.read("o").fetchall() == [{"k": f"\ufffd{end}", "a": [f"\ufffd{end}"]} for end in "AB"]
    assert db.read("w").df()["k"].tolist() == ["\ufffdA"]


def test_parquet_with_bytes_that_are_no_text(db: Database, tmp_path: Path) -> None:
    raw = pa.array([b"\xff", b"ok", None])
    keys = pa.Array.from_buffers(pa.string(), 3, raw.buffers(), null_count=1)
    table = pa.table({"k": keys, "v": [1, 2, 3], "ts": [1000] * 3})
    pq.write_table(table, tmp_path / "a.parquet")
    db.execute(f"{SOURCE.format(name='s')} WITH ('connector' = 'files', 'path' = '{tmp_path}', 'format' = 'parquet')")
    for road in ROADS:
        db.execute(f"CREATE STREAM o_{road} WITH ('fused_scan' = '{road}') AS SELECT k, v FROM s WHERE v > 1")
    db.tick()
    assert "fused: scan" in db.explain("o_true")
    assert outcome(db, "o_true") == outcome(db, "o_false")
    (payload,) = db.side_output("o_true")
    assert (payload["reason"], payload["error_detail"]) == ("row_undecodable", "column k is not UTF-8: \ufffd")
    assert [row["v"] for row in db.read("o_true")] == [2, 3]


def start(db: Database, folder: Path, road: str, format: str = "json") -> None:
    db.execute(f"""
        {SOURCE.format(name="s")} WITH ('connector' = 'files', 'path' = '{folder}', 'format' = '{format}');
        CREATE STREAM o WITH ('fused_scan' = '{road}') AS SELECT k, v FROM s
    """)


@pytest.mark.parametrize(
    ("road", "format", "mending"),
    [
        ("true", "json", "removed"),
        ("false", "json", "repaired"),
        ("false", "csv", "removed"),
        ("true", "parquet", "repaired"),
        pytest.param("true", "json", "repaired", marks=pytest.mark.slow),
        pytest.param("false", "json", "removed", marks=pytest.mark.slow),
        pytest.param("false", "csv", "repaired", marks=pytest.mark.slow),
        pytest.param("true", "parquet", "removed", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_file_is_named_and_the_stream_goes_on_after_the_mending(
    db: Database, tmp_path: Path, road: str, format: str, mending: str
) -> None:
    file = tmp_path / (f"a b%20.{format}" + (".gz" if format != "parquet" else ""))
    content = {"json": good(1), "csv": b"a,1,,,1000\n"}.get(format)
    if content is None:
        pq.write_table(pa.table({"k": ["a"], "v": [1], "ts": [1000]}), file)
        content = file.read_bytes()
    else:
        content = gzip.compress(content)
    file.write_bytes(content[: len(content) - 9])
    start(db, tmp_path, road, format)
    for _ in range(2):
        with pytest.raises(EventideError) as raised:
            db.tick()
        assert str(file) in str(raised.value) and "None" not in str(raised.value)
        assert isinstance(raised.value, UnreadableFileError)
    if mending == "removed":
        file.unlink()
    else:
        file.write_bytes(content)
    db.tick()
    assert [row["v"] for row in db.read("o")] == ([1] if mending == "repaired" else [])


@pytest.mark.parametrize("road", ROADS)
def test_partition_folders_beside_plain_files_are_refused(db: Database, tmp_path: Path, road: str) -> None:
    (tmp_path / "a.json").write_bytes(good(1))
    (tmp_path / "k=7").mkdir()
    (tmp_path / "k=7" / "b.json").write_bytes(good(2))
    with pytest.raises(OptionError, match=r"a\.json lies beside the partition folder .*k=7"):
        start(db, tmp_path, road)
        db.tick()


@pytest.mark.parametrize("road", ROADS)
def test_a_partition_folder_that_comes_later_is_an_error_until_it_goes(db: Database, tmp_path: Path, road: str) -> None:
    (tmp_path / "a.json").write_bytes(good(1))
    start(db, tmp_path, road)
    db.tick()
    (tmp_path / "k=7").mkdir()
    (tmp_path / "k=7" / "b.json").write_bytes(good(2))
    with pytest.raises(EventideError, match="partition folder"):
        db.tick()
    os.rename(tmp_path / "k=7", tmp_path.parent / f"{tmp_path.name}-k=7")
    (tmp_path / "c.json").write_bytes(good(3))
    db.tick()
    assert [row["v"] for row in db.read("o")] == [1, 3]


@pytest.mark.parametrize("name", ["[a-z]*.json", "{a,b}.json", "a?.json", "a\\n.json"])
def test_a_name_that_spark_takes_for_a_pattern_is_read_by_tasks_and_refused_by_spark(
    db: Database, tmp_path: Path, name: str
) -> None:
    """Spark would read `a.json` twice."""
    (tmp_path / "a.json").write_bytes(good(1))
    (tmp_path / name).write_bytes(good(2))
    with pytest.raises(OptionError) as raised:
        start(db, tmp_path, "false")
        db.tick()
    assert str(tmp_path / name) in str(raised.value)
    if name == "a?.json":
        db.execute("CREATE STREAM fused AS SELECT k, v FROM s")
        db.tick()
        assert sorted(row["v"] for row in db.read("fused")) == [1, 2]


def test_a_name_that_spark_takes_for_a_pattern_and_that_comes_later_is_not_read_and_told_at_the_next_start(
    db_factory: Factory, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_bytes(good(1))
    db = db_factory(checkpoint=tmp_path / "c")
    start(db, folder, "false")
    db.tick()
    (folder / "b.json").write_bytes(good(2))
    (folder / "[b].json").write_bytes(good(3))
    db.tick()
    assert [row["v"] for row in db.read("o")] == [1, 2]
    db.close()
    again = db_factory(checkpoint=tmp_path / "c")
    with pytest.raises(OptionError, match=r"\[b\]\.json cannot be read by Spark"):
        again.tick()


def test_a_plain_file_that_comes_to_partition_folders_is_an_error_until_it_goes(db: Database, tmp_path: Path) -> None:
    (tmp_path / "k=7").mkdir()
    (tmp_path / "k=7" / "b.json").write_bytes(b'{"v": 2, "ts": 1000}')
    start(db, tmp_path, "true")
    db.tick()
    (tmp_path / "a.json").write_bytes(good(1))
    with pytest.raises(OptionError, match=r"a\.json lies beside the partition folder"):
        db.tick()
    (tmp_path / "a.json").unlink()
    (tmp_path / "k=7" / "c.json").write_bytes(b'{"v": 3, "ts": 1000}')
    db.tick()
    assert [(row["k"], row["v"]) for row in db.read("o")] == [("7", 2), ("7", 3)]


@pytest.mark.parametrize("road", ROADS)
def test_a_time_of_day_is_no_event_time(db: Database, tmp_path: Path, road: str) -> None:
    times = ["12:00:00", "T12:00", "12:00:00Z", "2026-01-31T12:00:00Z", "2026-01-31"]
    (tmp_path / "a.json").write_text("\n".join(json.dumps({"ts": time}) for time in times))
    db.execute(f"""
        CREATE SOURCE s (ts STRING, EVENT TIME ts TYPE iso8601) WITH ('connector' = 'files', 'path' = '{tmp_path}');
        CREATE STREAM o WITH ('fused_scan' = '{road}') AS SELECT ts FROM s
    """)
    db.tick()
    assert [row["ts"] for row in db.read("o")] == times[3:]
    assert {(payload["reason"], payload["error_detail"]) for payload in db.side_output("o")} == {
        ("event_time_unparseable", time) for time in times[:3]
    }
