"""The postgres sink on a real server: types, upserts, one transaction per batch, and clear errors."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eventide.database import Database
from eventide.errors import SinkError
from tests.connectors.postgres_server import MISSING, Server, binaries, server

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'eventide[postgres]'")
pytestmark = pytest.mark.skipif(binaries() is None, reason=MISSING)

OPENED: list[Any] = []
NOON = dt.datetime(2025, 1, 31, 12, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


def sink(postgres: Server, table: str, identity: str | None = None, **options: str) -> Any:
    from eventide.connectors.postgres.write import PostgresSink

    made = PostgresSink("out", {"url": postgres.url, "table": table, **options}, identity or f"query of {table}")
    OPENED.append(made)
    return made


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def ask(postgres: Server, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(postgres.url) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def test_every_type_arrives_as_it_left(postgres: Server) -> None:
    rows = pa.table(
        {
            "a": pa.array([1, None], pa.int16()), "b": pa.array([2.5, None]),
            "c": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "d": pa.array(["it's\t\\ü\0", None]), "e": pa.array([NOON, None], pa.timestamp("us", tz="UTC")),
            "f": pa.array([NOON.date(), None], pa.date32()), "g": pa.array([True, None]),
            "h": pa.array([b"\x00\xff", None]),
            "i": pa.array([[1, 2], None], pa.list_(pa.int32())),
            "j": pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())])),
        }
    )  # fmt: skip
    sink(postgres, "types").write(0, rows)
    full, empty = ask(postgres, "SELECT * FROM types ORDER BY a NULLS LAST")
    given = (1, 2.5, Decimal("1.50"), "it's\t\\ü�", NOON, NOON.date(), True, b"\x00\xff", [1, 2], {"x": 1})
    assert full == given and empty == (None,) * 10
    kinds = ask(
        postgres,
        "SELECT data_type FROM information_schema.columns WHERE table_name = 'types' ORDER BY ordinal_position",
    )
    assert [kind for (kind,) in kinds] == [
        "smallint", "double precision", "numeric", "text", "timestamp with time zone", "date", "boolean", "bytea",
        "jsonb", "jsonb",
    ]  # fmt: skip


def test_a_batch_that_is_written_twice_is_there_once(postgres: Server) -> None:
    rows = pa.table({"k": ["a", "b"], "n": [1, 2]})
    for _ in range(2):
        writer = sink(postgres, "once")
        writer.write(0, rows)
        writer.write(1, rows)
        writer.close()
    assert ask(postgres, "SELECT count(*) FROM once") == [(4,)]
    sink(postgres, "once", identity="q2").write(0, rows)
    assert ask(postgres, "SELECT count(*) FROM once") == [(6,)], "another stream has its own numbers"


def test_rows_with_a_key_replace_older_ones(postgres: Server) -> None:
    writer = sink(postgres, "latest", key="window_id, k")
    writer.write(0, pa.table({"window_id": ["w1", "w1"], "k": ["a", None], "n": [1, 2]}))
    writer.write(1, pa.table({"window_id": ["w1", "w2", "w1"], "k": [None, "a", None], "n": [3, 4, 5]}))
    assert sorted(ask(postgres, "SELECT window_id, k, n FROM latest"), key=str) == [
        ("w1", "a", 1),
        ("w1", None, 5),
        ("w2", "a", 4),
    ]


def test_a_change_log_with_a_key_keeps_the_table_as_it_should_be(postgres: Server) -> None:
    writer = sink(postgres, "changes", key="k")
    writer.write(0, pa.table({"k": ["a", "b"], "n": [1, 1], "op": [1, 1]}))
    writer.write(1, pa.table({"k": ["a", "b", "a"], "n": [1, 1, 2], "op": [-1, -1, 1]}))
    assert ask(postgres, "SELECT * FROM changes") == [("a", 2)]


def test_a_batch_that_fails_leaves_nothing_and_succeeds_once_the_cause_is_fixed(postgres: Server) -> None:
    ask(postgres, "CREATE TABLE strict (k text, n bigint CHECK (n < 10))")
    writer = sink(postgres, "strict")
    with pytest.raises(SinkError, match=r"the sink out cannot write to the table strict: .*violates check constraint"):
        writer.write(0, pa.table({"k": ["a", "b"], "n": [1, 11]}))
    assert ask(postgres, "SELECT count(*) FROM strict") == [(0,)]
    writer.write(0, pa.table({"k": ["a"], "n": [1]}))
    assert ask(postgres, "SELECT count(*) FROM strict") == [(1,)]


def test_a_server_that_went_away_and_came_back_is_used_again(postgres: Server) -> None:
    writer = sink(postgres, "again")
    writer.write(0, pa.table({"n": [1]}))
    postgres.stop()
    with pytest.raises(SinkError, match="cannot write to the table again"):
        writer.write(1, pa.table({"n": [2]}))
    postgres.start()
    writer.write(1, pa.table({"n": [2]}))
    assert ask(postgres, "SELECT n FROM again ORDER BY n") == [(1,), (2,)]


def test_a_server_that_is_still_starting_is_waited_for(postgres: Server) -> None:
    refusal = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
    refused = []

    def serve(door: socket.socket) -> None:
        while len(refused) < 2:
            with door.accept()[0] as caller:
                caller.recv(1024)
                caller.sendall(b"E" + (len(refusal) + 4).to_bytes(4) + refusal)
                refused.append(caller)
        caller = door.accept()[0]
        server = socket.create_connection(("127.0.0.1", postgres.port))
        for one, other in ((caller, server), (server, caller)):
            threading.Thread(target=copy, args=(one, other), daemon=True).start()

    def copy(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):  # one direction ends the other
            while data := one.recv(1 << 16):
                other.sendall(data)
        other.close()

    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=serve, args=(door,), daemon=True).start()
        url = (
            postgres.url.replace(str(postgres.port), str(door.getsockname()[1])) + "?sslmode=disable&gssencmode=disable"
        )
        sink(postgres, "waited", url=url).write(0, pa.table({"n": [1]}))
    assert len(refused) == 2
    assert ask(postgres, "SELECT n FROM waited") == [(1,)]


def test_a_table_that_does_not_fit_is_a_clear_error(postgres: Server) -> None:
    ask(postgres, "CREATE TABLE short (k text)")
    with pytest.raises(SinkError, match=r"has no column n\n  help: ALTER TABLE short ADD COLUMN n bigint"):
        sink(postgres, "short").write(0, pa.table({"k": ["a"], "n": [1]}))
    with pytest.raises(SinkError, match=r"has no unique index on k"):
        sink(postgres, "short", key="k").write(0, pa.table({"k": ["a"]}))
    with pytest.raises(SinkError, match="the rows have no column id for the key"):
        sink(postgres, "short", key="id").write(0, pa.table({"k": ["a"]}))


def test_no_server_is_an_error_when_the_sink_is_made() -> None:
    with pytest.raises(SinkError, match="the sink out cannot write to the table t: "):
        from eventide.connectors.postgres.write import PostgresSink

        PostgresSink("out", {"url": "postgresql://127.0.0.1:1/x", "table": "t"}, "q")


def test_a_stream_its_late_rows_and_its_side_output_in_tables(postgres: Server, db: Database) -> None:
    def to(table: str, more: str = "") -> str:
        return f"WITH ('connector' = 'postgres', 'url' = '{postgres.url}', 'table' = '{table}'{more})"

    db.execute(f"""
        CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE SINK dlq {to("dlq")};
        CREATE STREAM o WITH ('side_output.late.sink' = 'dlq') AS
        SELECT window_id, window_start, k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND) EMIT ON
          UPDATE;
        CREATE SINK out FROM o {to("totals", ", 'key' = 'window_id, k'")};
        CREATE SINK late FROM o$late {to("late_rows")};
    """)
    for rows in ([("a", 1, 100)], [("a", 2, 200), ("b", 5, 9000)], [("a", 7, 300)]):
        db.write("s", rows)
        db.tick()
    assert sorted(ask(postgres, "SELECT k, total FROM totals")) == [("a", 3), ("b", 5)]
    assert ask(postgres, "SELECT k, v, ts FROM late_rows") == [("a", 7, 300)]
    assert ask(postgres, "SELECT kind, original_event ->> 'v', \"window\" ->> 'end' FROM dlq") == [
        ("late", "7", "1970-01-01T00:00:01Z")
    ]
