"""The contract between a kernel and whatever runs it (Spark, a test, the reference model).

A kernel is the computation of one shard: rows in, rows out, state in a `Store`. It imports no Spark and reads no
clock. The runner promises, and a kernel may rely on it:

* `on_rows` is called at most once per batch and shard, with all rows of that batch for that shard, by input;
* rows may come folded to `on_folded` instead, before `on_rows`, if the kernel's spec has a `prefold`;
* `on_time` is called after `on_rows` of the same batch, with the same clock, when `clock.watermark` has reached the
  `wake_at` that the kernel returned last; it may be called in a batch without rows, and early calls are harmless; if
  the kernel has only something to forget then (`only_forgets`), no batch is run for that alone;
* `on_flush` is called in every shard when a graceful stop wants what has begun by `until`, the latest event time that
  the stream has seen in any shard; that is closed then, in all shards alike, if `on_rows` follows because the query is
  resumed;
* `on_tick` is called when a kernel asked for processing-time wake-ups (`tick_every`) and one is due;
* the watermark never goes back; a call that fails is repeated from the same state with the same arguments.

A kernel promises:

* all state is in the store when a call returns; nothing is kept in the kernel object between calls but caches;
* the same calls with the same arguments give the same output and the same store, byte for byte;
* every row handed to `on_rows` is counted exactly once in `Output.counts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from eventide.kernels.given_tables import GivenTables

# Columns of the table handed to `on_rows`. Beside them come the columns that the spec names: group keys
# (KEY + n), aggregate inputs (INPUT + n), and original columns that are neither (ORIGINAL + n).
TS = "__ts"  # int64, microseconds since the epoch; NULL only where PROBLEM is set
PROBLEM = "__problem"  # string; NULL, or the reason why this row is an `error` payload; absent where no row is
DETAIL = "__detail"  # string; what exactly was wrong with such a row; absent with PROBLEM
SEQ = "__seq"  # int64; order of arrival within a batch, to break ties between equal timestamps
FROM = "__from"  # int32; the number of the row's input, where rows of several inputs are in one table
DEDUP = "__id"  # any type; only for sources that DEDUPLICATE BY
CLAIM_LAG = b"claim_lag"  # of a table in place of CLAIM: how far each row's watermark lies before its event time
CLAIM = "__claim"  # int64; the watermark that the row allows, until it is admitted: only for sources with limits
KEY, INPUT, ORIGINAL, RESULT, CHANGES = "__k", "__i", "__o", "__a", "__c"

# Columns of main output tables, in front of the keys (KEY + n) and results (RESULT + n).
WINDOW_START, WINDOW_END, EMIT_EPOCH, OP = "window_start", "window_end", "emit_epoch", "op"
WINDOW_TIME = "window_time"  # the last moment of a window
CHANGE = "__op"  # the same as OP where rows have the user's columns
OLDEST = "oldest"  # gauge: the event time of the oldest row that a kernel may still give
ROWTIME = "__time"  # the event time of a row that is forwarded or comes out of a join; a window has its end
MAIN_FIELDS = (
    pa.field(WINDOW_START, pa.timestamp("us", tz="UTC")),
    pa.field(WINDOW_END, pa.timestamp("us", tz="UTC")),
    pa.field(EMIT_EPOCH, pa.int64()),
    pa.field(OP, pa.int32()),
)

# What a kernel says about a row that it did not use. The runner adds processing_time, watermark, plan_id and shard.
SIDE_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("source", pa.string()),  # the input that the row came from
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("window_end", pa.timestamp("us", tz="UTC")),
        ("group_key", pa.string()),  # JSON object, user's names
        ("original_event", pa.string()),  # JSON object, user's names
        ("error_detail", pa.string()),
    ]
)

# The same, complete: what only the runner knows comes last.
SIDE_OUTPUT_SCHEMA = pa.schema(
    [
        *SIDE_SCHEMA,
        ("processing_time", pa.timestamp("us", tz="UTC")),
        ("watermark", pa.timestamp("us", tz="UTC")),
        ("plan_id", pa.string()),
        ("shard", pa.int32()),
    ]
)

USED = "used"
SIDE_KINDS = ("late", "duplicate", "error", "evicted", "rejected", "shed")


# The rows of one batch by the number of their input; an input without rows has no entry.
Batch = Mapping[int, pa.Table]

# The gauges of all shards that have one, by name.
Gauges = Mapping[str, list[int]]


@dataclass(frozen=True)
class InputSpec:
    """One input of a kernel, as its payloads show it: the user's names for keys and columns, with packed columns."""

    source: str = ""
    keys: tuple[tuple[str, str], ...] = ()
    originals: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Clock:
    """Time as of this batch, in microseconds since the epoch. `watermark` is None until the first row was seen."""

    watermark: int | None
    now: int


@dataclass
class Output:
    """What one call gives back. Tables in `main` follow `main_schema` of the spec, tables in `side` SIDE_SCHEMA."""

    main: GivenTables = field(default_factory=GivenTables)
    side: list[pa.Table] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # USED and SIDE_KINDS: one for each row of `on_rows`
    events: Counter[str] = field(default_factory=Counter)  # windows_opened, windows_closed, sessions_merged, ...
    gauges: dict[str, int] = field(default_factory=dict)  # open_windows, buffer_size, ...: the value after this call
    wake_at: int | None = None  # event time (microseconds) at which `on_time` has something to do
    only_forgets: bool = False  # whether nothing is given then: `on_time` may come with the next rows, whenever that is

    def merge(self, other: Output) -> Output:
        """Both outputs in one, `other` being the later one: its gauges and its wake-up win."""
        events = Counter(self.events)
        events.update(other.events)  # which keeps zeros: a counter is listed from its first batch on
        return Output(
            self.main + other.main,
            self.side + other.side,
            self.counts + other.counts,
            events,
            {**self.gauges, **other.gauges},
            other.wake_at,
            other.only_forgets,
        )


class Store(Protocol):
    """A shard's state: named spaces of buckets, a bucket being an ordered log of blobs.

    Reads cost a round trip per blob, appends and deletes a round trip each, `buckets` costs nothing: the index of
    buckets is loaded once per batch. So append small partials, read a bucket only to close or compact it, and choose
    buckets (a pane's start, a time slot, a hash) so that what is read together lies together.
    """

    def append(self, space: str, bucket: int, blob: bytes) -> int:
        """Add a blob to the end of a bucket's log; returns how many it holds now."""
        ...

    def read(self, space: str, bucket: int) -> list[bytes]:
        """The blobs of a bucket in the order of their appends; empty if there is no such bucket."""
        ...

    def replace(self, space: str, bucket: int, blob: bytes) -> None:
        """Put one blob in the place of a bucket's whole log (compaction, or a plain value)."""
        ...

    def delete(self, space: str, bucket: int) -> None:
        """Forget a bucket; no error if there is none."""
        ...

    def buckets(self, space: str) -> list[int]:
        """The buckets of a space that hold anything, ascending."""
        ...

    def size(self, space: str, bucket: int) -> tuple[int, int]:
        """(blobs, bytes) that a bucket holds, without reading it."""
        ...


class Kernel(Protocol):
    """One shard's computation; see the module's docstring for who calls what when."""

    def on_rows(self, batch: Batch, clock: Clock, store: Store) -> Output: ...

    def on_time(self, clock: Clock, store: Store) -> Output: ...

    def on_tick(self, clock: Clock, store: Store) -> Output: ...

    def on_flush(self, until: int, clock: Clock, store: Store) -> Output: ...


@runtime_checkable
class FoldingKernel(Kernel, Protocol):
    """A kernel that also takes rows which were folded on their way: see `prefold`."""

    def on_folded(self, partial: pa.Table, rows: int, clock: Clock, store: Store) -> Output: ...


class KernelSpec(Protocol):
    """The frozen description from which each worker builds its kernel. Picklable, free of state.

    `fingerprint` changes exactly when stored state could no longer be read or would mean something else.
    """

    @property
    def main_schema(self) -> pa.Schema: ...

    @property
    def inputs(self) -> tuple[InputSpec, ...]: ...

    @property
    def tick_every(self) -> int | None:
        """Microseconds of processing time between `on_tick` calls, or None."""
        ...

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        """The watermark of what the kernel gives, under this one of what it gets; None: it stays where it was.

        The largest that makes none of the rows to come late for a window. `gauges` are those after the batch.
        """
        ...

    def fingerprint(self) -> str: ...

    def build(self) -> Kernel: ...


def united(batch: Batch, inputs: int) -> pa.Table:
    """All rows in one table, for a kernel to which inputs are alike; with a column FROM if there are several inputs."""
    if inputs == 1:
        return batch[0]
    tables = [
        table.append_column(FROM, pa.repeat(pa.scalar(number, pa.int32()), table.num_rows))
        for number, table in sorted(batch.items())
    ]
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def iter_rows(tables: list[pa.Table]) -> Iterator[dict[str, object]]:
    """All rows of several tables as dicts; for tests and small outputs."""
    for table in tables:
        yield from table.to_pylist()
