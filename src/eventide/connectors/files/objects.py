"""Files of a sink in an object store: one for each batch, which appears whole when all of it is written.

Its name is made of the stream's identity and the batch number, as in a folder: a batch that is written again replaces
its own object. Where the store is, and who writes, is said by Spark's settings, or by the environment variables that
Amazon's own tools read.
"""

from __future__ import annotations

import io

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from eventide.connectors.files.write import FileTarget
from eventide.errors import OptionError, SinkError
from eventide.storage.paths import RemotePath, remote_path

S3 = "s3a://"
_WHERE = (
    "spark.hadoop.fs.s3a.*, or AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID and so on, say where the store is "
    "and who writes"
)


class ObjectsSink:
    def __init__(
        self,
        uri: str,
        format: str,
        identity: str,
        json_columns: tuple[str, ...] = (),
        file_size: int | None = None,
    ) -> None:
        remote_path(uri, {})  # refuses what names no bucket
        if file_size is not None:
            raise OptionError(
                f"'file_size' is for folders of a file system, not for {uri}",
                help="leave it out: an object cannot be added to",
            )
        self._target = FileTarget(uri, format, identity, json_columns)
        self._folder: RemotePath | None = None

    def write(self, batch: int, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        content = io.BytesIO()
        encoder = self._target.encoder(content)
        encoder.write(rows)
        encoder.close()
        if self._folder is None:
            self._folder = remote_path(self._target.folder, _settings())
        object = self._folder / f"part-{self._target.identity}-{batch:010d}.{self._target.format}"
        try:
            object.write_bytes(content.getvalue())
        except OSError as error:
            self._folder = None
            raise SinkError(
                f"{object} could not be written: {' '.join(str(error).split())}",
                help=f"{_WHERE}; mend the cause and run the stream again: the batch takes effect once",
            ) from None

    def close(self) -> None:
        self._folder = None


def _settings() -> dict[str, str]:
    """Spark's, where there is one that tells them."""
    spark = SparkSession.getActiveSession()
    try:
        return {} if spark is None else dict(spark.sparkContext.getConf().getAll())
    except PySparkException:  # a session of Spark Connect has no context
        return {}
