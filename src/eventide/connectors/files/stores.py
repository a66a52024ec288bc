"""The store that a path of files names, as the driver reaches it."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from eventide.errors import EnvironmentError
from eventide.storage.paths import RemotePath, remote_path
from eventide.storage.stores import SCHEMES, Store


def spark_settings() -> dict[str, str]:
    """Spark's, where there is one that tells them."""
    spark = SparkSession.getActiveSession()
    try:
        return {} if spark is None else dict(spark.sparkContext.getConf().getAll())
    except PySparkException:  # a session of Spark Connect has no context
        return {}


def is_in_store(path: str) -> bool:
    return path.partition("://")[0] in SCHEMES


def store_of_path(path: str) -> Store | None:
    """None for a path of this machine."""
    return remote_path(path, spark_settings()).store if is_in_store(path) else None


def reached(source: str, path: str) -> RemotePath:
    """The place of a source's files, which can be read from here."""
    place = remote_path(path, spark_settings())
    try:
        problem = None if RemotePath(place.store.impatient(), place.root.key).exists() else f"there is no {place.root}"
    except OSError as error:
        problem = " ".join(str(error).split())
    if problem is not None:
        raise EnvironmentError(
            f"source {source}: tasks cannot read {path}: {problem}",
            help="see that it is there, and that the address and the credentials are right (docs/checkpoints.md); if "
            "only Spark knows them, set 'fused_scan' = 'false' for the stream",
        )
    return place
