"""When the batches of a stream that runs in the background begin."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.errors import OptionError
from eventide.eventtime.durations import format_duration, parse_duration

CONTINUOUS, AVAILABLE = "continuous batches", "available now"
_HELP = f"a duration such as '10 seconds', '{AVAILABLE}', or '{CONTINUOUS}', which is the default"


@dataclass(frozen=True)
class Trigger:
    """Batch after batch; or one `every` so many microseconds; or what is there now, after which the stream ends."""

    every: int | None = None
    ends: bool = False

    def __str__(self) -> str:
        if self.ends:
            return "takes in what is there, then ends"
        return CONTINUOUS if self.every is None else f"a batch every {format_duration(self.every)}"


def parse_trigger(text: str) -> Trigger:
    """
    >>> parse_trigger("10 seconds"), parse_trigger("Available  now")
    (Trigger(every=10000000, ends=False), Trigger(every=None, ends=True))
    """
    words = " ".join(text.lower().split())
    if words in (CONTINUOUS, AVAILABLE):
        return Trigger(ends=words == AVAILABLE)
    try:
        every = parse_duration(text)
    except OptionError:
        raise OptionError(f"'{text}' is no trigger", help=_HELP) from None
    if every < 1000:
        raise OptionError(f"a trigger of '{text}' is shorter than a millisecond", help=_HELP)
    return Trigger(every)
