"""`delta`: lakehouse tables, by delta-rs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, Family, Opening, Option, Promise, Writes
from eventide.errors import EnvironmentError

if TYPE_CHECKING:
    from eventide.connectors.sink import Sink

STORAGE = Family(
    "storage.",
    "what delta-rs needs to reach the store: `storage.aws_region`, `storage.aws_secret_access_key` = `${env:NAME}` "
    "([secrets](../sql.md#secrets))",
    secrets=r".*(password|secret|token|account_key|access_key|sas_key|service_account_key)",
)


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
