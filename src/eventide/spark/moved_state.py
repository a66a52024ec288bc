"""The state of a stream cut into another number of shards.

Tasks read what each shard holds (Spark's own reader of states), cut it by the keys, and write for each new shard a
parcel: the blobs that its store is to hold. Then Spark gives its states the new number of partitions. The stream's
plan.json, written last, makes the parcels count: a shard takes its parcel in the first time it is called, in the same
commit as all else it stores, and drops what lay under its number before. Up to that file nothing has changed but the
number of Spark's partitions, which the old shards do not mind.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F

from eventide.errors import CheckpointError
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.co_location import CoLocation, co_location
from eventide.spark.sharding import shard_by, shard_numbers
from eventide.spark.state_store import decode_index
from eventide.storage.atomic import read_arrow, write_bytes
from eventide.storage.paths import AnyPath
from eventide.storage.texts import next_batch
from eventide.tasks.cutting import AsAWhole, Blob, ByKey, Cutting

if TYPE_CHECKING:
    from eventide.spark.compile import Compiled

_PARCEL = pa.schema([("space", pa.string()), ("bucket", pa.int64()), ("blob", pa.large_binary())])
_CUT = pa.schema([("target", pa.int32()), ("rows", pa.int64()), ("part", pa.binary())])
_WRITTEN = pa.schema([("target", pa.int32()), ("rows", pa.int64())])


@dataclass(frozen=True)
class Moved:
    """That a stream had `before` shards until `batch`, and where the parcels of its shards are; some have none."""

    batch: int
    before: int
    folder: AnyPath
    parcels: tuple[int, ...]

    @classmethod
    def told(cls, kept: Mapping[str, Any] | None, folder: AnyPath) -> Moved | None:
        """As a stream's plan.json has it; `folder` is that of all its moves."""
        if kept is None:
            return None
        return cls(kept["batch"], kept["before"], folder / str(kept["batch"]), tuple(kept["parcels"]))

    def to_json(self) -> dict[str, Any]:
        return {"batch": self.batch, "before": self.before, "parcels": list(self.parcels)}

    def orphans(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The group keys of shards that are no more."""
        return tuple(number for number in shard_numbers(self.before) if number not in numbers)

    def parcel(self, shard: int) -> Iterator[Blob]:
        if shard not in self.parcels:
            return
        table = read_arrow(_path(self.folder, shard))
        for batch in table.to_batches():
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def cutting_of(compiled: Compiled, spark: SparkSession, before: int, shards: int) -> Cutting | str:
    """How the state of a stream is cut, or why it cannot be."""
    physical, together_in = compiled.physical, co_location(compiled.physical)
    if not hasattr(spark, "_streamingCheckpointManager"):
        return "this version of Spark cannot give its states another number of partitions, 4.2 can"
    if any(input.source.admission is not None for input in physical.inputs):
        return "its sources have limits"
    if together_in is CoLocation.EVERYTHING:
        return AsAWhole(before, shards)
    if together_in is CoLocation.WINDOW:
        return "max_groups keeps a window in one shard"
    if not compiled.spec.build().is_movable:
        return f"that of {type(physical.operator).__name__} is not kept by key alone"
    return ByKey(compiled.spec, shard_by(physical, physical.inputs[0]), before, shards)


def move(
    spark: SparkSession, checkpoint: AnyPath, cutting: Cutting, earlier: Moved | None, folder: AnyPath
) -> tuple[Moved, int]:
    """Write the parcels, then give Spark's state as many partitions as there will be shards; returns also how many rows
    have moved. Counted: raises, with everything as it was, if not all of them have arrived. `earlier` is the last move.
    """
    if earlier is not None:
        _check_arrival(spark, checkpoint, cutting.before, earlier)
    batch = next_batch(checkpoint)
    written = _parcels(spark, checkpoint, cutting, folder / str(batch))
    if _partitions(checkpoint) != cutting.shards:
        spark._streamingCheckpointManager.repartition(str(checkpoint), cutting.shards)
    return Moved(batch, cutting.before, folder / str(batch), tuple(sorted(written))), sum(written.values())


def _check_arrival(spark: SparkSession, checkpoint: AnyPath, shards: int, earlier: Moved) -> None:
    """Raises unless all shards have taken their parcels of an earlier move in."""
    known = _states(spark, checkpoint, "index").select("key.shard", "value.value").collect()
    arrived = {row.shard for row in known if decode_index(bytes(row.value))[2] == earlier.batch}
    missing = [shard for shard in earlier.parcels if shard_numbers(shards)[shard] not in arrived]
    if missing:
        raise CheckpointError(
            f"shards {missing} have not taken in yet what an earlier rescale left for them", help="run the streams once"
        )


def _states(spark: SparkSession, checkpoint: AnyPath, name: str) -> DataFrame:
    return spark.read.format("statestore").option("path", str(checkpoint)).option("stateVarName", name).load()


def _parcels(spark: SparkSession, checkpoint: AnyPath, cutting: Cutting, folder: AnyPath) -> dict[int, int]:
    """The rows in the parcel of each new shard that gets one."""
    states = _states(spark, checkpoint, "blobs")
    blobs = states.select("key.shard", "user_map_key.*", F.col("user_map_value.value").alias("blob"))
    numbers = shard_numbers(cutting.before)
    held = blobs.where(F.col("shard").isin([numbers[shard] for shard in cutting.cut_up]))
    cut = held.groupBy("shard").applyInArrow(_cutter(cutting), "target int, rows bigint, part binary").cache()
    try:
        before = cut.agg(F.sum("rows")).first()
        written = cut.groupBy("target").applyInArrow(_writer(cutting, folder), "target int, rows bigint")
        found = {row.target: row.rows for row in written.collect()}
    finally:
        cut.unpersist()
    expected = 0 if before is None else before[0] or 0
    if sum(found.values()) != expected:
        raise CheckpointError(f"{sum(found.values()):,} rows of state have arrived, and {expected:,} were sent")
    return found


def _cutter(cutting: Cutting) -> Callable[[pa.Table], pa.Table]:
    """Blobs of an old shard → what each new one gets of it."""

    def cut(table: pa.Table) -> pa.Table:
        ordered = table.sort_by([("space", "ascending"), ("bucket", "ascending"), ("number", "ascending")])
        store = MemoryStore()
        for space, bucket, blob in zip(*(ordered[name].to_pylist() for name in _PARCEL.names), strict=True):
            store.append(space, bucket, blob)
        parts = [(target, rows, pickle.dumps(part)) for target, rows, part in cutting.cut(store)]
        return pa.table([list(column) for column in zip(*parts, strict=True)], schema=_CUT)

    return cut


def _writer(cutting: Cutting, folder: AnyPath) -> Callable[[pa.Table], pa.Table]:
    """What a new shard gets of all old ones → its parcel, of which the number of rows is told."""

    def write(table: pa.Table) -> pa.Table:
        target = table["target"][0].as_py()
        rows, blobs = cutting.put_together([pickle.loads(part) for part in table["part"].to_pylist()])
        columns = list(zip(*blobs, strict=True)) or [(), (), ()]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _PARCEL, strict=True)]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _PARCEL) as writer:
            writer.write_table(pa.Table.from_arrays(arrays, schema=_PARCEL))
        write_bytes(_path(folder, target), bytes(sink.getvalue()))
        return pa.table([[target], [rows]], schema=_WRITTEN)

    return write


def _path(folder: AnyPath, shard: int) -> AnyPath:
    return folder / f"{shard}.arrow"


def _partitions(checkpoint: AnyPath) -> int:
    """How many Spark's states have, by the last batch that it planned."""
    newest = next_batch(checkpoint) - 1
    settings = json.loads((checkpoint / "offsets" / str(newest)).read_text().splitlines()[1])["conf"]
    return int(settings["spark.sql.shuffle.partitions"])
