"""Files of a sink in a store: one for each batch, which appears whole when all of it is written.

Its name is made of the stream's identity and the batch number, as in a folder: a batch that is written again replaces
its own object. Where the store is, and who writes, is said by Spark's settings, or by the environment variables that
Amazon's own tools and Hadoop's read.
"""

from __future__ import annotations

import io

import pyarrow as pa

from eventide.connectors.files.stores import spark_settings
from eventide.connectors.files.write import FileTarget
from eventide.errors import OptionError, SinkError
from eventide.storage.paths import RemotePath, remote_path
from eventide.storage.stores import HDFS, S3

_WHERE = {
    S3: "spark.hadoop.fs.s3a.*, or AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID and so on, say where the store "
    "is and who writes",
    HDFS: "spark.hadoop.dfs.*, or HADOOP_CONF_DIR, say where the cluster is, and HADOOP_USER_NAME who writes",
}


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
                help="leave it out: what is in a store is not added to",
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
            self._folder = remote_path(self._target.folder, spark_settings())
        object = self._folder / f"part-{self._target.identity}-{batch:010d}.{self._target.format}"
        try:
            object.write_bytes(content.getvalue())
        except OSError as error:
            self._folder = None
            raise SinkError(
                f"{object} could not be written: {' '.join(str(error).split())}",
                help=f"{_WHERE[object.store.scheme]}; mend the cause and run the stream again: the batch takes effect "
                "once",
            ) from None

    def close(self) -> None:
        self._folder = None
