"""Spark and the store that a checkpoint lies in: what it knows of it, and whether it reaches it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from eventide.errors import EnvironmentError
from eventide.spark.analysis import first_sentence
from eventide.spark.remote import refuse_remote
from eventide.storage.paths import AnyPath, RemotePath
from eventide.storage.stores import S3

_NO_CLASS = ("ClassNotFoundException", "NoClassDefFoundError", "No FileSystem for scheme", "UnsupportedFileSystem")


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Those that the session was started with."""
    refuse_remote(spark, "a checkpoint")
    return dict(spark.sparkContext.getConf().getAll())


def need_store(spark: SparkSession, folder: AnyPath) -> None:
    """Raise unless Spark sees a remote folder, which must not be empty."""
    if not isinstance(folder, RemotePath):
        return
    try:
        spark.read.text(str(folder)).isEmpty()
    except Exception as error:
        text = str(error)
        if folder.store.scheme == S3 and any(sign in text for sign in _NO_CLASS):
            raise EnvironmentError(
                f"Spark cannot read {folder}: it has no classes for s3a://",
                help="give it hadoop-aws of its own version of Hadoop, by the setting spark.jars.packages or "
                "spark.jars (docs/checkpoints.md)",
            ) from None
        of = "fs.s3a" if folder.store.scheme == S3 else "dfs"
        raise EnvironmentError(
            f"Spark cannot read {folder}, which this process can: {first_sentence(error)}",
            help=f"the settings spark.hadoop.{of}.* say where it is and with what credentials (docs/checkpoints.md)",
        ) from None
