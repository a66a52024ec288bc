"""The options `sla.…` and `shed.…` of a source, as users write them, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import Enum
from fractions import Fraction
from typing import TypeVar

from eventide.admission.sla import (
    CLASS_LIMITS,
    DEFAULT_PRIORITY,
    BucketSpec,
    Priority,
    SlaClass,
    StreamSlaConfig,
)
from eventide.errors import OptionError, suggest
from eventide.eventtime.durations import SECOND, parse_duration

SLA_OPTIONS = (
    "sla.class",
    "sla.max_events_per_sec",
    "sla.burst",
    "sla.max_lag",
    "sla.jitter_budget",
    "sla.token_cost",
    "sla.priority",
)
SHED_OPTIONS = ("shed.policy", "shed.mode", "shed.target_latency")
ADMISSION_OPTIONS = SLA_OPTIONS + SHED_OPTIONS
DEFAULT_TARGET_LATENCY = 5 * SECOND

_Word = TypeVar("_Word", bound=Enum)


class SlaBackpressurePolicy(Enum):
    """What becomes of a row that the source's limits admit and the shedder would drop."""

    STRICT = "strict"  # it is shed
    PREFER_THROTTLE = "prefer_throttle"  # it is kept, and the source is slowed down
    BYPASS_SHEDDER = "bypass"  # it is kept: the shedder is not asked


class ShedMode(Enum):
    ROWS = "rows"  # single rows
    WINDOWS = "windows"  # all rows of some keys in a window, so that what is given is whole


@dataclass(frozen=True)
class ShedSpec:
    """How a source takes part in load shedding. `target_latency` is how long a batch should last, in microseconds."""

    policy: SlaBackpressurePolicy = SlaBackpressurePolicy.STRICT
    mode: ShedMode = ShedMode.ROWS
    target_latency: int = DEFAULT_TARGET_LATENCY

    def __post_init__(self) -> None:
        if self.target_latency <= 0:
            raise OptionError("shed.target_latency is zero", help="write a duration above zero, such as '2 seconds'")


@dataclass(frozen=True)
class AdmissionSpec:
    """All that the options say. `priority_sql` is an expression over the source's columns; where it is NULL, or none
    was given, a row has `priority`. `shed` is None where shedding is off.
    """

    sla: StreamSlaConfig = field(default_factory=StreamSlaConfig)
    priority: Priority = DEFAULT_PRIORITY
    priority_sql: str | None = None
    shed: ShedSpec | None = None

    @property
    def needs_history(self) -> bool:
        """Whether only a shard knows which rows are admitted."""
        return self.sla.needs_history

    @property
    def sheds(self) -> bool:
        """Whether rows may be dropped when the engine is overloaded."""
        return self.shed is not None and self.shed.policy is SlaBackpressurePolicy.STRICT

    @property
    def throttles(self) -> bool:
        """Whether the source is slowed down when the engine is overloaded."""
        return self.shed is not None and self.shed.policy is SlaBackpressurePolicy.PREFER_THROTTLE

    @property
    def is_load_measured(self) -> bool:
        """Whether anything depends on how loaded the engine is."""
        return self.sheds or self.throttles

    @property
    def is_on(self) -> bool:
        """False: the source pays nothing for admission."""
        return self.sla.limits_anything or self.shed is not None


def parse_admission(options: Mapping[str, str], target_latency: int = DEFAULT_TARGET_LATENCY) -> AdmissionSpec:
    """`options` may hold others, which are not looked at. `target_latency` is for sources that do not name one.

    >>> parse_admission({"sla.class": "gold", "sla.burst": "75"}).sla.bucket.burst
    Fraction(75, 1)
    """
    for name in options:
        if name.startswith(("sla.", "shed.")) and name not in ADMISSION_OPTIONS:
            raise OptionError(f"there is no option {name}", help=suggest(name, ADMISSION_OPTIONS))
    sla = _sla(options)
    priority, sql = _priority(options, sla.sla_class)
    return AdmissionSpec(sla, priority, sql, _shed(options, target_latency))


def _sla(options: Mapping[str, str]) -> StreamSlaConfig:
    sla_class = _word(options, "sla.class", SlaClass)
    limits = None if sla_class is None else CLASS_LIMITS[sla_class]
    lag = _span(options, "sla.max_lag")
    return StreamSlaConfig(
        sla_class,
        _bucket(options, sla_class),
        lag if lag is not None or limits is None else limits.max_lag,
        _span(options, "sla.jitter_budget"),
    )


def _bucket(options: Mapping[str, str], sla_class: SlaClass | None) -> BucketSpec | None:
    rate, burst, cost = (_number(options, f"sla.{name}") for name in ("max_events_per_sec", "burst", "token_cost"))
    cost = Fraction(1) if cost is None else cost
    if sla_class is not None:
        limits = CLASS_LIMITS[sla_class]
        return BucketSpec(rate or limits.tokens_per_sec, burst or limits.burst, cost)
    if rate is not None:
        return BucketSpec(rate, burst or max(rate, cost), cost)
    for name in ("sla.burst", "sla.token_cost"):
        if name in options:
            raise OptionError(
                f"{name} is of no use without a rate", help="add sla.max_events_per_sec, or choose a sla.class"
            )
    return None


def _priority(options: Mapping[str, str], sla_class: SlaClass | None) -> tuple[Priority, str | None]:
    text = options.get("sla.priority")
    own = DEFAULT_PRIORITY if sla_class is None else CLASS_LIMITS[sla_class].priority
    if text is None:
        return own, None
    if not text.strip():
        raise OptionError("sla.priority is empty", help=f"write {_listed(Priority)}, or an expression that gives one")
    if sla_class is SlaClass.PLATINUM:
        return own, None  # of which nothing is ever shed, whatever its rows say
    for priority in Priority:
        if text.strip().lower() == priority.word:
            return priority, None
    return own, text


def _shed(options: Mapping[str, str], target_latency: int) -> ShedSpec | None:
    if not any(name in options for name in SHED_OPTIONS):
        return None
    target = _span(options, "shed.target_latency")
    return ShedSpec(
        _word(options, "shed.policy", SlaBackpressurePolicy) or SlaBackpressurePolicy.STRICT,
        _word(options, "shed.mode", ShedMode) or ShedMode.ROWS,
        target_latency if target is None else target,
    )


def _word(options: Mapping[str, str], name: str, words: type[_Word]) -> _Word | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        return words(text.strip().lower())
    except ValueError:
        raise OptionError(f"{name} is '{text}'", help=f"write {_listed(words)}") from None


def _listed(words: type[Enum]) -> str:
    """'bronze, silver, gold or platinum'."""
    *rest, last = [word.name.lower() if isinstance(word.value, int) else word.value for word in words]
    return f"{', '.join(rest)} or {last}"


def _number(options: Mapping[str, str], name: str) -> Fraction | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite() or value <= 0 or value > 10**12:
        raise OptionError(f"{name} is '{text}'", help="write a number above zero, such as 20 or 0.5")
    return Fraction(value)


def _span(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        return parse_duration(text)
    except OptionError as error:
        raise OptionError(f"{name}: {error.message}", help=error.help) from None
