"""What is measured: the data, the window, and how much of it. Engines translate a workload into their own terms.

All data is a stream of 100,000 events per second of event time, up to two seconds out of order. So a batch of a million
rows spans ten seconds, and every key of 100,000 is in each ten-second window about ten times.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from benchmarks.clicks import click_columns

EVENTS_PER_SECOND = 100_000
DISORDER_MS = 2_000
LAG_MS = 5_000
LATE_BY_MS = 60_000
FILES_PER_BATCH = 4
MILLION = 1_000_000

# How Eventide gets at the rows: tasks read files; Spark reads and decodes them; they are a DataFrame of the user's.
FUSED, UNFUSED, DATAFRAME = "fused", "unfused", "dataframe"


@dataclass(frozen=True)
class Tumble:
    size_ms: int = 10_000


@dataclass(frozen=True)
class Hop:
    size_ms: int = 60_000
    slide_ms: int = 1_000


@dataclass(frozen=True)
class Session:
    """Event times are even and the gap is odd: two events exactly a gap apart, where engines differ, do not occur."""

    gap_ms: int = 2_001


@dataclass(frozen=True)
class Slide:
    """A result per row, over the time before it. Native Spark and one-shot SQL over closed windows have nothing like
    it.
    """

    lookback_ms: int = 10_000


@dataclass(frozen=True)
class IntervalJoin:
    """Left rows with right rows of the same key that are at most `within_ms` later."""

    within_ms: int
    outer: bool = False


@dataclass(frozen=True)
class TumbleJoin:
    """Rows of both sides in the same pane."""

    size_ms: int
    outer: bool = False


@dataclass(frozen=True)
class AsofJoin:
    """Every left row with the newest right row that is not later. Structured Streaming has nothing like it."""


@dataclass(frozen=True)
class SessionJoin:
    """Rows of sessions that overlap, a gap after their last row included. Nor this."""

    gap_ms: int = 1_001


Join = IntervalJoin | TumbleJoin | AsofJoin | SessionJoin
Window = Tumble | Hop | Session | Slide | Join
LEFT, RIGHT = "orders", "payments"  # the folders of a join's inputs


@dataclass(frozen=True)
class Data:
    """Columns k, v and ts (milliseconds), and whatever else is asked for. `late_one_in` n: one row in n; 0: none.

    `clicks`: rows as web sites write them, about 200 bytes each, see `benchmarks.clicks`; `nested`: with a struct and
    an array in place of some flat columns.
    """

    format: str = "json"
    keys: int = 1_000
    text_keys: bool = False
    extra_columns: int = 0
    late_one_in: int = 0
    duplicate_one_in: int = 0
    sides: tuple[str, ...] = ()  # a folder for each; each has its part of the rows
    clicks: bool = False
    nested: bool = False
    gzipped: bool = False
    lag_ms: int = LAG_MS
    most_files: int | None = None  # of a batch, if not as many as a batch of a workload has

    @property
    def has_ids(self) -> bool:
        return self.duplicate_one_in > 0

    @property
    def columns(self) -> dict[str, str]:
        """Names and SQL types, in the order of the files."""
        if self.clicks:
            return click_columns(self.nested)
        ids = {"id": "BIGINT"} if self.has_ids else {}
        extra = {f"c{number}": "STRING" if number % 3 == 0 else "BIGINT" for number in range(self.extra_columns)}
        return {"k": "STRING" if self.text_keys else "BIGINT", "v": "BIGINT", "ts": "BIGINT", **ids, **extra}


@dataclass(frozen=True)
class Workload:
    name: str
    data: Data = field(default_factory=Data)
    window: Window = field(default_factory=Tumble)
    batch_rows: int = MILLION
    warm_batches: int = 2
    batches: int = 4
    single_rows: int = 2
    road: str = FUSED

    @property
    def rows(self) -> int:
        """Rows of the measured batches."""
        return self.batch_rows * self.batches

    @property
    def has_native(self) -> bool:
        return not isinstance(self.window, Slide | AsofJoin | SessionJoin)

    def smaller(self, factor: float) -> Workload:
        return replace(self, batch_rows=max(FILES_PER_BATCH, int(self.batch_rows * factor)))


def label(number: int) -> str:
    """1_000 as 1k, 1_000_000 as 1M."""
    for size, suffix in ((MILLION, "M"), (1_000, "k")):
        if number >= size and number % size == 0:
            return f"{number // size}{suffix}"
    return str(number)


def tumbling(format: str, keys: int, batch_rows: int = MILLION, batches: int = 4) -> Workload:
    size = "" if batch_rows == MILLION else f", {label(batch_rows)}-row batches"
    workload = Workload(
        f"{format}, {label(keys)} keys{size}", Data(format, keys), batch_rows=batch_rows, batches=batches
    )
    if keys >= MILLION:
        return replace(workload, warm_batches=1)  # native takes ten seconds or more for one
    return replace(workload, single_rows=5) if keys < 100_000 else workload


BATCHES = {
    1_000: 6,
    100_000: 4,
    MILLION: 1,
}  # by number of keys: batches that take from a third of a second to ten seconds
TUMBLING = tuple(
    tumbling(format, keys, batches=batches) for format in ("json", "parquet") for keys, batches in BATCHES.items()
)


def clicks(keys: int, *, nested: bool = False, road: str = FUSED, gzipped: bool = False) -> Workload:
    """What people have: ISO times, text ids, floats, a flag; about 200 bytes of JSON."""
    words = (
        "nested clicks" if nested else "clicks",
        *(("gzip",) if gzipped else ()),
        *(() if road == FUSED else (road,)),
    )
    data = Data(keys=keys, clicks=True, nested=nested, gzipped=gzipped)
    name = f"{', '.join(words)}, {label(keys)} keys"
    return Workload(name, data, batch_rows=MILLION if road == FUSED else 400_000, batches=3, road=road)


CLICKS = tuple(clicks(keys, nested=nested) for nested in (False, True) for keys in (1_000, 100_000))
GENERAL_ROAD = tuple(
    clicks(keys, nested=nested, road=road)
    for road, nested in ((UNFUSED, False), (UNFUSED, True), (DATAFRAME, True))
    for keys in (1_000, 100_000)
)
GZIP = (clicks(1_000, gzipped=True),)
BATCH_SIZES = tuple(
    tumbling("json", keys, rows, batches)
    for keys in (1_000, 100_000)
    for rows, batches in ((100_000, 10), (4 * MILLION, 2))
)
OTHERS = (
    Workload("hopping 60 s / 1 s", window=Hop(), batch_rows=200_000),
    Workload("sessions", Data(keys=100_000), window=Session(), batch_rows=200_000),
    Workload("deduplication", Data(keys=100_000, duplicate_one_in=100), batch_rows=200_000),
    Workload("late rows 1 %", Data(keys=100_000, late_one_in=100), batch_rows=400_000),
    Workload("wide rows", Data(keys=100_000, extra_columns=27), batch_rows=200_000),
    Workload("text keys", Data(keys=100_000, text_keys=True), batch_rows=400_000),
)


def joins(keys: int) -> tuple[Workload, ...]:
    """Half of the events are on each side; the bound is as wide as a row's key needs for one partner on average.

    In an interval join native Spark compares a row with all that are kept of its key: with few keys its time grows with
    the square of a batch, and one of 400,000 rows takes it minutes.
    """
    width = keys * 2 * 1_000 // EVENTS_PER_SECOND
    data = Data(keys=keys, sides=(LEFT, RIGHT))
    return tuple(
        Workload(f"{name}, {label(keys)} keys", data, window, batch_rows=_join_rows(keys, window), batches=3)
        for name, window in {
            "interval join": IntervalJoin(width),
            "interval left join": IntervalJoin(width, outer=True),
            "tumbling join": TumbleJoin(width),
            "tumbling left join": TumbleJoin(width, outer=True),
        }.items()
    )


def _join_rows(keys: int, window: Window) -> int:
    return 100_000 if keys < 100_000 and isinstance(window, IntervalJoin) else 400_000


JOINS = (*joins(1_000), *joins(100_000))
ONE_SHOT_JOINS = tuple(
    Workload(name, Data(keys=100_000, sides=(LEFT, RIGHT)), window, batch_rows=MILLION, batches=3)
    for name, window in {"as-of join": AsofJoin(), "session join": SessionJoin()}.items()
)
SLIDING = (Workload("sliding 10 s", window=Slide(), batch_rows=100_000),)
EVERYTHING = (*CLICKS, *GENERAL_ROAD, *GZIP, *TUMBLING, *BATCH_SIZES, *OTHERS, *SLIDING, *JOINS, *ONE_SHOT_JOINS)
