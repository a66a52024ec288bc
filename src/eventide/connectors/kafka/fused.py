"""Messages in a streaming query: the rows that tasks have packed, and those that they left to Spark to decode."""

from __future__ import annotations

import base64
import pickle

from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import StringType, StructField, StructType

from eventide.connectors import paced_reader
from eventide.connectors.arrow_types import to_arrow_schema
from eventide.connectors.contract import CORRUPT, PASSED, PLACE, Scans, hidden, user_schema
from eventide.connectors.files.csv import rows_of_records
from eventide.connectors.files.lines import LINE, rows_of_lines
from eventide.connectors.files.read import not_utf8
from eventide.connectors.fused_time import resolution_of
from eventide.connectors.kafka import data_source
from eventide.connectors.kafka.data_source import SETTINGS, FusedTopics, TopicSettings
from eventide.connectors.kafka.formats import decoder_of
from eventide.connectors.kafka.offsets import TopicChoice, parse_partitions
from eventide.connectors.kafka.records import RecordMessages
from eventide.connectors.kafka.settings import check_installed, client_settings, timeout_of
from eventide.eventtime.durations import SECOND
from eventide.plan.logical import Source
from eventide.plan.names import backticked
from eventide.plan.pace import pace_of, pace_with_load
from eventide.plan.physical import Fusion
from eventide.plan.positions import Edge, parse_position
from eventide.tasks.fused_scan import RECEIVED, ROW, SCANNED, FusedScan
from eventide.tasks.messages import HEADERS, Messages
from eventide.tasks.packing import LANE, PACKED, Packing, spark_ddl

_BESIDE = (("topic", "string"), ("partition", "int"), ("offset", "bigint"), ("key", "binary"))
_BESIDE_DDL = ", ".join(f"{name} {type}" for name, type in (*_BESIDE, ("headers", "map<string, binary>")))


def check_topics(source: Source) -> None:
    """Raises what keeps the source from being read: no client, no brokers, no topic."""
    check_installed(f"the source {source.name}")
    from eventide.connectors.kafka.topics import Topics

    settings = client_settings(f"source {source.name}", source.options)
    Topics(source.name, settings, _choice(source), timeout_of(source.options)).partitions()


def fused_scan(source: Source, fusion: Fusion, packing: Packing, numbered: bool, decodes: bool) -> FusedScan:
    """`numbered`: whether rows say in which order they arrived; `decodes`: whether Spark decodes, after the scan, what
    only it can.
    """
    import pyarrow as pa

    resolution = resolution_of(source, fusion)
    format, metadata = source.options.get("format", "json"), tuple(source.metadata.items())
    reader = Messages(format, fusion.columns, metadata, resolution.iso, fusion.left_to_spark)
    beside = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary())]
    return FusedScan(
        reader,
        resolution,
        fusion.condition,
        fusion.packed,
        packing,
        fusion.identity,
        numbered,
        decodes,
        pa.schema([*SCANNED, *beside, ("headers", HEADERS)]),
    )


def scanned(spark: SparkSession, source: Source, number: int, scan: FusedScan, scans: Scans) -> DataFrame:
    """Packed rows, and messages that Spark must decode; `number` is the input's."""
    for module in (data_source, paced_reader):  # so that planning a batch imports nothing
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spark.createDataFrame([], "nothing int")  # makes this session the active one, where Spark looks up data sources
    try:
        spark.dataSource.register(FusedTopics)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # another source of this session has registered it
            raise
    text = base64.b64encode(pickle.dumps(_settings(source, number, scan, scans))).decode()
    schema = f"{spark_ddl(SCANNED)}, {_BESIDE_DDL}"
    return spark.readStream.format(FusedTopics.name()).schema(schema).option(SETTINGS, text).load()


def decoded(frame: DataFrame, source: Source, scan: FusedScan) -> DataFrame:
    """The messages that a scan left to Spark as rows of the source; packed rows pass in the column PASSED.

    Only the columns that the scan reads are decoded.
    """
    passed = F.when(F.col("shard").isNotNull(), F.struct(*PACKED.names)).alias(PASSED)
    beside = [F.col(name).alias(f"__{name}") for name in ("topic", "partition", "offset", "key", "headers")]
    messages = frame.select(passed, "seq", RECEIVED, *beside, F.col(ROW).alias(LINE))
    schema = user_schema(source)
    content = StructType([field for field in schema.fields if field.name not in source.metadata])
    rows = _content(messages, source, content, {name for name, _ in scan.reader.columns})
    own = [_own(source, field.name, field.dataType.simpleString()) for field in schema.fields]
    place = F.concat(
        F.lit("topic "), "__topic", F.lit(", partition "), "__partition", F.lit(", offset "), F.col("__offset")
    )
    lanes = [F.concat("__topic", F.lit("-"), F.col("__partition")).alias(LANE)] if scan.packing.lanes else []
    known = hidden(F.col("seq"), F.col(RECEIVED), F.col(CORRUPT))
    return rows.select(*own, *known, place.alias(PLACE), *lanes, PASSED)


def _content(messages: DataFrame, source: Source, content: StructType, columns: set[str]) -> DataFrame:
    """The messages with what they hold, and CORRUPT, in place of LINE."""
    match source.options.get("format", "json"):
        case "raw":
            return _raw(messages, content)
        case "avro" | "protobuf":
            return _records(messages, source, content, columns)
        case "csv":
            return rows_of_records(messages, LINE, source, content, columns)
        case _:
            return rows_of_lines(messages, content, columns)


def _records(messages: DataFrame, source: Source, content: StructType, columns: set[str]) -> DataFrame:
    wanted = StructType([field for field in content.fields if field.name in columns])
    kept = [field for field in messages.schema.fields if field.name != LINE]
    decode = RecordMessages(decoder_of(f"source {source.name}", source.options), LINE, to_arrow_schema(wanted))
    rows = messages.mapInArrow(decode, StructType([*kept, *wanted.fields, StructField(CORRUPT, StringType())]))
    unused = [F.lit(None).cast(field.dataType).alias(field.name) for field in content.fields if field not in wanted]
    return rows.select("*", *unused)


def _raw(messages: DataFrame, content: StructType) -> DataFrame:
    (field,) = content.fields
    text = F.col(LINE).cast(field.dataType)
    kept = [name for name in messages.columns if name != LINE]
    if not isinstance(field.dataType, StringType):
        return messages.select(*kept, text.alias(field.name), F.lit(None).cast("string").alias(CORRUPT))
    wrong = F.when(~F.is_valid_utf8(text), not_utf8(field.name, text))
    return messages.select(*kept, F.make_valid_utf8(text).alias(field.name), wrong.alias(CORRUPT))


def _own(source: Source, name: str, type: str) -> Column:
    key = source.metadata.get(name)
    if key is None:
        return F.col(backticked(name))
    if key == "timestamp":
        return F.timestamp_micros(RECEIVED).alias(name)
    if type == "map<string,string>":
        texts = F.transform_values("__headers", lambda _, value: F.make_valid_utf8(value.cast("string")))
        return texts.alias(name)
    return F.col(f"__{key}").cast(type).alias(name)


def _settings(source: Source, number: int, scan: FusedScan, scans: Scans) -> TopicSettings:
    options = source.options
    most = options.get("max_messages_per_batch")
    target = pace_with_load(source) if most is None else pace_of(source)
    return TopicSettings(
        pickle.dumps(scan),
        source.name,
        client_settings(f"source {source.name}", options),
        _choice(source),
        parse_position(options["start"]) if "start" in options else Edge(latest=False),
        parse_position(options["end"]) if "end" in options else None,
        options.get("missing") == "skip",
        options.get("group"),
        scans.folder / str(number),
        scans.bound,
        scans.tasks,
        None if most is None else int(most),
        None if target is None else target / SECOND,
        timeout_of(options),
        None if scan.packing.surveying is None else scan.packing.surveying.orders,
    )


def _choice(source: Source) -> TopicChoice:
    names = tuple(name.strip() for name in source.options.get("topic", "").split(",") if name.strip())
    partitions = parse_partitions(source.options["partitions"]) if "partitions" in source.options else ()
    return TopicChoice(names, source.options.get("topic_pattern"), partitions)
