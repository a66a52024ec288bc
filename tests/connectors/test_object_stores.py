"""Files in a store, read by tasks or by Spark and written by the sink: a real S3 interface, a real HDFS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventide.connectors.files.objects import ObjectsSink
from eventide.errors import OptionError, SinkError
from eventide.storage.paths import remote_path
from tests.connectors.hdfs_server import HdfsServer
from tests.connectors.s3_server import S3Server

ROWS = pa.table({"k": ["a", "b"], "v": [1, 2]})


@pytest.fixture
def reached(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3


def objects(server: S3Server, place: str) -> dict[str, bytes]:
    from pyarrow import fs

    found = server.files.get_file_info(fs.FileSelector(place, recursive=True))
    return {
        info.path.removeprefix(f"{place}/"): server.files.open_input_file(info.path).read()
        for info in found
        if info.type == fs.FileType.File
    }


def test_a_batch_is_one_object_and_replaces_itself(reached: S3Server) -> None:
    bucket = reached.new_bucket()
    for sink in (ObjectsSink(f"s3a://{bucket}/out/", "json", "id") for _ in range(2)):
        sink.write(0, ROWS)
        sink.write(1, ROWS.slice(0, 0))
        sink.write(2, ROWS.slice(1))
        sink.close()
    assert objects(reached, f"{bucket}/out") == {
        "part-id-0000000000.json": b'{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n',
        "part-id-0000000002.json": b'{"k": "b", "v": 2}\n',
    }


def test_every_format_can_be_read_back(reached: S3Server) -> None:
    bucket = reached.new_bucket()
    for format in ("csv", "parquet"):
        ObjectsSink(f"s3a://{bucket}", format, "id").write(0, ROWS)
    found = objects(reached, bucket)
    assert found["part-id-0000000000.csv"] == b'"k","v"\n"a",1\n"b",2\n'
    assert pq.read_table(pa.BufferReader(found["part-id-0000000000.parquet"])) == ROWS


def test_a_bucket_that_is_not_there_is_a_sink_error(reached: S3Server) -> None:
    with pytest.raises(SinkError, match=r"s3a://nowhere/out/part-id-0000000000.json could not be written"):
        ObjectsSink("s3a://nowhere/out", "json", "id").write(0, ROWS)


def test_what_an_object_store_cannot_do_is_refused() -> None:
    with pytest.raises(OptionError, match="'file_size' is for folders"):
        ObjectsSink("s3a://bucket/out", "json", "id", file_size=1000)
    for uri, told in (("s3a://", "names no bucket"), ("s3a://key:hush@bucket/out", "no place for credentials")):
        with pytest.raises(OptionError, match=told) as raised:
            ObjectsSink(uri, "json", "id")
        assert "hush" not in str(raised.value)


PROGRAM = """
import json, sys
import eventide
from eventide.storage.atomic import read_json
from eventide.storage.layout import Layout
from pathlib import Path

settings, place, checkpoint, fused, paced = json.loads(sys.argv[1]), *sys.argv[2:]
with eventide.connect(checkpoint, conf=settings, master="local[2]") as db:
    db.execute(f'''
        CREATE SOURCE IF NOT EXISTS s (day STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)
        WITH ('connector' = 'files', 'path' = '{place}/in'{paced});
        CREATE STREAM IF NOT EXISTS o WITH ('fused_scan' = '{fused}') AS SELECT day, v FROM s;
        CREATE SINK IF NOT EXISTS out FROM o WITH ('connector' = 'files', 'path' = '{place}/out')
    ''')
    db.tick()
    print(json.dumps({
        "fused": read_json(Layout(Path(checkpoint)).plan("o"))["fused"],
        "explained": db.explain("o"),
        "errors": [row["error_detail"] for row in db.side_output("o")],
        "rows": db.spark.read.json(f"{place}/out").count(),
        "batches": db.metrics()["o"]["batches"],
    }))
"""


@pytest.fixture(params=["s3a", "hdfs"])
def place(request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    """A folder of a store, and what Spark must be told of it."""
    if request.param == "s3a":
        reached: S3Server = request.getfixturevalue("reached")
        return f"s3a://{reached.new_bucket()}", reached.spark_settings
    hdfs: HdfsServer = request.getfixturevalue("hdfs")
    return hdfs.new_folder(), {}


def run(place: tuple[str, dict[str, str]], checkpoint: Path, fused: str = "true", paced: str = "") -> dict[str, Any]:
    """What a process of its own tells that takes in what is there."""
    uri, settings = place
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-c", PROGRAM, json.dumps(settings), uri, str(checkpoint), fused, paced]
    paths = [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


@pytest.mark.slow
@pytest.mark.parametrize("fused", ["true", "false"])
def test_a_stream_from_a_store_to_a_store_goes_on_after_a_restart(
    place: tuple[str, dict[str, str]], fused: str, tmp_path: Path
) -> None:
    folder = remote_path(*place)
    (folder / "in" / "day=1" / "a.json").write_bytes(b'{"v": 1, "ts": 1000}\nnonsense\n')
    first = run(place, tmp_path / "c", fused)
    assert first["errors"] == ["nonsense"] and first["fused"] == [fused == "true"]
    assert ("fused_scan is false" in first["explained"]) == (fused == "false")
    (folder / "in" / "day=2%2F3" / "b.json").write_bytes(b'{"v": 2, "ts": 1000}')
    assert run(place, tmp_path / "c", fused)["rows"] == 2
    written = [path.read_bytes() for path in (folder / "out").iterdir()]
    rows = [json.loads(line) for content in written for line in content.splitlines()]
    assert sorted((row["day"], row["v"]) for row in rows) == [("1", 1), ("2/3", 2)]


@pytest.mark.slow
def test_files_of_a_store_come_in_batches_that_size_themselves(
    place: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """A first batch has at most 4 MiB."""
    folder = remote_path(*place)
    for number in range(5):
        line = f'{{"v": {number}, "ts": 1000}}'.encode()
        (folder / "in" / "day=1" / f"{number}.json").write_bytes(line.ljust(3 << 20) + b"\n")
    told = run(place, tmp_path / "c", paced=", 'target_latency' = '10 minutes'")
    assert (told["rows"], told["errors"]) == (5, []) and told["batches"] > 2
