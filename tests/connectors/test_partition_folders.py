"""Files in folders named after columns: tasks and Spark see the same in them, whatever the folders are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventide import Database
from tests.connectors.test_fused_scan import outcome

Factory = Callable[..., Database]

TEXTS = (
    "a", "A", "é", "\U0001f600", "%20", "%2F", "%", "%%", "%zz", "%4", "%C3%A9", "%+f", "%00", "%0A", " ", "=", "#",
    "&", "+", "'", '"', "`", "$", ":", ",", ".", "-", "_", "__HIVE_DEFAULT_PARTITION__", "null", "NULL", "true",
)  # fmt: skip
NUMBERS = (
    "7",
    "7",
    "7",
    "0",
    "-7",
    "+7",
    "007",
    "%37",
    " 7",
    "7.5",
    "1e3",
    "x",
    "__HIVE_DEFAULT_PARTITION__",
    "2147483648",
    "٣",
)
TIMES = ("2026-01-31", *("2026-01-31 12%3A00%3A00",) * 3, "2026-01-31T12%3A00%3A00Z", "12%3A00", "x", "2026")
QUERY = "SELECT v, k, n, at FROM (SELECT v, k, n, at, ts FROM s)"
COLUMNS = "v BIGINT, k STRING, n INT, at TIMESTAMP, ts BIGINT, unused INT, EVENT TIME ts TYPE unixtimestamp_ms"


def random_folder(random: Random) -> str:
    text = random.choice(("__HIVE_DEFAULT_PARTITION__", "".join(random.choices(TEXTS, k=random.randint(1, 4)))))
    return f"k={text}/n={random.choice(NUMBERS)}/AT={random.choice(TIMES)}/unused=x"


def write(folder: Path, number: int, format: str) -> None:
    """Three rows; of lines that Spark decodes one more, and one that is none."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.{format}"
    rows = [{"v": 10 * number + each, "ts": 1000} for each in range(3)]
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif format == "csv":
        path.write_text("".join(f"{row['v']},{row['ts']}\n" for row in rows) + "+9,1000\nnone\n")
    else:
        other = {"v": 9, "k": 5, "n": "not read", "ts": 1000}
        path.write_text("\n".join([*map(json.dumps, rows), json.dumps([other]), "none"]))


def create_both(db: Database, folder: Path, format: str, query: str = QUERY) -> None:
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{folder}', 'format' = '{format}');
        CREATE STREAM o_true AS {query};
        CREATE STREAM o_false WITH ('fused_scan' = 'false') AS {query}
    """)
    assert "fused: scan" in db.explain("o_true")


@pytest.mark.parametrize("format", ["json", pytest.param("csv", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_random_folders_mean_the_same_on_both_roads(db: Database, tmp_path: Path, format: str, seed: int) -> None:
    random = Random(seed)
    for number in range(60):
        write(tmp_path / random_folder(random), number, format)
    create_both(db, tmp_path, format)
    db.tick()
    fused, plain = outcome(db, "o_true"), outcome(db, "o_false")
    assert fused == plain
    accounts = fused["accounts"]
    assert accounts["rows_in"] == 60 * 5 and accounts["error"] > 60
    assert any("the folder says of column n: x" in payload for payload in fused["side"])
    assert any('"k": null' in row for row in fused["rows"]) and any('"n": 7' in row for row in fused["rows"])


def test_parquet_in_folders_means_the_same_on_both_roads(db: Database, tmp_path: Path) -> None:
    random = Random(1)
    for number in range(40):
        text = "".join(random.choices(TEXTS, k=3))
        times = random.choice(("2026-01-31 12%3A00%3A00", "__HIVE_DEFAULT_PARTITION__"))
        write(tmp_path / f"k={text}" / f"n={random.randint(-9, 9)}" / f"at={times}", number, "parquet")
    create_both(db, tmp_path, "parquet")
    db.tick()
    fused = outcome(db, "o_true")
    assert fused == outcome(db, "o_false")
    assert len(fused["rows"]) == 120


def test_a_folder_of_parquet_whose_name_only_spark_can_judge_is_named(db: Database, tmp_path: Path) -> None:
    write(tmp_path / "n=+7", 1, "parquet")
    create_both(db, tmp_path, "parquet", "SELECT v, n FROM s")
    with pytest.raises(Exception, match=r"n=\+7/1\.parquet: .*only Spark can judge"):
        db.tick()


@pytest.mark.parametrize("road", ["true", "false"])
def test_an_event_time_can_be_in_the_name_of_a_folder(db: Database, tmp_path: Path, road: str) -> None:
    for hour in ("10", "11", "12"):
        write(tmp_path / f"at=2026-01-31T{hour}%3A00%3A00Z", int(hour), "json")
    write(tmp_path / "at=yesterday", 1, "json")
    db.execute(f"""
        CREATE SOURCE s (v BIGINT, at STRING, EVENT TIME at TYPE iso8601)
        WITH ('connector' = 'files', 'path' = '{tmp_path}');
        CREATE STREAM o WITH ('fused_scan' = '{road}') AS
          SELECT window_start, count(*) AS n FROM s GROUP BY TUMBLE(at, INTERVAL '1' HOUR)
    """)
    db.tick()
    write(tmp_path / "at=2026-02-01T00%3A00%3A00Z", 2, "json")
    db.tick()
    assert [(str(row["window_start"])[11:16], row["n"]) for row in db.read("o")] == [
        ("10:00", 4), ("11:00", 4), ("12:00", 4),
    ]  # fmt: skip
    reasons = [payload["reason"] for payload in db.side_output("o")]
    assert sorted(set(reasons)) == ["event_time_unparseable", "row_undecodable"]


def test_folders_that_come_while_a_stream_runs_are_read(db_factory: Factory, tmp_path: Path) -> None:
    """Also such as come to an empty folder, and after a restart."""
    folder = tmp_path / "in"
    folder.mkdir()
    seen: list[Any] = []
    for number, text in enumerate(("a", "b", "c")):
        db = db_factory(checkpoint=tmp_path / "c")
        if not number:
            db.execute(f"""
                CREATE SOURCE s ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{folder}');
                CREATE STREAM o AS SELECT v, k FROM s WHERE v <> 9
            """)
            db.tick()
        write(folder / f"k={text}", number, "json")
        db.tick()
        seen = [(row["k"], row["v"]) for row in db.read("o")]
        db.close()
    assert sorted(seen) == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("b", 10),
        ("b", 11),
        ("b", 12),
        ("c", 20),
        ("c", 21),
        ("c", 22),
    ]


def test_a_table_has_the_columns_of_its_folders(db: Database, tmp_path: Path) -> None:
    (tmp_path / "n=5").mkdir()
    (tmp_path / "n=5" / "a.json").write_text('{"k": "a"}')
    db.execute(f"""
        CREATE TABLE t (k STRING, n INT) WITH ('connector' = 'files', 'path' = '{tmp_path}');
        CREATE SOURCE s (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE STREAM o AS SELECT s.k, t.n FROM s JOIN t ON s.k = t.k
    """)
    db.write("s", [("a", 1000)])
    db.tick()
    assert db.read("o").fetchall() == [{"k": "a", "n": 5}]
