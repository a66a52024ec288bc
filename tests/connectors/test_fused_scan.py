"""Files that tasks read themselves yield the same rows, side outputs and accounts as files that Spark reads."""

from __future__ import annotations

import datetime as dt
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventide import Database, EventideError

Factory = Callable[..., Database]

TIMES = "EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND"
COLUMNS = f"k STRING, v BIGINT, d DOUBLE, b BOOLEAN, ts BIGINT, {TIMES}"
STRUCT = "item STRUCT<price: BIGINT, at: TIMESTAMP, part: STRUCT<name: STRING, weight: DOUBLE>>"
QUERIES = {
    "windows": "SELECT window_start, k, count(*) AS n, sum(v) AS t, max(d) AS m FROM s WHERE v % 7 <> 3 "
               "GROUP BY k, TUMBLE(ts, INTERVAL '2' SECOND)",
    "hops": "SELECT window_start, v % 5 AS g, count(*) AS n, min(v) AS t FROM s "
            "GROUP BY v % 5, HOP(ts, INTERVAL '1' SECOND, INTERVAL '3' SECOND)",
    "no keys":
        "SELECT window_start, sum(v) AS t, avg(v) AS a FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND) ALLOW "
"LATENESS INTERVAL '1' SECOND",
    "sessions": "SELECT window_start, window_end, k, count(*) AS n FROM s GROUP BY k, SESSION(ts, INTERVAL '200' "
"MILLISECOND)",
    "in order": "SELECT k, v, ts FROM s WHERE b ORDER BY ts",
    "as they come": "SELECT k, v + 1 AS w, d FROM s WHERE d IS NOT NULL AND NOT (k = 'c')",
    "from a projection": "SELECT window_start, key, sum(w) AS t FROM (SELECT concat(k, '!') AS key, v * 2 AS w, "
"ts FROM s WHERE v > 10) "
                         "GROUP BY key, TUMBLE(ts, INTERVAL '2' SECOND)",
}  # fmt: skip


def rows_of(number: int, count: int = 400) -> list[dict[str, Any]]:
    """Around `number` seconds, some far behind, some without a time or with one in the far future."""
    chance = random.Random(number)
    rows = []
    for n in range(count):
        ts: int | None = number * 1000 + chance.randint(-1500, 900) - (20_000 if chance.random() < 0.05 else 0)
        if chance.random() < 0.01:
            ts = chance.choice([None, 10**16, 9 * 10**17])
        value: dict[str, Any] = {
            "k": chance.choice("abcde"),
            "v": chance.randint(-5, 50),
            "d": chance.choice([None, 0.5, 1e300, -2.25]),
        }
        value.update(b=n % 3 > 0, ts=ts)
        rows.append({name: item for name, item in value.items() if item is not None or chance.random() < 0.5})
    return rows


def write(folder: Path, number: int, format: str) -> None:
    path, hidden = folder / f"{number:03d}.{format}", folder / f".{number:03d}"
    if format == "json":
        lines = [json.dumps(row) for row in rows_of(number)]
        lines[7:7] = [
            '{"k": "a", "v": "twelve", "ts": 5}',
            "",
            "nonsense",
            f'[{{"k": "b", "v": 3, "ts": {number * 1000}}}]',
        ]
        hidden.write_text("\n".join(lines))
    elif format == "csv":
        lines = [",".join(_csv(row.get(name)) for name in ("k", "v", "d", "b", "ts")) for row in rows_of(number)]
        lines[7:7] = ["a,twelve,,,5", "", "non,sense", f"b,+3,1e3,T,{number * 1000}", '"b\nb",3,-0.0,true,5']
        hidden.write_text("\n".join(lines))
    else:
        schema = pa.schema(
            [("k", pa.string()), ("v", pa.int64()), ("d", pa.float64()), ("b", pa.bool_()), ("ts", pa.int64())]
        )
        pq.write_table(pa.Table.from_pylist(rows_of(number), schema=schema), hidden, row_group_size=70)
    hidden.rename(path)


def _csv(value: Any) -> str:
    return "" if value is None else json.dumps(value) if isinstance(value, bool | str) else str(value)


def outcome(db: Database, stream: str = "o", *, ordered: bool = False) -> dict[str, Any]:
    rows = [json.dumps(row, default=str) for row in db.read(stream)]
    unlike = ("processing_time", "plan_id", "shard")
    side = [
        json.dumps({name: value for name, value in row.items() if name not in unlike}, default=str)
        for row in db.side_output(stream)
    ]
    rows = rows if ordered else sorted(rows)
    return {"rows": rows, "side": sorted(side), "accounts": db.accounting(stream), "watermark": db.watermark(stream)}


def _fused_and_not() -> Iterator[Any]:
    """Of these windows over JSON are quick; tests/connectors/test_csv.py has more of CSV."""
    for name in QUERIES:
        for format in ("json", "parquet", "csv") if name in ("windows", "in order") else ("json",):
            yield pytest.param(name, format, marks=() if (name, format) == ("windows", "json") else pytest.mark.slow)


@pytest.mark.parametrize(("name", "format"), list(_fused_and_not()))
def test_a_fused_scan_does_not_change_the_outcome(db_factory: Factory, tmp_path: Path, name: str, format: str) -> None:
    """The query, fused and not, side by side; the second round continues from the checkpoint."""
    folder = tmp_path / "in"
    folder.mkdir()
    sql = f"""
        CREATE SOURCE s ({COLUMNS})
        WITH ('connector' = 'files', 'path' = '{folder}', 'format' = '{format}');
        CREATE STREAM fused AS {QUERIES[name]};
        CREATE STREAM lines WITH ('fused_scan' = 'false') AS {QUERIES[name]};
        CREATE STREAM plain WITH ('fusion.enabled' = 'false') AS {QUERIES[name]}
    """
    for file in (0, 4):
        write(folder, file, format)
        db = db_factory(checkpoint=tmp_path / "checkpoint")
        db.execute(sql)
        db.tick()
        assert "fused: scan" in db.explain("fused") and "not fused: fusion is off" in db.explain("plain")
        assert ("fused: decode" in db.explain("lines")) == (format == "json")
        fused, lines, plain = (
            outcome(db, stream, ordered=name == "in order") for stream in ("fused", "lines", "plain")
        )
        db.close()
    assert fused["rows"] and fused["side"] and (fused["accounts"]["late"] or name == "as they come")
    assert fused == lines == plain


@pytest.mark.parametrize("format", ["json", "csv"])
def test_files_in_gzip_and_zstandard_are_read_by_tasks_and_by_spark(db: Database, tmp_path: Path, format: str) -> None:
    for number, codec in enumerate(("gzip", "zstd")):
        text = f'{{"v": {number}}}\n' if format == "json" else f"{number}\n"
        path = tmp_path / f"{number}.{format}.{'gz' if codec == 'gzip' else 'zst'}"
        with pa.CompressedOutputStream(str(path), codec) as out:
            out.write(text.encode() * 3)
    db.execute(f"""
        CREATE SOURCE s (v BIGINT) WITH ('connector' = 'files', 'path' = '{tmp_path}', 'format' = '{format}');
        CREATE STREAM fused AS SELECT v FROM s;
        CREATE STREAM plain WITH ('fused_scan' = 'false') AS SELECT v FROM s""")
    db.tick()
    assert "fused: scan" in db.explain("fused") and " not fused: " in db.explain("plain")
    for stream in ("fused", "plain"):
        assert sorted(row["v"] for row in db.read(stream)) == [0, 0, 0, 1, 1, 1]


STRUCTS = [
    '{"item": {"price": 1, "at": "2024-01-01T00:00:00Z", "part": {"name": "a", "weight": 0.5}}, "ts": 1000}',
    '{"item": {"price": 2, "at": "2024-01-01T00:00:00.25+01:00", "part": null, "other": 1}, "ts": 1100}',
    '{"item": null, "ts": 1200}',
    '{"item": {}, "ts": 1300}',
    '{"ts": 1400}',
    '{"item": {"price": "3"}, "ts": 1500}',
    '{"item": {"price": 3.5}, "ts": 1600}',
    '{"item": 3, "ts": 1700}',
    '{"item": {"price": 4, "price": 5}, "ts": 1800}',
    '{"item": {"part": {"name": 6, "weight": -0.0}}, "ts": 1900}',
    '{"item": {"Price": 7, "at": "tomorrow"}, "ts": 2000}',
    '{"item": [{"price": 8}], "ts": 2100}',
]


def test_fields_of_structs_are_the_same_whoever_reads_them(db: Database, tmp_path: Path) -> None:
    fields = "item.price AS price, item.at AS at, item.part.name AS name, item.part.weight AS weight, ts"
    query = f"AS SELECT price, at, name, weight FROM (SELECT {fields} FROM s)"
    db.execute(f"""
        CREATE SOURCE s ({STRUCT}, ts BIGINT, {TIMES}) WITH ('connector' = 'files', 'path' = '{tmp_path}');
        CREATE STREAM fused {query};
        CREATE STREAM plain WITH ('fusion.enabled' = 'false') {query};
    """)
    for number, line in enumerate(STRUCTS):
        (tmp_path / f"{number}.json").write_text(line + "\n")
    db.tick()
    assert "fused: scan" in db.explain("fused") and " not fused: " in db.explain("plain")
    assert outcome(db, "fused") == outcome(db, "plain")
    assert {"1", "2", "null"} <= {json.dumps(row["price"]) for row in db.read("fused")}


ODD_CLICKS = [
    '{"k": "a", "who": {"name": 7, "age": 3}, "ts": "2024-01-01T00:00:07Z"}',
    '{"k": "a", "who": {"name": "x", "age": "old"}, "ts": "2024-01-01T00:00:07Z"}',
    '{"k": "a", "who": null, "tags": null, "v": 1.5, "ts": "2024-01-01T00:00:07Z"}',
    '{"k": "a", "tags": "sale", "v": 1.5, "ts": "2024-01-01T00:00:07Z"}',
    '{"k": "a", "tags": [1], "v": 1.5, "ts": "2024-01-01T00:00:07Z"}',
    '{"k": "a", "tags": [null, "é"], "v": 1e1, "ts": "2024-01-01T00:00:07Z"}',
    '{"k": "a", "tags": [], "who": {}, "v": -0.0, "ts": "2024-01-01T00:00:07Z"}',
    '{"k": "a\\n", "v": 2, "ts": "2024-01-01 00:00:07"}',
    '{"k": "a", "v": 2, "ts": "2024-02-30T00:00:07Z"}',
]
SESSION = "SESSION(ts, INTERVAL '1' SECOND)"


def clicks_of(number: int) -> str:
    """Lines of one layout, some far behind, and odd ones between them."""
    chance = random.Random(number)
    lines = []
    for n in range(300):
        second = number * 10 + chance.random() * 9 - (300 if number and n % 50 == 0 else 0)
        time = dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)
        who = {"name": f"n{chance.randint(1, 99999)}", "age": chance.randint(0, 99)}
        tags = chance.sample(["new", "sale", "mail"], chance.randint(0, 3))
        ts = time.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        row = {"id": n, "k": chance.choice("abc"), "who": who, "tags": tags, "v": n / 4, "ts": ts, "extra": [1, 2]}
        lines.append(json.dumps(row))
    lines[20:20] = ODD_CLICKS if number == 1 else []
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("window", ["TUMBLE(ts, INTERVAL '5' SECOND)", pytest.param(SESSION, marks=pytest.mark.slow)])
def test_nested_columns_are_the_same_whoever_reads_them(db: Database, tmp_path: Path, window: str) -> None:
    """Late rows show their nested columns, and a bad value in one that no query uses is an error."""
    columns = "id BIGINT, k STRING, who STRUCT<name: STRING, age: INT>, tags ARRAY<STRING>, v DOUBLE, ts TIMESTAMP"
    query = f"SELECT window_start, k, count(*) AS n, sum(v) AS t, max(who.age) AS m FROM s GROUP BY k, {window}"
    db.execute(f"""
        CREATE SOURCE s ({columns}, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
        WITH ('connector' = 'files', 'path' = '{tmp_path}', 'max_files_per_batch' = '1');
        CREATE STREAM fused AS {query};
        CREATE STREAM lines WITH ('fused_scan' = 'false') AS {query};
        CREATE STREAM plain WITH ('fusion.enabled' = 'false') AS {query}
    """)
    for number in range(2):
        (tmp_path / f"{number}.json").write_text(clicks_of(number))
    db.tick()
    assert "fused: scan" in db.explain("fused") and "fused: decode" in db.explain("lines")
    assert outcome(db, "fused") == outcome(db, "lines") == outcome(db, "plain")
    assert db.accounting("fused")["late"] == 12 and db.accounting("fused")["error"] == 3
    [late, *_] = [row["original_event"] for row in db.side_output("fused", "late") if row["original_event"]["id"]]
    assert late["who"]["name"].startswith("n") and isinstance(late["tags"], list)


def test_duplicates_are_found_across_a_fused_scan_and_lines_left_to_spark(db: Database, tmp_path: Path) -> None:
    db.execute(f"""
        CREATE SOURCE s (id BIGINT, v BIGINT, ts BIGINT, {TIMES}, DEDUPLICATE BY id WITHIN INTERVAL '1' HOUR)
        WITH ('connector' = 'files', 'path' = '{tmp_path}', 'max_files_per_batch' = '1');
        CREATE STREAM o AS SELECT window_start, count(*) AS n, sum(v) AS t FROM s GROUP BY TUMBLE(ts, INTERVAL '1'
          SECOND)
    """)
    assert "fused: scan" in db.explain("o")
    (tmp_path / "1.json").write_text('{"id": 1, "v": 5, "ts": 100}\n{"id": 2, "v": 6, "ts": 100}\n')
    (tmp_path / "2.json").write_text('{"id": 1, "v": 5, "ts": 100, "ts": 100}\n')  # a duplicate name: left to Spark
    db.advance_watermark("s", 5000)
    db.tick()
    assert [(row["n"], row["t"]) for row in db.read("o")] == [(2, 11)]
    assert db.accounting("o")["duplicate"] == 1


def test_a_checkpoint_keeps_its_way_of_reading(db_factory: Factory, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    sql = f"CREATE SOURCE s (v BIGINT, ts BIGINT, {TIMES}) WITH ('connector' = 'files', 'path' = '{tmp_path / 'in'}');"
    query = "AS SELECT window_start, sum(v) AS t FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)"
    db = db_factory(checkpoint=tmp_path / "checkpoint")
    db.execute(f"{sql} CREATE STREAM o {query}")
    db.tick()
    db.close()
    again = db_factory(checkpoint=tmp_path / "checkpoint")
    with pytest.raises(EventideError, match="which files were read is in the log of the fused scan"):
        again.execute(f"{sql} CREATE STREAM o WITH ('fused_scan' = 'false') {query}")
        again.tick()


def test_a_stream_that_began_with_sparks_reader_goes_on_with_it(
    db_factory: Factory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later release evaluates more inside tasks."""
    from eventide.plan.rules import fuse_scans
    from eventide.tasks.portable import NotPortableError

    def refuse(plan: Any, input: Any) -> None:
        raise NotPortableError("lower(k) is evaluated by Spark")

    (tmp_path / "in").mkdir()
    sql = f"""CREATE SOURCE s (k STRING, ts BIGINT, {TIMES}) WITH ('connector' = 'files', 'path' = '{tmp_path / "in"}');
        CREATE STREAM o AS SELECT lower(k) AS k, count(*) AS n FROM s WHERE lower(k) LIKE 'a%'
          GROUP BY lower(k), TUMBLE(ts, INTERVAL '1' SECOND)"""
    with monkeypatch.context() as earlier:
        earlier.setattr(sys.modules[fuse_scans.__module__], "_fusion", refuse)
        db = db_factory(checkpoint=tmp_path / "checkpoint")
        db.execute(sql)
        (tmp_path / "in" / "1.json").write_text('{"k": "A", "ts": 100}\n{"k": "b", "ts": 100}\n')
        db.tick()
        db.close()
    db = db_factory(checkpoint=tmp_path / "checkpoint")
    db.execute(sql)
    (tmp_path / "in" / "2.json").write_text('{"k": "a", "ts": 100}\n')
    db.tick()
    db.advance_watermark("s", 5000)
    db.tick()
    assert [(row["k"], row["n"]) for row in db.read("o")] == [("a", 2)]


def test_folders_named_after_columns_are_left_to_spark(db: Database, tmp_path: Path) -> None:
    (tmp_path / "k=7").mkdir()
    (tmp_path / "k=7" / "1.json").write_text('{"v": 1, "ts": 100}\n')
    db.execute(f"""
        CREATE SOURCE s (v BIGINT, ts BIGINT, k BIGINT, {TIMES}) WITH ('connector' = 'files', 'path' = '{tmp_path}');
        CREATE STREAM o AS SELECT window_start, k, sum(v) AS t FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)
    """)
    db.advance_watermark("s", 5000)
    db.tick()
    assert [(row["k"], row["t"]) for row in db.read("o")] == [(7, 1)]


LINES = [
    '{"k":"a","v":1,"d":1.5,"b":true,"ts":1000}', '{"k":1,"v":1,"ts":1000}', '{"k":{"x": [1,  2]},"v":1,"ts":1000}',
    '{"k":null,"v":null,"ts":null}', "{}",
    '{"v":1.0,"ts":1000}', '{"v":"1","ts":1000}', '{"v":99999999999999999999,"ts":1}', '{"v":1e2,"ts":1000}',
    '{"v":-0,"d":-0,"ts":1000}', '{"d":NaN,"ts":1000}',
    '{"d":"NaN","ts":1000}', '{"d":"Infinity","ts":1}', '{"d":Infinity,"ts":1}', '{"d":-INF,"ts":1}',
    '{"d":1e999,"ts":1}',
    '{"d":1,"ts":1000}', '{"d":0.1,"ts":1000}',
    '{"b":"true","ts":1000}', '{"b":1,"ts":1000}', '{"v":1,"v":2,"ts":1000}', "{'v':1,'ts':1000}",
    '{"v":1,"ts":1000} trailing',
    '{"v":1,"ts":1000}{"v":2,"ts":1000}',
    '[{"v":1,"ts":1000},{"v":2,"ts":2000}]', "[]", "null", "3", '"text"', "true", "{", "}", '{"v":1,"ts":1000,}',
    '{"v":01,"ts":1000}',
    '{"V":1,"ts":1000}',
    '  {"v":1,"ts":1000}  ', "\t", '{"k":"\\u00e9\\ud83d\\ude00","ts":1000}', '{"k":"\\ud800","ts":1000}',
    '{"k":"a\\u0000b","ts":1000}',
    '{"k":"ünï","ts":1000}',
    '{"k":"tab\there","ts":1000}', '{"more":{"v":[1,{"k":2}]},"v":1,"ts":1000}', '{"v":1,"ts":"1000"}',
    '{"v":1,"ts":1e3}',
    '{"v":1,/*c*/"ts":1000}', '{"v":+1,"ts":1000}',
]  # fmt: skip


def test_lines_of_all_kinds_decode_as_spark_decodes_them(db_factory: Factory, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    chance = random.Random(3)
    for number in range(8):
        mixed = [chance.choice(LINES) for _ in range(250)] + LINES if number else LINES  # for each of the parsers
        (tmp_path / "in" / f"{number}.json").write_text(
            chance.choice(["\n", "\r\n"]).join(mixed) if number else "\n".join(mixed)
        )
    outcomes = []
    for road in ("'fused_scan' = 'true'", "'fused_scan' = 'false'", "'fusion.enabled' = 'false'"):
        db = db_factory()
        db.execute(f"""
            CREATE SOURCE s ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{tmp_path / "in"}');
            CREATE STREAM o WITH ({road}) AS SELECT k, v, d, b, ts FROM s
        """)
        db.tick()
        outcomes.append(outcome(db))
    for part in ("rows", "side", "accounts"):
        assert outcomes[0][part] == outcomes[1][part] == outcomes[2][part]


@pytest.mark.parametrize("type", ["iso8601", "spark"])
def test_times_written_as_text(db_factory: Factory, tmp_path: Path, type: str) -> None:
    times = [
        "2026-01-31T12:00:00Z", "2026-01-31 12:00:00", "2026-01-31T12:00:00.5+02:00", "2026-01-31T12:00:00.123456",
        "2026-01-31",
        "2026-1-3 1:02", "12:00", "no time", "", "2026-02-30T00:00:00Z", "2026-01-31T25:00:00Z", None,
        "1970-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
    ]  # fmt: skip
    for number, part in enumerate((times, times[:1] * 80, times[1:2] * 80)):
        (tmp_path / f"{number}.json").write_text(
            "\n".join(json.dumps({"v": n, "ts": time}) for n, time in enumerate(part))
        )
    outcomes = []
    for fused in ("true", "false"):
        db = db_factory()
        db.execute(f"""
            CREATE SOURCE s (v BIGINT, ts {"STRING" if type == "iso8601" else "TIMESTAMP"}, EVENT TIME ts TYPE {type})
            WITH ('connector' = 'files', 'path' = '{tmp_path}');
            CREATE STREAM o WITH ('fusion.enabled' = '{fused}') AS SELECT v, ts FROM s
        """)
        assert ("fused: scan" in db.explain("o")) == (fused == "true")
        db.tick()
        outcomes.append(outcome(db))
    assert outcomes[0] == outcomes[1] and outcomes[0]["rows"]
