"""Java's archive of Spark's classes: with it a JVM maps them into memory where it would read and check thousands of
files.

python -m eventide.spark.local.class_archive      # writes it, once per machine, Java and Spark

`make test` and other targets see to it.

A Spark that is started here uses the archive if there is one. It is a cache: a JVM ignores one that does not fit, and
it may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from eventide.spark.java import check_java

_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
_MAKING_IT = "_EVENTIDE_CLASS_ARCHIVE"


def java_options(java: str) -> str:
    """What a JVM must be told to use the archive, or to write it; nothing if there is none."""
    made = os.environ.get(_MAKING_IT)
    if made is not None:
        return f"-XX:ArchiveClassesAtExit={made} {_QUIET}"
    path = archive(java)
    return f"-XX:SharedArchiveFile={path} {_QUIET}" if path.exists() and " " not in str(path) else ""


def archive(java: str) -> Path:
    """Where the archive is, for this Java (what it says of its version) and the installed Spark."""
    import pyspark

    key = hashlib.sha256(f"{java}\n{pyspark.__version__}\n{pyspark.__file__}".encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eventide"
    return cache / f"classes-{key}.jsa"


def make() -> Path:
    """Write the archive, unless it is there: by a small stream in a process of its own, whose JVM notes which classes
    it has used.
    """
    path = archive(check_java())
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        environment = {**os.environ, _MAKING_IT: str(made), "JAVA_TOOL_OPTIONS": ""}
        command = [sys.executable, "-m", "eventide.spark.local.class_archive"]
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if not made.exists():
            raise RuntimeError(f"Java has written no archive:\n{told.stdout}{told.stderr}")
        made.replace(path)
    return path


def _small_stream() -> None:
    """What most streams use of Spark: files and rows as sources, a window, results."""
    import eventide

    columns = "k BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
    rows = [{"k": 1, "ts": 1_000}, {"k": 1, "ts": 99_000}]
    with tempfile.TemporaryDirectory() as folder, eventide.connect(local_speed=True) as db:
        Path(folder, "rows.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        db.execute(
            f"CREATE SOURCE files ({columns}) WITH ('connector' = 'files', 'path' = '{folder}', 'format' = 'json')"
        )
        db.execute(f"CREATE SOURCE embedded ({columns})")
        for source in ("files", "embedded"):
            window = "k, TUMBLE(ts, INTERVAL '10' SECOND)"
            db.execute(
                f"CREATE STREAM of_{source} AS SELECT window_start, k, count(*) AS n FROM {source} GROUP BY {window}"
            )
        db.write("embedded", rows)
        db.tick()
        db.execute("SELECT * FROM of_files")


def main() -> None:
    if _MAKING_IT in os.environ:
        _small_stream()
    else:
        sys.stdout.write(f"Spark's classes, for Java to start faster: {make()}\n")


if __name__ == "__main__":
    main()
