"""Impossible windows: refused where a kernel or a plan would be made of them."""

from __future__ import annotations

from eventide.errors import OptionError
from eventide.plan.windows import Calendar, Cumulate, Hop, Session, Slide, Tumble, Unbounded, Window


def check_window(window: Window) -> None:
    """Raise an OptionError for sizes that make no window."""
    match window:
        case Tumble(size=size):
            _check_positive(size)
        case Hop(size=size, slide=slide):
            _check_positive(size, slide)
            if slide > size:
                order = "HOP takes (ts, slide, size), window() takes (ts, size, slide)"
                raise OptionError(f"slide {slide} is larger than size {size}", help=order)
        case Cumulate(size=size, step=step):
            _check_positive(size, step)
            if size % step:
                raise OptionError(
                    f"size {size} is not a multiple of step {step}", help="CUMULATE takes (ts, step, size)"
                )
        case Calendar(count=count):
            _check_positive(count)
        case Session(gap=gap):
            if gap <= 0:
                raise OptionError("a session's gap must be positive")
        case Slide(lookback=lookback, lookahead=lookahead):
            if lookback < 0 or (lookahead or 0) < 0:
                raise OptionError("a sliding window's lookback and lookahead cannot be negative")
        case Unbounded(ttl=ttl):
            if ttl is not None and ttl <= 0:
                raise OptionError("state_ttl must be positive")


def _check_positive(*sizes: int) -> None:
    if any(size <= 0 for size in sizes):
        raise OptionError("a window's size and slide must be positive")
