"""Files of a workload, made by DuckDB from a hash of the row's number: the same on every machine and in every run.

A file's name begins with the number of its batch. Files are made once, in a folder of their own, and linked into the
folder that an engine watches when the engine is to see them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from benchmarks.workloads import DISORDER_MS, EVENTS_PER_SECOND, FILES_PER_BATCH, LATE_BY_MS, Data, Workload

FIRST_MS = 1_000_000_000_000
COPY_OPTIONS = {"json": "FORMAT json", "parquet": "FORMAT parquet, ROW_GROUP_SIZE 131072"}


@dataclass(frozen=True)
class Span:
    """Rows `first` to `first + rows` of the endless stream, in files of batch `batch`; `shift_ms` moves their times.

    Late rows begin after the warm-up: before it ends, native Spark still takes rows that are behind the watermark,
    since it filters them by the watermark of the batch before.
    """

    batch: int
    first: int
    rows: int
    files: int = FILES_PER_BATCH
    shift_ms: int = 0
    has_late_rows: bool = True


@dataclass(frozen=True)
class Plan:
    """The batches of one run, in the order in which an engine gets them."""

    warm: tuple[Span, ...]
    measured: tuple[Span, ...]
    single: tuple[Span, ...]  # a row each, that closes nothing
    closing: Span  # a row that moves the watermark over the end of the open windows

    @property
    def spans(self) -> tuple[Span, ...]:
        return (*self.warm, *self.measured, *self.single, self.closing)


def plan(workload: Workload) -> Plan:
    size, singles = workload.batch_rows, workload.single_rows
    count = workload.warm_batches + workload.batches
    whole = [Span(batch, batch * size, size, has_late_rows=batch >= workload.warm_batches) for batch in range(count)]
    end = count * size
    single = [Span(count + number, end + number, 1, files=1, shift_ms=-1_000) for number in range(singles)]
    closing = Span(count + singles, end + singles, 1, files=1, shift_ms=20_000)
    return Plan(tuple(whole[: workload.warm_batches]), tuple(whole[workload.warm_batches :]), tuple(single), closing)


def write(data: Data, spans: Iterable[Span], folder: Path) -> dict[int, list[Path]]:
    """The files of each batch. Their times of modification are in order, as Spark's file source takes them by age."""
    made: dict[int, list[Path]] = {}
    with duckdb.connect() as database:
        for span in spans:
            for part in range(span.files):
                path = folder / f"{span.batch:06d}-{part}.{data.format}"
                database.execute(f"COPY ({rows_sql(data, span, part)}) TO '{path}' ({COPY_OPTIONS[data.format]})")
                moment = FIRST_MS // 1000 + span.batch * FILES_PER_BATCH + part
                os.utime(path, (moment, moment))
                made.setdefault(span.batch, []).append(path)
    return made


def rows_sql(data: Data, span: Span, part: int) -> str:
    """Rows of one file, by number; a duplicate has the number of the row before it, and so is the same in every
    column.
    """
    first, end = (span.first + span.rows * cut // span.files for cut in (part, part + 1))
    number = f"i - (i % {data.duplicate_one_in} = {data.duplicate_one_in - 1})::INT" if data.duplicate_one_in else "i"
    late = f" - (n % {data.late_one_in} = 7)::INT * {LATE_BY_MS}" if data.late_one_in and span.has_late_rows else ""
    key = f"(hash(n, 1) % {data.keys})::BIGINT"
    event_ms = (
        f"{FIRST_MS + span.shift_ms} + n * 1000 // {EVENTS_PER_SECOND} + (hash(n, 2) % {DISORDER_MS})::BIGINT{late}"
    )
    columns = {
        "k": f"printf('visitor-%08d', {key})" if data.text_keys else key,
        "v": "(hash(n, 3) % 1000)::BIGINT",
        "ts": f"({event_ms}) // 2 * 2",
        "id": "n",
    }
    extra = {
        name: f"printf('value %d of this row', hash(n, {4 + at}) % 1000)"
        if type == "STRING"
        else f"(hash(n, {4 + at}) % 1000000)::BIGINT"
        for at, (name, type) in enumerate(data.columns.items())
        if name not in columns
    }
    chosen = ", ".join(f"{(columns | extra)[name]} AS {name}" for name in data.columns)
    return f"SELECT {chosen} FROM (SELECT {number} AS n FROM range({first}, {end}) AS numbers(i))"


def link(files: Iterable[Path], folder: Path) -> None:
    """Let an engine that watches `folder` see the files."""
    for path in files:
        os.link(path, folder / path.name)
