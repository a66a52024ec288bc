"""Files as a table: all their rows at one time, or why they cannot be had."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from eventide.connectors.arrow_types import to_arrow_schema
from eventide.connectors.contract import CORRUPT, SourceContext, user_schema
from eventide.connectors.files import read
from eventide.connectors.readers import with_secrets
from eventide.errors import SourceError
from eventide.plan.logical import Source, Table

_SHOWN = 200  # characters of a row that did not decode


def read_table(spark: SparkSession, table: Table) -> pa.Table:
    """The rows of a table as its files have them now. A row that does not decode is an error: it would be missed."""
    source = _opened(table)
    if _is_missing(source.options["path"]):
        path = table.options["path"]
        raise SourceError(f"table {table.name}: the path {path} does not exist", help="put a file or a folder there")
    schema = user_schema(source)
    context = SourceContext(spark, None, Path(), streaming=False)
    found = read.load(context, source, schema.names).toArrow()
    bad = found.filter(pc.is_valid(found[CORRUPT]))
    if bad.num_rows:
        first = bad[CORRUPT][0].as_py()[:_SHOWN]
        raise SourceError(
            f"table {table.name}: {bad.num_rows:,} of {found.num_rows:,} rows do not decode, the first one is {first}",
            help="mend the files, or declare the columns as they are",
        )
    return found.select(schema.names).cast(to_arrow_schema(schema))


def fingerprint(table: Table) -> str | None:
    """Something that changes when the files do; None if only reading them tells."""
    root = _local(_opened(table).options["path"])
    if not root.exists():
        return None
    files = sorted(path for path in (root.rglob("*") if root.is_dir() else [root]) if path.is_file())
    stats = [(str(path), path.stat()) for path in files]
    facts = [(name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _local(path: str) -> Path:
    return Path(re.sub(r"^file:(//)?(?=/)", "", path))


def _is_missing(path: str) -> bool:
    """Whether nothing is there; of other file systems, and of patterns, Spark knows."""
    is_local = "://" not in str(_local(path)) and not any(mark in path for mark in "*?[{")
    return is_local and not _local(path).exists()


def _opened(table: Table) -> Source:
    return with_secrets(Source(table.name, table.columns, table.connector, options=table.options))
