"""Sessions of Spark Connect, which have no JVM: what works on them, and what is refused by name (docs/spark_api.md)."""

from __future__ import annotations

from typing import Any

from eventide.errors import OptionError

_CONNECT = "pyspark.sql.connect."


def is_remote(thing: Any) -> bool:
    """Whether a session, a DataFrame or a Column belongs to Spark Connect."""
    return type(thing).__module__.startswith(_CONNECT)


def refuse_remote(session: Any, call: str) -> None:
    """Raise unless `session` has its driver in this process, beside the files of a checkpoint."""
    if is_remote(session):
        raise OptionError(
            f"{call} needs a session whose driver is this process, and this one is remote (Spark Connect)",
            help="on a remote session eventide.stream(df) gives streaming DataFrames: rows(), late(), side_output(), "
            "tagged(); to run a database, start it where the driver is: eventide run --master …",
        )
