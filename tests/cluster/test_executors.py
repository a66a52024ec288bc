"""Streams on a real cluster: the package travels, cores are counted, files are read by tasks, and what executors lack
is said before the first batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import eventide
from eventide.errors import EnvironmentError
from eventide.spark.cluster import Executors, Question, _answering, _within, cores
from eventide.storage.atomic import read_json
from eventide.storage.layout import Layout
from tests.cluster.standalone import CONF, Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

COLUMNS = "k BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
COUNT = "SELECT window_start, k, count(*) AS n FROM {} GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"
ROWS = [{"k": number % 5, "ts": number * 1000} for number in range(200)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("executors")


@pytest.fixture(scope="module")
def db(cluster: Cluster, folder: Path) -> Iterator[eventide.Database]:
    (folder / "events").mkdir()
    conf = {
        **CONF,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    with eventide.connect(folder / "checkpoint", master=cluster.url, conf=conf) as made:
        yield made


def test_executors_get_the_package_and_give_what_local_mode_gives(db: eventide.Database, folder: Path) -> None:
    files = folder / "input"
    files.mkdir()
    (files / "1.json").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    db.execute(f"CREATE SOURCE files ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{files}', 'format' = 'json')")
    db.execute(f"CREATE SOURCE embedded ({COLUMNS})")
    for source in ("files", "embedded"):
        db.execute(f"CREATE STREAM of_{source} AS {COUNT.format(source)}")
    db.write("embedded", ROWS)
    db.tick()
    found = {name: sorted((row["k"], row["n"]) for row in db.read(name)) for name in ("of_files", "of_embedded")}
    assert found["of_files"] == found["of_embedded"] == sorted((k, 2) for k in range(5) for _ in range(19))
    assert {db.accounting(f"of_{source}")["used"] for source in ("files", "embedded")} == {len(ROWS)}


def test_there_are_as_many_shards_as_cores_and_tasks_read_files(db: eventide.Database, folder: Path) -> None:
    kept = read_json(Layout(folder / "checkpoint").plan("of_files"))
    assert cores(db.spark) == kept["shards"] == 2 and kept["fused"] == [True]


def test_each_stream_has_a_pool_of_its_own(db: eventide.Database, folder: Path) -> None:
    events = "".join(path.read_text() for path in (folder / "events").iterdir()).splitlines()
    starts = [json.loads(line) for line in events if "SparkListenerJobStart" in line]
    pools = {start["Properties"].get("spark.scheduler.pool") for start in starts}
    assert {"eventide of_files", "eventide of_embedded"} <= pools
    assert db.spark.sparkContext.getConf().get("spark.scheduler.mode") == "FAIR"


def test_what_executors_lack_is_said_by_name(db: eventide.Database, tmp_path: Path) -> None:
    executors = Executors(db.spark)
    with pytest.raises(EnvironmentError, match=r"cannot import no_such_module: ModuleNotFound.*\n.*PYSPARK_PYTHON"):
        executors._need_modules(["no_such_module"])
    with pytest.raises(EnvironmentError, match=r"does not see the folder of source s: .*\n.*must share it"):
        executors.need_folder("the folder of source s", tmp_path / "nowhere")


def test_a_cluster_that_gives_no_executor_is_an_error(db: eventide.Database) -> None:
    context = db.spark.sparkContext
    job = context.parallelize([1], 1).mapPartitions(_answering(Question(), 30.0))
    with pytest.raises(EnvironmentError, match=r"(?s)no executor of spark://.* for 0\.5 seconds.*127\.0\.0\.1:\d+"):
        _within(context, job.collect, 0.5)
