"""`delta`: lakehouse tables, by delta-rs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, Family, LooksUp, Opening, Option, Promise, Reads, Writes
from eventide.errors import EnvironmentError, OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from eventide.connectors.contract import SourceContext
    from eventide.connectors.sink import Sink
    from eventide.plan.logical import Source, Table

STORAGE = Family(
    "storage.",
    "what delta-rs needs to reach the store: `storage.aws_region`, `storage.aws_secret_access_key` = `${env:NAME}` "
    "([secrets](../sql.md#secrets))",
    secrets=r".*(password|secret|token|account_key|access_key|sas_key|service_account_key)",
)


_PATH = Option(
    is_required=True,
    identifies=True,
    doc="a folder, or a URI that delta-rs knows: `s3://bucket/totals`, `az://…`, `gs://…`",
)


def _check(what: str, options: Mapping[str, str]) -> None:
    start = options.get("start", "earliest")
    if start not in ("earliest", "latest") and not start.isdecimal():
        raise OptionError(f"{what}: 'start' cannot be '{start}'", help="write earliest, latest, or a version such as 7")


def _load(context: SourceContext, source: Source, columns: Collection[str]) -> DataFrame:
    from eventide.connectors.delta.read import load

    return load(context, source)


def _ready(source: Source) -> None:
    check_installed(f"the source {source.name}")
    from eventide.connectors.delta.read import versions_of

    versions_of(source).latest()


def _read_table(spark: SparkSession, table: Table) -> pa.Table:
    check_installed(f"the table {table.name}")
    from eventide.connectors.delta.read import read_table

    return read_table(table)


def _mark(table: Table) -> str | None:
    check_installed(f"the table {table.name}")
    from eventide.connectors.delta.read import mark

    return mark(table)


def _open(opening: Opening) -> Sink:
    check_installed(f"the sink {opening.name}")
    from eventide.connectors.delta.write import DeltaSink

    return DeltaSink(opening.name, opening.options, opening.identity, opening.hide)


def check_installed(what: str) -> None:
    """Raises an EnvironmentError unless delta-rs is there."""
    try:
        import deltalake  # noqa: F401
    except ImportError:
        raise EnvironmentError(f"{what} needs deltalake", help="pip install 'eventide[delta]'") from None


DELTA = Connector(
    name="delta",
    doc="Delta tables",
    source=Reads(
        options={
            "path": _PATH,
            "start": Option(
                default="earliest",
                doc="for a new checkpoint: `earliest`: all rows that are there, then what is added; `latest`: only "
                "what is added; a version such as `7`: what it and later ones have added",
            ),
            "changes": Option(
                "choice",
                ("fail", "skip"),
                default="fail",
                doc="at a version that takes rows away or changes them: the stream ends with an error, or passes over "
                "it and what it adds",
            ),
            "max_versions_per_batch": Option("count", doc="how many versions a batch takes at most"),
        },
        family=STORAGE,
        check=_check,
        load=_load,
        ready=_ready,
    ),
    table=LooksUp(options={"path": _PATH}, family=STORAGE, read=_read_table, mark=_mark),
    sink=Writes(
        options={
            "path": Option(
                is_required=True,
                identifies=True,
                doc="a folder, or a URI that delta-rs knows: `s3://bucket/totals`, `az://…`, `gs://…`; the table is "
                "made if there is none",
            ),
            "key": Option(
                doc="columns that identify a row: a row replaces the one with the same key, and NULL is a value. "
                "Without it, rows are appended"
            ),
            "schema": Option(
                "choice",
                ("fixed", "evolve"),
                default="fixed",
                doc="`fixed`: other columns than the table's are an error; `evolve`: the table takes new columns",
            ),
        },
        family=STORAGE,
        promise=Promise.EXACTLY_ONCE,
        open=_open,
    ),
)
