"""What a source promises: its class of service, and the limits that its rows must keep.

Durations are microseconds, as everywhere in the engine. Tokens, costs and rates are fractions, so that nothing is
rounded: a bucket of ten rows admits ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from fractions import Fraction

from eventide.errors import OptionError
from eventide.eventtime.durations import MILLISECOND, SECOND, format_duration

MOST_DECIMALS = 9


class SlaClass(Enum):
    """Classes of service, the least first."""

    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"
    PLATINUM = "platinum"


class Priority(IntEnum):
    """How much a row matters when load is shed. LOW goes first, CRITICAL never."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2
    CRITICAL = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class ClassLimits:
    """What a class sets where no single option says otherwise."""

    max_lag: int
    tokens_per_sec: Fraction
    burst: Fraction
    priority: Priority


CLASS_LIMITS = {
    SlaClass.BRONZE: ClassLimits(5 * SECOND, Fraction(1), Fraction(5), Priority.LOW),
    SlaClass.SILVER: ClassLimits(2 * SECOND, Fraction(5), Fraction(20), Priority.MEDIUM),
    SlaClass.GOLD: ClassLimits(500 * MILLISECOND, Fraction(20), Fraction(50), Priority.HIGH),
    SlaClass.PLATINUM: ClassLimits(100 * MILLISECOND, Fraction(100), Fraction(200), Priority.CRITICAL),
}
DEFAULT_PRIORITY = Priority.MEDIUM  # of a source without a class


@dataclass(frozen=True)
class BucketSpec:
    """A bucket holds at most `burst` tokens, gets `tokens_per_sec`, and a row takes `token_cost` of them."""

    tokens_per_sec: Fraction
    burst: Fraction
    token_cost: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        figures = (
            ("max_events_per_sec", self.tokens_per_sec),
            ("burst", self.burst),
            ("token_cost", self.token_cost),
        )
        for name, value in figures:
            if value <= 0:
                raise OptionError(f"sla.{name} is {float(value):g}", help="write a number above zero")
            if (value * 10**MOST_DECIMALS).denominator != 1:
                raise OptionError(
                    f"sla.{name} has too many decimals",
                    help=f"write at most {MOST_DECIMALS} digits after the decimal point",
                )
        if self.burst < self.token_cost:
            raise OptionError(
                f"sla.burst is {float(self.burst):g} and a row costs {float(self.token_cost):g} tokens: none could "
                "ever be admitted",
                help=f"write a sla.burst of {float(self.token_cost):g} or more, or a smaller sla.token_cost",
            )


@dataclass(frozen=True)
class StreamSlaConfig:
    """The limits of one source. What is None is not checked."""

    sla_class: SlaClass | None = None
    bucket: BucketSpec | None = None
    max_lag: int | None = None
    jitter_budget: int | None = None

    def __post_init__(self) -> None:
        for name, span in (("max_lag", self.max_lag), ("jitter_budget", self.jitter_budget)):
            if span is not None and span <= 0:
                raise OptionError(f"sla.{name} is {span} microseconds", help="write a duration above zero")

    @classmethod
    def of_class(cls, sla_class: SlaClass) -> StreamSlaConfig:
        """The class as the table has it.

        >>> StreamSlaConfig.of_class(SlaClass.GOLD).max_lag
        500000
        """
        limits = CLASS_LIMITS[sla_class]
        return cls(sla_class, BucketSpec(limits.tokens_per_sec, limits.burst), limits.max_lag)

    @property
    def limits_anything(self) -> bool:
        return self.needs_history or self.max_lag is not None

    @property
    def needs_history(self) -> bool:
        """Whether what becomes of a row depends on rows before it, so that its task alone cannot know."""
        return self.bucket is not None or self.jitter_budget is not None

    def describe(self) -> str:
        """The limits in words.

        >>> StreamSlaConfig.of_class(SlaClass.GOLD).describe()
        'gold: lag at most 500ms, 20 tokens per second, burst 50'
        """
        words = [] if self.max_lag is None else [f"lag at most {format_duration(self.max_lag)}"]
        if self.jitter_budget is not None:
            words.append(f"gap at most {format_duration(self.jitter_budget)}")
        if self.bucket is not None:
            words += [f"{float(self.bucket.tokens_per_sec):g} tokens per second", f"burst {float(self.bucket.burst):g}"]
            words += [f"{float(self.bucket.token_cost):g} tokens a row"] if self.bucket.token_cost != 1 else []
        return f"{'' if self.sla_class is None else f'{self.sla_class.value}: '}{', '.join(words)}"
