"""A database on bare kernels: graphs of streams without Spark, each stream with stores of its own."""

from __future__ import annotations

import pyarrow as pa

from eventide.plan.logical import Column, Source, Stream
from eventide.plan.reads import sources_of, with_columns
from eventide.plan.stream_source import IS_LATE, STREAM, is_stream
from eventide.testing.kernel_runner import KernelRunner
from eventide.testing.reference_database import Model, ReferenceDatabase
from eventide.testing.values import spark_type

SHARDS = 2


class KernelDatabase(ReferenceDatabase):
    def _model(self, stream: Stream) -> Model:
        types = {source.name: self._columns(source) for source in sources_of(stream.query) if is_stream(source)}
        return KernelRunner(with_columns(stream, types) if types else stream, SHARDS)

    def _columns(self, source: Source) -> tuple[Column, ...]:
        """With the types that only the kernel which gives them knows."""
        runner = self._state.streams[source.options[STREAM]].model
        known: dict[str, pa.DataType] = {}
        if IS_LATE not in source.options and isinstance(runner, KernelRunner):
            known = runner.output_types()
        return tuple(
            Column(column.name, spark_type(known[column.name]) if column.name in known else column.type)
            for column in source.columns
        )
