"""What the SQL promises beyond plans: paths, nested fields, odd names, exploded rows, functions, errors in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventide.database import Database
from eventide.errors import CheckpointError, OptionError, SqlError
from eventide.sql.spark_functions import SPARK_FUNCTIONS
from tests.conftest import DatabaseFactory

SOURCE = """CREATE SOURCE s (k STRING, `a``b` INT, e STRUCT<id: STRING, n: INT>, items ARRAY<INT>, m MAP<STRING, INT>,
  ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms, DEDUPLICATE BY e.id, e.n WITHIN INTERVAL '1' MINUTE);"""


def rows(db: Database, stream: str) -> list[dict[str, Any]]:
    return sorted(db.read(stream).fetchall(), key=repr)


def accounts(db: Database, stream: str) -> dict[str, int]:
    return {name: count for name, count in db.accounting(stream).items() if count}


def test_the_names_of_sparks_functions_are_the_ones_that_are_known(keep_spark: Any) -> None:
    there = {row[0] for row in keep_spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    named = {name for name in there if name.replace("_", "a").isalnum()}
    assert named <= SPARK_FUNCTIONS and len(named) > 400
    if keep_spark.version.startswith("4.3"):
        assert named == SPARK_FUNCTIONS


def test_paths_odd_names_nested_identities_and_functions_of_the_session(db: Database) -> None:
    db.spark.udf.register("plus1", lambda value: None if value is None else value + 1, "int")
    db.execute(SOURCE)
    db.execute("CREATE STREAM o AS SELECT k:x.y::int AS y, k:l[0]['o p'] AS p, plus1(`a``b`) AS `c``d` FROM s")
    db.execute("""CREATE STREAM t AS SELECT `a``b`, median(e.n) AS m, count_if(k IS NULL) AS c
        FROM s GROUP BY `a``b`, TUMBLE(ts, INTERVAL '10' SECOND, INTERVAL '-2' SECOND)""")
    text = json.dumps({"x": {"y": 5}, "l": [{"o p": "q"}]})
    first = {"k": text, "a`b": 1, "e": {"id": "i", "n": 1}, "ts": 1000}
    db.write("s", [first, {**first, "ts": 2000}, {"a`b": 1, "e": {"id": "i", "n": 4}, "ts": 8000}])
    db.advance_watermark("s", 100_000)
    db.tick()
    assert rows(db, "o") == [{"y": 5, "p": "q", "c`d": 2}, {"y": None, "p": None, "c`d": 2}]
    assert rows(db, "t") == [{"a`b": 1, "m": 1.0, "c": 0}, {"a`b": 1, "m": 4.0, "c": 1}]
    assert accounts(db, "t") == {"rows_in": 3, "used": 2, "duplicate": 1}


def test_a_field_of_a_struct_is_the_event_time(db: Database) -> None:
    db.execute("""CREATE SOURCE s (e STRUCT<at: TIMESTAMP>, v INT, WATERMARK FOR e.at AS e.at - INTERVAL '1' SECOND);
        CREATE STREAM o AS SELECT sum(v) AS t FROM s GROUP BY TUMBLE(e.at, INTERVAL '10' SECOND)""")
    db.write("s", [{"e": {"at": f"1970-01-01T00:00:{second}Z"}, "v": 1} for second in ("01", "02", "11")])
    db.tick()
    assert rows(db, "o") == [{"t": 2}] and db.watermark("o") == 10_000


def test_a_row_becomes_several_and_no_row_gets_lost(db: Database, tmp_path: Path) -> None:
    db.execute(SOURCE)
    db.execute("CREATE STREAM x AS SELECT e.id AS id, i, item FROM s LATERAL VIEW posexplode(items) v AS i, item")
    db.execute("CREATE STREAM y AS SELECT e.id AS id, explode_outer(items) AS items FROM s")
    db.execute("""CREATE STREAM z AS SELECT key, count(*) AS n FROM s LATERAL VIEW explode(m) AS key, value
        WHERE value > 0 GROUP BY key, TUMBLE(ts, INTERVAL '10' SECOND)""")
    one = {"e": {"id": "a", "n": 1}, "items": [7, 7, 8], "m": {"p": 1, "q": 0}, "ts": 1000}
    bare = {"e": {"id": "b", "n": 1}, "items": [], "m": {"p": 2}, "ts": 2000}
    db.write("s", [one, one, bare, {"e": "no struct", "ts": 1}])
    db.advance_watermark("s", 100_000)
    db.tick()
    assert rows(db, "x") == [{"id": "a", "i": number, "item": item} for number, item in enumerate((7, 7, 8))]
    assert accounts(db, "x") == {"rows_in": 7, "used": 3, "duplicate": 3, "error": 1}
    assert rows(db, "y") == [*[{"id": "a", "items": item} for item in (7, 7, 8)], {"id": "b", "items": None}]
    assert accounts(db, "y") == {"rows_in": 8, "used": 4, "duplicate": 3, "error": 1}
    assert rows(db, "z") == [{"key": "p", "n": 2}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT k FROM s WHERE nofun(k)", r"nofun\(k\): Cannot resolve routine `nofun`"),
        ("SELECT 1e300BD AS x FROM s", "Decimal precision 301 exceeds max precision 38"),
        ("SELECT x FROM s LATERAL VIEW explode(upper(k)) AS x", r"explode\(upper\(k\)\)"),
        ("SELECT median(k) AS m FROM s GROUP BY TUMBLE(ts, '1s')", "median does not take text"),
    ],
)
def test_what_spark_refuses_is_said_in_its_words_and_ours(db: Database, query: str, message: str) -> None:
    db.execute("CREATE SOURCE s (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)")
    with pytest.raises(SqlError, match=message):
        db.execute(f"CREATE STREAM o AS {query}")


def test_a_number_of_shards_that_no_machine_has_is_refused(db_factory: DatabaseFactory) -> None:
    with pytest.raises(OptionError, match="from 1 to 4096"):
        db_factory(shards=5000)


def test_another_number_of_shards_than_the_checkpoint_has_is_refused(
    db_factory: DatabaseFactory, tmp_path: Path
) -> None:
    sql = "CREATE SOURCE s (k STRING); CREATE STREAM o AS SELECT k FROM s"
    first = db_factory(checkpoint=tmp_path / "state", shards=1)
    first.execute(sql)
    first.close()
    second = db_factory(checkpoint=tmp_path / "state", shards=2)
    with pytest.raises(CheckpointError, match="stream o has 1 shards in this checkpoint, and 2 are asked for"):
        second.tick()
    second.close()
    third = db_factory(checkpoint=tmp_path / "state", shards=1)
    third.tick()
    third.close()


def test_calls_into_the_jvm_need_leave(db_factory: DatabaseFactory) -> None:
    call = "SELECT java_method('java.lang.Math', 'abs', -1) AS x"
    with pytest.raises(SqlError, match="java_method runs code of the JVM"):
        db_factory().execute(call)
    assert db_factory(allow_jvm_calls=True).execute(call).fetchall() == [{"x": "1"}]


def test_a_secret_is_in_no_file_of_the_checkpoint(
    db_factory: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE_TO", "hidden_folder_7")
    checkpoint = tmp_path / "state"
    db = db_factory(checkpoint=checkpoint)
    db.execute(f"""CREATE SOURCE s (k STRING); CREATE STREAM o AS SELECT k FROM s;
        CREATE SINK out FROM o WITH ('connector' = 'files', 'path' = '{tmp_path}/${{env:WHERE_TO}}')""")
    db.write("s", [("a",)])
    db.tick()
    assert [path.read_text() for path in (tmp_path / "hidden_folder_7").glob("*.json")] == ['{"k": "a"}\n']
    written = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert written and not any(b"hidden_folder_7" in path.read_bytes() for path in written)
    assert checkpoint.stat().st_mode & 0o777 == 0o700
