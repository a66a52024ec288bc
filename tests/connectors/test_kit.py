"""Every connector passes the kit: restarts, batches that come again, crashes between all steps, bad rows.

DataFrames, which only the fluent API takes, do so in tests/fluent/test_on_spark.py.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

from eventide.connectors.declaration import Promise
from eventide.connectors.registry import connector
from eventide.errors import OptionError
from eventide.storage.layout import Layout
from eventide.testing.connectors import SinkCase, SourceCase, TableCase, check_sink, check_source, check_table
from eventide.testing.connectors.sources import CRASHES, STREAM
from tests.conftest import DatabaseFactory
from tests.connectors.kafka_broker import Broker
from tests.connectors.postgres_server import MISSING, Server, binaries, server

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'eventide[postgres]'")
    if binaries() is None:
        pytest.skip(MISSING)
    with server() as running:
        yield running


# Sinks ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_files_as_a_sink(tmp_path: Path, format: str) -> None:
    folder = tmp_path / "out"

    def rows() -> Rows:
        return duckdb.sql(f"SELECT id, name FROM '{folder}/*.{format}'").arrow().read_all().to_pylist()

    check_sink(connector("files"), SinkCase({"path": str(folder), "format": format}, rows))


@pytest.mark.parametrize("key", [{}, {"key": "id"}])
def test_delta_as_a_sink(tmp_path: Path, key: dict[str, str]) -> None:
    deltalake = pytest.importorskip("deltalake", reason="no deltalake: pip install 'eventide[delta]'")

    def rows() -> Rows:
        return list(deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist())

    check_sink(connector("delta"), SinkCase({"path": str(tmp_path / "t"), **key}, rows))


@pytest.mark.parametrize("key", [{}, {"key": "id"}])
def test_postgres_as_a_sink(postgres: Server, key: dict[str, str]) -> None:
    import psycopg

    table = f"t{uuid.uuid4().hex[:8]}"

    def rows() -> Rows:
        with psycopg.connect(postgres.url) as connection:
            found = connection.execute(f"SELECT id, name FROM {table}").fetchall()
        return [{"id": id, "name": name} for id, name in found]

    check_sink(connector("postgres"), SinkCase({"url": postgres.url, "table": table, **key}, rows))


@pytest.mark.parametrize("delivery", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_kafka_as_a_sink(broker: Broker, new_topic: Callable[..., str], delivery: str) -> None:
    topic = new_topic(2)

    def rows() -> Rows:
        return [json.loads(message.value()) for message in broker.read(topic)]

    promise = Promise.EXACTLY_ONCE if delivery == "exactly_once" else Promise.AT_LEAST_ONCE
    options = {"servers": broker.address, "topic": topic, "delivery": delivery, "timeout": "30 seconds"}
    check_sink(connector("kafka"), SinkCase(options, rows, promise), most_crashes=8)


def test_the_console_as_a_sink(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []

    def rows() -> Rows:
        shown.extend(capsys.readouterr().out.splitlines())
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown if line.startswith("|")]
        return [{"id": int(id), "name": name} for id, name in cells if id != "id"]

    case = SinkCase({"limit": "2000"}, rows, Promise.AT_LEAST_ONCE)
    check_sink(connector("console"), case, most_crashes=0)  # what a process that dies has shown is shown


def test_spark_as_a_sink(keep_spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def rows() -> Rows:
        return [row.asDict() for row in keep_spark.read.orc(str(folder)).select("id", "name").collect()]

    path = f"{folder}/stream={{identity}}/batch={{batch}}"
    options = {"format": "orc", "path": path, "mode": "overwrite", "option.compression": "none"}
    check_sink(connector("spark"), SinkCase(options, rows), most_crashes=0)  # a process of its own would start Spark


def test_somebody_elses_sink(tiny: None, tmp_path: Path) -> None:
    file = tmp_path / "out.db"

    def rows() -> Rows:
        with closing(sqlite3.connect(file)) as database:
            return [{"id": id, "name": name} for id, name in database.execute("SELECT id, name FROM rows")]

    check_sink(connector("tiny"), SinkCase({"file": str(file)}, rows))


def test_the_kit_finds_a_sink_that_repeats_a_batch(tmp_path: Path) -> None:
    """A sink that only appends is caught, and the words say when."""
    from eventide.connectors.declaration import Connector, Opening, Writes

    file = tmp_path / "rows.json"

    class Appending:
        def write(self, batch: int, rows: pa.Table) -> None:
            with file.open("a") as out:
                out.writelines(f"{json.dumps(row)}\n" for row in rows.to_pylist())

        def close(self) -> None:
            pass

    def open(opening: Opening) -> Appending:
        return Appending()

    import eventide.connectors.registry as registry

    careless = Connector(name="careless", doc="", sink=Writes(promise=Promise.EXACTLY_ONCE, open=open))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "OURS", (*registry.OURS, careless))
        case = SinkCase({}, lambda: [json.loads(line) for line in file.read_text().splitlines()])
        with pytest.raises(AssertionError, match="should not be after a batch that comes again to the same writer"):
            check_sink(careless, case)


# Sources --------------------------------------------------------------------------------------------------------------


def file_case(folder: Path, format: str = "json", **options: str) -> SourceCase:
    """New files for every row of a batch but one."""
    folder.mkdir()
    other = folder.parent / f"{folder.name}_other"
    other.mkdir()

    def put(db: Any, rows: Rows) -> None:
        path = folder / f"{uuid.uuid4().hex}.{format}"
        with path.with_name(f".{path.name}").open("wb") as out:
            if format == "parquet":
                pa.parquet.write_table(pa.Table.from_pylist(rows), out)
            elif format == "csv":
                out.write("".join(f'{row["id"]},"{row["name"]}"\n' for row in rows).encode())
            else:
                out.write("".join(f"{json.dumps(row)}\n" for row in rows).encode())
        path.with_name(f".{path.name}").rename(path)

    def put_bad(db: Any) -> None:
        (folder / f"{uuid.uuid4().hex}.{format}").write_text("not a number,x\n" if format == "csv" else "not json\n")

    given = {"path": str(folder), "format": format, **options}
    return SourceCase(given, put, None if format == "parquet" else put_bad, {**given, "path": str(other)})


@pytest.mark.parametrize(
    "format", ["json", *(pytest.param(format, marks=pytest.mark.slow) for format in ("csv", "parquet"))]
)
def test_files_as_a_source(db_factory: DatabaseFactory, tmp_path: Path, format: str) -> None:
    check_source(connector("files"), file_case(tmp_path / "in", format), db_factory, tmp_path / "checkpoint")


@pytest.mark.slow
def test_spark_as_a_source(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    given = file_case(tmp_path / "in", "json")
    other = {"format": "json", "path": str(tmp_path / "in_other")}
    case = SourceCase({"format": "json", "path": str(tmp_path / "in")}, given.put, given.put_bad, other)
    check_source(connector("spark"), case, db_factory, tmp_path / "checkpoint")


@pytest.mark.slow
def test_kafka_as_a_source(
    broker: Broker, new_topic: Callable[..., str], db_factory: DatabaseFactory, tmp_path: Path
) -> None:
    topic, other = new_topic(2), new_topic()

    def put(db: Any, rows: Rows) -> None:
        for place, row in enumerate(rows):
            broker.send(topic, [json.dumps(row)], place % 2)

    options = {"servers": broker.address, "topic": topic}
    case = SourceCase(options, put, lambda db: broker.send(topic, ["not json"]), {**options, "topic": other})
    check_source(connector("kafka"), case, db_factory, tmp_path / "checkpoint")


@pytest.mark.slow
def test_delta_as_a_source(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="no deltalake: pip install 'eventide[delta]'")
    table, other = str(tmp_path / "t"), str(tmp_path / "other")
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    for path in (table, other):
        deltalake.DeltaTable.create(path, columns)

    def put(db: Any, rows: Rows) -> None:
        deltalake.write_deltalake(table, pa.Table.from_pylist(rows, columns), mode="append")

    check_source(
        connector("delta"), SourceCase({"path": table}, put, None, {"path": other}), db_factory, tmp_path / "checkpoint"
    )


@pytest.mark.slow  # the kill tests do worse to it
def test_embedded_as_a_source(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    case = SourceCase({}, lambda db, rows: db.write("s", rows))
    check_source(connector("embedded"), case, db_factory, tmp_path / "checkpoint")


@pytest.mark.slow
def test_rate_as_a_source(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    """Spark makes its rows by the clock, numbered one by one."""
    seen = 0
    for after, crash in {"the start": None, "a restart": None, **CRASHES}.items():
        if crash is not None:
            crash(Layout(tmp_path))
        with closing(db_factory(checkpoint=tmp_path)) as db:
            db.execute(f"""
                CREATE SOURCE s WITH ('connector' = 'rate', 'rows_per_second' = '20');
                CREATE STREAM {STREAM} AS SELECT value FROM s
            """)
            values: list[int] = []
            while len(values) <= seen:
                db.tick()
                values = sorted(row["value"] for row in db.read(STREAM))
                assert values == list(range(len(values))), f"every row is there once after {after}"
            seen = len(values)
            assert db.accounting(STREAM)["used"] == seen, after


def test_somebody_elses_source(tiny: None, db_factory: DatabaseFactory, tmp_path: Path) -> None:
    for name in ("in", "other"):
        (tmp_path / name).mkdir()

    def write(lines: list[str]) -> None:
        (tmp_path / "in" / f"{uuid.uuid4().hex}.txt").write_text("".join(f"{line}\n" for line in lines))

    def put(db: Any, rows: Rows) -> None:
        write([f"{row['id']};{row['name']}" for row in rows])

    case = SourceCase(
        {"folder": str(tmp_path / "in")}, put, lambda db: write(["no number"]), {"folder": str(tmp_path / "other")}
    )
    check_source(connector("tiny"), case, db_factory, tmp_path / "checkpoint")


# Tables ---------------------------------------------------------------------------------------------------------------


def test_files_as_a_table(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    case = TableCase(
        {"path": str(file)},
        lambda rows: void(file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))),
        lambda: void(file.write_text("not json")),
    )
    check_table(connector("files"), case, db_factory, tmp_path / "checkpoint")


def test_spark_as_a_table(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    case = TableCase(
        {"format": "json", "path": str(file)},
        lambda rows: void(file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))),
        lambda: void(file.write_text("not json")),
    )
    check_table(connector("spark"), case, db_factory, tmp_path / "checkpoint")


def test_a_format_with_a_schema_of_its_own_gives_the_declared_columns(db_factory: DatabaseFactory) -> None:
    db = db_factory()
    rate = "'connector' = 'spark', 'format' = 'rate', 'option.rowsPerSecond' = '5'"
    db.execute(f"CREATE SOURCE r (VALUE INT) WITH ({rate}); CREATE STREAM o AS SELECT value FROM r")
    db.tick()
    assert {row["type"] for row in db.execute("DESCRIBE o")} == {"int32"}
    db.execute(f"CREATE SOURCE q (vlue BIGINT) WITH ({rate})")
    with pytest.raises(OptionError, match="gives no column vlue"):
        db.execute("CREATE STREAM p AS SELECT vlue FROM q")


def test_delta_as_a_table(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="no deltalake: pip install 'eventide[delta]'")
    table = tmp_path / "t"
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])

    def fill(rows: Rows) -> None:
        deltalake.write_deltalake(str(table), pa.Table.from_pylist(rows, columns), mode="overwrite")

    case = TableCase({"path": str(table)}, fill, lambda: shutil.rmtree(table))
    check_table(connector("delta"), case, db_factory, tmp_path / "checkpoint")


def test_postgres_as_a_table(postgres: Server, db_factory: DatabaseFactory, tmp_path: Path) -> None:
    import psycopg

    name = f"t{uuid.uuid4().hex[:8]}"

    def run(*statements: str) -> None:
        with psycopg.connect(postgres.url) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def fill(rows: Rows) -> None:
        run(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} (id bigint, name text)")
        with psycopg.connect(postgres.url) as connection:
            values = [(row["id"], row["name"]) for row in rows]
            connection.cursor().executemany(f"INSERT INTO {name} VALUES (%s, %s)".encode(), values)

    case = TableCase({"url": postgres.url, "table": name}, fill, lambda: run(f"DROP TABLE {name}"))
    check_table(connector("postgres"), case, db_factory, tmp_path / "checkpoint")


def test_jdbc_as_a_table(keep_spark: Any, db_factory: DatabaseFactory, tmp_path: Path) -> None:
    """Derby comes with Spark."""
    url = f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"

    def fill(rows: Rows) -> None:
        frame = keep_spark.createDataFrame([(row["id"], row["name"]) for row in rows], "ID bigint, NAME string")
        frame.write.mode("overwrite").jdbc(url, "T")

    def spoil() -> None:
        keep_spark.createDataFrame([(1,)], "OTHER int").write.mode("overwrite").jdbc(url, "T")

    check_table(
        connector("jdbc"), TableCase({"url": url, "table": "T"}, fill, spoil), db_factory, tmp_path / "checkpoint"
    )


def test_somebody_elses_table(tiny: None, db_factory: DatabaseFactory, tmp_path: Path) -> None:
    file = tmp_path / "t.db"

    def fill(rows: Rows) -> None:
        with closing(sqlite3.connect(file, isolation_level=None)) as database:
            database.execute("DROP TABLE IF EXISTS rows")
            database.execute("CREATE TABLE rows (id, name)")
            database.executemany("INSERT INTO rows VALUES (?, ?)", [(row["id"], row["name"]) for row in rows])

    check_table(
        connector("tiny"), TableCase({"file": str(file)}, fill, file.unlink), db_factory, tmp_path / "checkpoint"
    )


def void(_: object) -> None:
    pass
