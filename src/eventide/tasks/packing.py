"""Many rows as one Arrow blob per shard: the form in which they travel to the operator.

Spark walks the input of transformWithState row by row in Python, so plain rows would cost microseconds each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventide.eventtime.resolution import DECLARED, FALLBACKS, FROM_PROCESSING, LEFT_OUT, PROBLEMS
from eventide.eventtime.time_range import SHIFT_US
from eventide.kernels.contract import CLAIM, CLAIM_LAG, DETAIL, PROBLEM, TS
from eventide.kernels.prefold import Prefold, TimeBound
from eventide.kernels.vector.columns import column, normalised
from eventide.kernels.vector.hashing import hash_rows
from eventide.kernels.windows.grid import latest
from eventide.tasks.blobs import array_of, to_buffer

if TYPE_CHECKING:
    from eventide.admission.trust import Trusted
    from eventide.tasks.surveying import Surveyed, Surveying

HOW = "__how"  # how the event time was found, or what is wrong: a number of `eventtime.resolution`
LANE = "__lane"  # only of sources whose partitions have a watermark each: the partition that the row came from

# Only of sources with limits:
ARRIVED = "__arrived"  # when the row came, in microseconds
NOW = "__now"  # when the batch began, in microseconds: only where rows may be shed
PRIORITY = "__priority"  # what matters more, as the user's expression gives it: only where rows may be shed
PART = "__part"  # where the run of rows begins that a row is in, if the source knows: no row of another task is in it
KEPT = "__kept"  # whether the query's filters keep the row: one that they do not keep takes its token all the same

SURVEY = "survey"  # a control entry for every shard: the blob has the slices of a survey
REST = "rest"  # one for a single shard: the blob has tickets and times of rows that the query leaves out
LANES = "lanes"  # a control entry: `facts` has for partitions of a source what is known of them, by name
FORWARDED = "forwarded"  # the blob has what a task has made of rows that need no operator; `folded` is how many
UNDECODED = "undecoded"  # a control entry: this batch must be read by a plan that decodes; `facts` says where
OVERDRAWN = (
    "overdrawn"  # what a shard says: this batch must be read by a plan that lets no row pass before limits are asked
)
NOT_READ = "not read"  # what a shard says: this batch must be read by a plan that reads what only payloads show

PACKED = pa.schema(
    [
        ("shard", pa.int32()),
        ("max_ts", pa.timestamp("us", tz="UTC")),  # of Spark's watermark: the claim, shifted
        ("input", pa.int32()),  # the number of the input in the plan
        ("claim", pa.int64()),  # the watermark that these rows allow their source
        ("top", pa.int64()),  # the latest event time
        ("control", pa.string()),  # the kind of a control entry, which has no rows
        ("at", pa.int64()),  # the time of a control entry that concerns the whole stream
        ("folded", pa.int64()),  # the blob is a partial, or FORWARDED: how many rows it stands for, told once per task
        ("facts", pa.string()),  # JSON: events to count, once per task
        ("blob", pa.binary()),
    ]
)
_FEW_SHARDS = 4
# bytes: Spark copies a value several times on its way; one of a megabyte or more Java's collector keeps apart
_LARGEST_BLOB = 900 << 10
MOST_HELD = 64 << 20  # bytes of rows that a task collects before it packs them
_TASK_BITS = 40  # in the key of a survey: the place in the task is below them
_SURVEY_KEY, _ORDER, _LEFT_OUT, _TRUSTED = b"survey", b"order", b"left_out", b"trusted"

_DDL = {
    pa.int32(): "int",
    pa.int64(): "long",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def spark_ddl(schema: pa.Schema) -> str:
    """A flat schema of ours in Spark's words.

    >>> spark_ddl(pa.schema([("shard", pa.int32()), ("blob", pa.binary())]))
    'shard int, blob binary'
    """
    return ", ".join(f"{field.name} {_DDL[field.type]}" for field in schema)


def to_blob(table: pa.Table) -> bytes:
    blob: bytes = to_buffer(table).to_pybytes()
    return blob


def labelled(
    table: pa.Table,
    survey: int,
    order: bytes | None = None,
    left_out: dict[int, int] | None = None,
    trusted: Trusted | None = None,
) -> pa.Table:
    """The table, to be packed with the key of the survey that its rows or slices belong to, the shedder's order, how
    many rows were shed by the task itself, by priority, and what it tells of those that it let pass.
    """
    told = {} if order is None else {_ORDER: order}
    told |= {} if trusted is None else {_TRUSTED: trusted.to_bytes()}
    told |= {_LEFT_OUT: json.dumps(left_out).encode()} if left_out else {}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _SURVEY_KEY: str(survey), **told})


def order_of(slices: pa.Table) -> bytes | None:
    """The shedder's order under which a survey was made; None: nothing was to be shed."""
    order: bytes | None = (slices.schema.metadata or {}).get(_ORDER)
    return order


def left_out_of(slices: pa.Table) -> dict[int, int]:
    """How many rows a task has shed by itself, by priority."""
    told = (slices.schema.metadata or {}).get(_LEFT_OUT)
    return {} if told is None else {int(priority): count for priority, count in json.loads(told).items()}


def trusted_of(slices: pa.Table) -> bytes | None:
    """What a task tells of rows that it let pass, as `admission.trust` has it; None if it let none pass."""
    told: bytes | None = (slices.schema.metadata or {}).get(_TRUSTED)
    return told


def survey_of(table: pa.Table) -> int | None:
    """The key of the survey that a table from a blob belongs to."""
    key = (table.schema.metadata or {}).get(_SURVEY_KEY)
    return None if key is None else int(key)


def from_blob(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


@dataclass(frozen=True)
class ShardBy:
    """Which rows go to one shard: those that agree in `columns`, and in the tumbling window (offset, size) if one is
    given.

    No columns and no window: all rows of the stream meet. `anywhere`: no two rows need to meet.
    """

    columns: tuple[str, ...] = ()
    window: tuple[int, int] | None = None
    anywhere: bool = False

    def shards_of(self, rows: pa.Table, shards: int, task: int) -> npt.NDArray[np.uint64] | int:
        """The shard of every row, or the one of all."""
        if shards == 1:
            return 0
        if self.anywhere:
            return task % shards
        if not self.columns and self.window is None:
            return 0
        by = [normalised(column(rows, name)) for name in self.columns]
        if self.window is not None:
            offset, size = self.window
            by.append(pa.array((column(rows, TS).fill_null(0).to_numpy(zero_copy_only=False) - offset) // size))
        return hash_rows(by, rows.num_rows) % np.uint64(shards)


class Forwarder(Protocol):
    """What a task does with rows that need no operator: it makes of them what the stream gives, and writes it."""

    def take(self, rows: pa.Table, bound: TimeBound | None) -> pa.Table:
        """Returns the rows that the operator must see all the same."""

    def end(self) -> tuple[int, list[tuple[str, bytes]]]:
        """How many rows were taken, and what became of them, as tagged blobs."""


class Forwarding(Protocol):
    def begin(self, task: int) -> Forwarder: ...


@dataclass(frozen=True)
class Packing:
    """Rows with HOW and DETAIL → packed rows, one per shard that gets any.

    `numbers` are the group keys of the shards. `lag` is subtracted here, in microseconds, before Spark rounds to
    milliseconds; with `carried` rows carry the watermark in that column. Rows with a problem never move the watermark.
    """

    input: int
    numbers: tuple[int, ...]
    shard_by: ShardBy
    lag: int
    carried: str | None = None
    prefold: Prefold | None = None
    told: bool = False  # rows allow no watermark: it comes beside them
    lanes: bool = False  # rows have a LANE, and tell what watermark each allows
    surveying: Surveying | None = None  # of a source with limits
    late_only: frozenset[str] = frozenset()  # columns that only a row needs that is late, or has a problem
    horizon: int = 0  # how far behind the watermark, in microseconds, a row may be that the operator still takes
    forwarding: Forwarding | None = None  # of rows that need no operator
    trusts: bool = False  # of a source with limits: see `admission.trust`

    def at(self, now: int) -> Packing:
        """That of a batch which began then: while rows are shed, nobody is trusted."""
        if self.surveying is None or not self.trusts or self.surveying.is_calm(now):
            return self
        return replace(self, prefold=None, late_only=frozenset(), forwarding=None, trusts=False)

    def needs_originals(self, rows: pa.Table, bound: TimeBound | None) -> npt.NDArray[np.bool_] | None:
        """Which rows may need the columns that only late rows need; None: as far as is known, all."""
        if not self.late_only or bound is None:
            return None
        if HOW in rows.column_names:
            needy = np.asarray(pc.greater(column(rows, HOW), FROM_PROCESSING))
        elif PROBLEM in rows.column_names:
            needy = np.asarray(column(rows, PROBLEM).is_valid())
        else:
            needy = np.zeros(rows.num_rows, np.bool_)
        if self.surveying is not None:
            needy = needy | self.surveying.rejects(rows)
        line = latest(bound.watermark, None if bound.flushed is None else bound.flushed + self.horizon)
        return needy if line is None else needy | np.asarray(pc.less_equal(column(rows, TS), line).fill_null(True))

    def _sparing(self, rows: pa.Table, bound: TimeBound | None) -> list[pa.Table]:
        """The rows, those that cannot be late without what only late ones need."""
        spared = [name for name in rows.column_names if name in self.late_only]
        needy = self.needs_originals(rows, bound) if spared else None
        if needy is None or needy.all():
            return [rows]
        if not needy.any():
            return [rows.drop_columns(spared)]
        return [rows.filter(pa.array(needy)), rows.filter(pa.array(~needy)).drop_columns(spared)]

    def pack(
        self,
        rows: pa.Table,
        task: int,
        bound: TimeBound | None = None,
        place: int = 0,
        forwarder: Forwarder | None = None,
    ) -> list[dict[str, Any]]:
        """`task` numbers the task, for rows that may go anywhere; `place` is how many of its rows came before these.
        With a `bound` rows may be folded; a `forwarder` takes those that need no operator.
        """
        if self.surveying is not None:
            return self._pack_surveyed(self.surveying, rows, task, place, bound, forwarder)
        how = column(rows, HOW)
        times = self._times(rows, how)
        lanes = self._lanes(rows, how) if self.lanes else []
        rows, how, some_left_out = _taken(rows, how)
        rows, facts = _judged(rows, how)
        if self.carried is not None or self.lanes:
            rows = rows.drop_columns([name for name in (self.carried, LANE) if name in rows.column_names])
        packed = self._sent(rows, task, bound, forwarder)
        if (some_left_out or forwarder is not None) and not packed:
            packed = [{"shard": self.numbers[0]}]  # nothing but the time of rows that do not travel
        if facts and packed:
            packed[0]["facts"] = json.dumps(facts)
        return [*[{**times, **row} for row in packed], *lanes]

    def forwarded(self, forwarder: Forwarder, task: int) -> list[dict[str, Any]]:
        """What became of the rows that a forwarder took."""
        count, given = forwarder.end()
        if count == 0:
            return []
        tagged = pa.table(
            {"tag": [tag for tag, _ in given], "blob": pa.array([blob for _, blob in given], pa.binary())}
        )
        shard = self.numbers[task % len(self.numbers)]
        return [{"shard": shard, "input": self.input, "control": FORWARDED, "folded": count, "blob": to_blob(tagged)}]

    def _sent(
        self, rows: pa.Table, task: int, bound: TimeBound | None, forwarder: Forwarder | None
    ) -> list[dict[str, Any]]:
        """Rows by shard: those that may be folded, or forwarded, are."""
        packed: list[dict[str, Any]] = []
        if self.prefold is not None and bound is not None and PROBLEM not in rows.column_names and rows.num_rows:
            packed, rows = self._folded(self.prefold, rows, bound, task)
        if forwarder is not None:
            rows = forwarder.take(rows, bound)
        for some in self._sparing(rows, bound):
            for shard, part in self._split(some, task):
                packed += [{"shard": self.numbers[shard], "blob": to_buffer(piece)} for piece in _pieces(part)]
        return packed

    def _lanes(self, rows: pa.Table, how: pa.Array) -> list[dict[str, Any]]:
        """What watermark the rows of each partition allow it."""
        claims = pa.table({LANE: rows[LANE], CLAIM: self._claims(rows, how)}).group_by(LANE).aggregate([(CLAIM, "max")])
        found = zip(claims[LANE].to_pylist(), claims[f"{CLAIM}_max"].to_pylist(), strict=True)
        told = {lane: {"watermark": claim} for lane, claim in found if claim is not None}
        return [self.of_lanes(told)] if told else []

    def of_lanes(self, figures: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
        """The control entry that tells of partitions."""
        return {"shard": self.numbers[0], "input": self.input, "control": LANES, "facts": json.dumps(figures)}

    def _pack_surveyed(
        self,
        surveying: Surveying,
        rows: pa.Table,
        task: int,
        place: int,
        bound: TimeBound | None,
        forwarder: Forwarder | None,
    ) -> list[dict[str, Any]]:
        """Rows with their tickets, and the slices for every shard."""
        key = (task << _TASK_BITS) + place
        trusts = self.trusts and bound is not None
        surveyed = surveying.survey(rows, key, trusts=trusts)
        if trusts and bound is not None and surveyed.slices is not None and surveyed.order is None:
            return self._pack_trusting(surveying, surveyed, key, task, bound, forwarder)
        rows, how = surveyed.rows, column(surveyed.rows, HOW)
        times: dict[str, Any] = {"input": self.input}
        rest = None if surveyed.rest is None else self._telling_time(surveyed.rest)
        if surveying.needs_history:
            rows = rows if surveyed.slices is None else self._claiming(rows, how)
        else:
            left = self._telling_time(rows if not surveyed.out.any() else rows.filter(pa.array(~surveyed.out)))
            left = left if rest is None else pa.concat_tables([left, rest])
            times = self._times(left, column(left, HOW))
        rows, facts = _judged(rows, how)
        if self.carried is not None:
            rows = rows.drop_columns([self.carried])
        packed: list[dict[str, Any]] = []
        if surveyed.slices is not None:
            blob = to_blob(labelled(surveyed.slices, key, surveyed.order))
            packed = [{"shard": number, "control": SURVEY, "blob": blob} for number in self.numbers]
        if surveyed.left_out:
            from eventide.admission.batch_admission import SLICE_SCHEMA  # which streams without limits need not load

            slices = SLICE_SCHEMA.empty_table() if surveyed.slices is None else surveyed.slices
            blob = to_blob(labelled(slices, key, surveyed.order, surveyed.left_out))
            packed[:1] = [{"shard": self.numbers[0], "control": SURVEY, "blob": blob}]
        rows = rows if surveyed.slices is None else labelled(rows, key)
        packed += [{"shard": self.numbers[shard], "blob": to_buffer(part)} for shard, part in self._split(rows, task)]
        if facts and packed:
            packed[0]["facts"] = json.dumps(facts)
        if rest is not None and surveyed.rest is not None and surveying.needs_history:
            packed.append(self._rest(surveyed.rest, self._claims(rest, column(rest, HOW)), key))
        return [{**times, **row} for row in packed]

    def _pack_trusting(
        self,
        surveying: Surveying,
        surveyed: Surveyed,
        key: int,
        task: int,
        bound: TimeBound,
        forwarder: Forwarder | None,
    ) -> list[dict[str, Any]]:
        """Rows that limits will admit, unless they lack tokens, as those of a source without limits; the others with
        their tickets; the slices for every shard.
        """
        rows, how = surveyed.rows, column(surveyed.rows, HOW)
        is_sure = ~surveyed.out & np.asarray(pc.less_equal(how, FROM_PROCESSING))
        sure = rows if is_sure.all() else rows.filter(pa.array(is_sure))
        told = surveying.trusted(sure, surveyed.arrived[is_sure])
        time = self._telling_time(sure)
        time = time if surveyed.rest is None else pa.concat_tables([time, self._telling_time(surveyed.rest)])
        told = replace(told, top=pc.max(column(time, TS)).as_py())
        times = self._times(time, column(time, HOW))  # if they lack tokens, nothing of this batch counts
        packed: list[dict[str, Any]] = []
        for number in self.numbers:
            figures = told if number == self.numbers[0] else type(told)()
            slices = labelled(surveyed.slices, key, left_out=surveyed.left_out if not packed else None, trusted=figures)
            packed.append({"shard": number, "control": SURVEY, "blob": to_blob(slices)})
        from eventide.admission.batch_admission import TICKET_FIELDS  # which streams without limits need not load
        from eventide.admission.gate import PRIORITY_CODE

        sure, facts = _judged(sure, column(sure, HOW))
        hidden = (*TICKET_FIELDS, PRIORITY_CODE, self.carried)
        sure = sure.drop_columns([name for name in sure.column_names if name in hidden])
        packed += self._sent(sure, task, bound, forwarder)
        if not is_sure.all():
            packed += self._with_tickets(surveying, rows.filter(pa.array(~is_sure)), key, task)
        if facts:
            packed[0]["facts"] = json.dumps(facts)
        return [{**times, **row} for row in packed]

    def _with_tickets(self, surveying: Surveying, rows: pa.Table, key: int, task: int) -> list[dict[str, Any]]:
        """Rows that a shard judges."""
        how = column(rows, HOW)
        rows = self._claiming(rows, how) if surveying.needs_history else rows
        rows, _ = _judged(rows, how)
        if self.carried is not None:
            rows = rows.drop_columns([self.carried])
        parts = self._split(labelled(rows, key), task)
        return [{"shard": self.numbers[shard], "blob": to_buffer(part)} for shard, part in parts]

    def _claiming(self, rows: pa.Table, how: pa.Array) -> pa.Table:
        """Rows with the watermark that each allows."""
        if self.carried is None and pc.all(_is_declared(how)).as_py():
            return rows.replace_schema_metadata({CLAIM_LAG: str(self.lag)})
        return rows.append_column(CLAIM, self._claims(rows, how))

    def _telling_time(self, rows: pa.Table) -> pa.Table:
        """What tells about time."""
        return rows.select([TS, HOW, *(() if self.carried is None else (self.carried,))])

    def _rest(self, rows: pa.Table, claims: pa.Array, key: int) -> dict[str, Any]:
        from eventide.admission.batch_admission import TICKET_FIELDS  # which streams without limits need not load

        tickets = [name for name in TICKET_FIELDS if name in rows.column_names]
        told = rows.select([TS, *tickets]).append_column(CLAIM, claims)
        return {"shard": self.numbers[0], "control": REST, "blob": to_blob(labelled(told, key))}

    def _claims(self, rows: pa.Table, how: pa.Array) -> pa.Array:
        """For each row the watermark that it allows; NULL where it allows none."""
        own = pc.subtract(column(rows, TS), self.lag) if self.carried is None else column(rows, self.carried)
        is_declared = _is_declared(how)
        return own if pc.all(is_declared).as_py() else pc.if_else(is_declared, own, pa.scalar(None, pa.int64()))

    def _folded(
        self, prefold: Prefold, rows: pa.Table, bound: TimeBound, task: int
    ) -> tuple[list[dict[str, Any]], pa.Table]:
        """Partials by shard, and the rows that travel whole."""
        found = prefold.fold(rows, bound)
        if found is None:
            return [], rows
        partial, rest = found
        parts = self._split(partial, task)
        packed: list[dict[str, Any]] = [
            {"shard": self.numbers[shard], "folded": 0, "blob": to_buffer(part)} for shard, part in parts
        ]
        packed[0]["folded"] = rows.num_rows - rest.num_rows
        return packed, rest

    def _split(self, rows: pa.Table, task: int) -> Iterator[tuple[int, pa.Table]]:
        """The rows by shard, in their order."""
        if rows.num_rows == 0:
            return
        shards = self.shard_by.shards_of(rows, len(self.numbers), task)
        if isinstance(shards, int):
            yield shards, rows
        elif len(self.numbers) <= _FEW_SHARDS:
            for shard in range(len(self.numbers)):
                part = rows.filter(pa.array(shards == shard))
                if part.num_rows:
                    yield shard, part
        else:
            order = np.argsort(shards, kind="stable")
            rows = rows.take(pa.array(order))
            found, starts = np.unique(shards[order], return_index=True)
            for shard, start, end in zip(found.tolist(), starts, [*starts[1:], rows.num_rows], strict=True):
                yield shard, rows.slice(start, end - start)

    def _times(self, rows: pa.Table, how: pa.Array) -> dict[str, Any]:
        """The latest event time, and the watermark that the rows allow. A time from a fallback allows none: one row
        without a time must not make history late.
        """
        ts = column(rows, TS)
        declared = _is_declared(how)
        top: int | None = pc.max(ts.filter(pc.or_(declared, pc.less_equal(how, FROM_PROCESSING)))).as_py()
        if self.told:
            claim = None
        elif self.carried is None:
            newest = pc.max(ts.filter(declared)).as_py()
            claim = None if newest is None else newest - self.lag
        else:
            claim = pc.max(column(rows, self.carried).filter(declared)).as_py()
        return {
            "max_ts": None if claim is None else claim + SHIFT_US,
            "input": self.input,
            "claim": claim,
            "top": top,
        }


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in order, no piece much larger than a blob should be."""
    step = -(-rows.num_rows // max(1, -(-rows.nbytes // _LARGEST_BLOB)))
    for first in range(0, rows.num_rows, step):
        yield rows.slice(first, step)


def as_batch(packed: list[dict[str, Any]], schema: pa.Schema = PACKED) -> pa.RecordBatch:
    arrays = [array_of([row.get(field.name) for row in packed], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_declared(how: pa.Array) -> pa.Array:
    return pc.or_(pc.equal(how, DECLARED), pc.equal(how, LEFT_OUT))


def _taken(rows: pa.Table, how: pa.Array) -> tuple[pa.Table, pa.Array, bool]:
    """The rows that the query takes, their HOW, and whether there are others."""
    if pc.max(how).as_py() != LEFT_OUT:
        return rows, how, False
    is_taken = pc.not_equal(how, LEFT_OUT)
    return rows.filter(is_taken), how.filter(is_taken), True


def _judged(rows: pa.Table, how: pa.Array) -> tuple[pa.Table, dict[str, int]]:
    """HOW as the kernels want it: PROBLEM and DETAIL where there are problems, and nothing else; fallbacks counted."""
    worst = pc.max(how).as_py()
    facts = {} if worst == 0 else {name: pc.sum(pc.equal(how, code)).as_py() for code, name in FALLBACKS.items()}
    if worst is None or worst <= FROM_PROCESSING:
        return rows.drop_columns([HOW, DETAIL]), {name: count for name, count in facts.items() if count}
    names = pa.array([PROBLEMS.get(code) for code in range(max(PROBLEMS) + 1)], pa.string())
    rows = rows.set_column(rows.column_names.index(HOW), PROBLEM, names.take(how))
    return rows, {name: count for name, count in facts.items() if count}
