"""Tumbling, hopping and cumulating windows: the specs, and which of the two kernels runs them."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.errors import OptionError
from eventide.kernels.contract import Kernel
from eventide.kernels.logic.aggregate_at_close import AggregateAtClose
from eventide.kernels.logic.aggregate_early import AggregateEarly
from eventide.kernels.logic.emission import FINAL, ON_WINDOW_CLOSE
from eventide.kernels.logic.spec import WindowSpec
from eventide.kernels.prefold import Prefold
from eventide.kernels.windows.grid import CumulativeGrid, Grid


@dataclass(frozen=True)
class PanedSpec(WindowSpec):
    """Windows of `size` every `slide`, moved by `offset`; a tumbling window has slide == size."""

    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size <= 0 or self.slide <= 0:
            raise OptionError("a window's size and slide must be positive")
        if self.slide > self.size:
            order = "HOP takes (ts, slide, size), window() takes (ts, size, slide)"
            raise OptionError(f"slide {self.slide} is larger than size {self.size}", help=order)

    @property
    def grid(self) -> Grid:
        return Grid(self.size, self.slide, self.offset, self.allowed_lateness)

    @property
    def horizon(self) -> int:
        return self.size + self.allowed_lateness

    @property
    def _only_at_close(self) -> bool:
        """Whether groups need not be looked up before their window closes."""
        return self.emit in (ON_WINDOW_CLOSE, FINAL) and self.max_groups is None

    def layout(self) -> str:
        kernel = "closing/1" if self._only_at_close else "eager/1"
        return f"{kernel};size={self.size};slide={self.slide};offset={self.offset}"

    def prefold(self) -> Prefold | None:
        """How rows may be folded before the kernel gets them; None if it needs them one by one."""
        return Prefold(self, self.grid) if self._only_at_close and self.aggregation(()).is_simple else None

    def build(self) -> Kernel:
        return AggregateAtClose(self, self.grid) if self._only_at_close else AggregateEarly(self, self.grid)


@dataclass(frozen=True)
class CumulateSpec(PanedSpec):
    """Windows that begin every `size` and grow by `slide` at a time until they have that size."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size % self.slide:
            raise OptionError(
                f"size {self.size} is not a multiple of step {self.slide}", help="CUMULATE takes (ts, step, size)"
            )

    @property
    def grid(self) -> Grid:
        return CumulativeGrid(self.size, self.slide, self.offset, self.allowed_lateness)

    def layout(self) -> str:
        return f"cumulate/1;{super().layout()}"
