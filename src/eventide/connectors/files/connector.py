"""`files`: a folder as a source, a sink, or a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, LooksUp, Opening, Option, Promise, Reads, Writes
from eventide.plan.sizes import parse_size

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from eventide.connectors.contract import SourceContext
    from eventide.connectors.sink import Sink
    from eventide.plan.logical import Source, Table

FORGET_AFTER = "1 day"
_FORMAT = Option("choice", ("json", "csv", "parquet"), default="json", doc="of the files")

CSV: Mapping[str, Option] = {
    "sep": Option(only_format="csv", default=",", doc="between fields"),
    "quote": Option("character", only_format="csv", default='"', doc="around fields"),
    "escape": Option("character", only_format="csv", doc="in front of a quote within quotes; default: the quote"),
    "null_text": Option(only_format="csv", doc="a text that, without quotes, is NULL"),
    "timestamp_format": Option(only_format="csv", doc="Spark's pattern for TIMESTAMP columns; default: ISO 8601"),
}

_FILES: Mapping[str, Option] = {
    "path": Option(
        is_required=True,
        identifies=True,
        doc="a folder, a file or a pattern such as `in/*.json`; a URI that Spark can reach",
    ),
    "format": _FORMAT,
    "header": Option(
        "flag",
        only_format="csv",
        default="false",
        doc="`true`: columns go by the names in the first line, in any order; one that it lacks is NULL, others are "
        "ignored. `false`: by their places",
    ),
    **CSV,
    "multi_line": Option(
        "flag",
        only_format="csv",
        default="true",
        doc="`false`: a line break ends a record even within quotes, so that a stray quote costs one line",
    ),
}


def _load(context: SourceContext, source: Source, columns: Collection[str]) -> DataFrame:
    from eventide.connectors.files.read import load

    return load(context, source, columns)


def _ready(source: Source) -> None:
    from eventide.connectors.files.read import check_folder

    check_folder(source.name, source.options["path"])


def _infer(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    from eventide.connectors.files.infer import infer

    return infer(options)


def _open(opening: Opening) -> Sink:
    from eventide.connectors.files.objects import ObjectsSink
    from eventide.connectors.files.stores import is_in_store
    from eventide.connectors.files.write import FilesSink

    options, size = opening.options, opening.options.get("file_size")
    make = ObjectsSink if is_in_store(options["path"]) else FilesSink
    return make(
        options["path"],
        options.get("format", "json"),
        opening.identity,
        opening.json_columns,
        None if size is None else parse_size(size),
    )


def _read_table(spark: SparkSession, table: Table) -> pa.Table:
    from eventide.connectors.files.table import read_table

    return read_table(spark, table)


def _mark(table: Table) -> str | None:
    from eventide.connectors.files.table import fingerprint

    return fingerprint(table)


FILES = Connector(
    name="files",
    doc="the files in a folder; new files are picked up",
    source=Reads(
        options={
            **_FILES,
            "schema": Option(
                "choice",
                ("infer", "inferred"),
                doc="`infer`, for a source that declares no columns: they are found in the files that are there when "
                "it is made, and kept; its text then says `inferred`",
            ),
            "full_listing": Option(
                "span",
                default="1 minute",
                doc="of many partition folders in an object store: how often all are looked into, also those in which "
                "nothing new is expected",
            ),
            "forget_after": Option(
                "span",
                default=FORGET_AFTER,
                doc="how long the name of a file that is gone is remembered, so that it is not taken again if it comes "
                "back; see [below](#which-files-are-new)",
            ),
            "max_files_per_batch": Option("count", doc="how many files a batch takes at most"),
            "target_latency": Option(
                "span",
                instead_of="max_files_per_batch",
                doc="instead: batches as large as fit into this time; see [batches.md](../batches.md)",
            ),
        },
        load=_load,
        ready=_ready,
        decoded_in_tasks=("json", "csv", "parquet"),
        is_paced=True,
        infer=_infer,
    ),
    sink=Writes(
        options={
            "path": Option(
                is_required=True,
                identifies=True,
                doc="a folder; it is made if there is none. Or a place in a store: `s3a://bucket/folder`, "
                "`hdfs://name/folder`",
            ),
            "format": _FORMAT,
            "file_size": Option(
                "size",
                doc="small batches are gathered in one file until it has this size, such as `16 MB`; default: a file "
                "for each batch; see [sinks.md](../sinks.md#files)",
            ),
        },
        promise=Promise.EXACTLY_ONCE,
        open=_open,
    ),
    table=LooksUp(options=_FILES, read=_read_table, mark=_mark),
)
