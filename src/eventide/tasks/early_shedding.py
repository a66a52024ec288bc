"""Rows that go whatever they hold: they are left out before they are decoded, which is most of what a row costs.

That can be where all rows of a source have one priority, no limit must see them first, and no filter decides whether
they are rows of the stream at all. The choice is that of `tasks.surveying`, by the row's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eventide.admission.gate import SHED_PAYLOADS
from eventide.admission.options import AdmissionSpec, ShedMode
from eventide.admission.shed_log import ShedLog
from eventide.admission.shedder import LoadShedder, row_hashes
from eventide.storage.paths import AnyPath


def goes_unseen(spec: AdmissionSpec) -> bool:
    """Whether rows of a source may go before they are decoded."""
    by_rows = spec.shed is not None and spec.shed.mode is ShedMode.ROWS
    return spec.sheds and by_rows and spec.priority_sql is None and not spec.sla.limits_anything


class Kept(NamedTuple):
    mask: pa.Array  # the rows that travel
    left_out: int  # how many do not
    told: int  # of those that travel: how many go all the same, and only leave a payload


@dataclass(frozen=True)
class EarlyShedding:
    """`orders` is the shedder's log, `spec` that of a source whose rows may go unseen."""

    orders: AnyPath
    spec: AdmissionSpec

    def kept(self, seq: pa.ChunkedArray, now: int, payloads: int = SHED_PAYLOADS) -> Kept | None:
        """None if all rows travel. `seq` is their place, `now` when their batch began. The first `payloads` of those
        that go travel too, to leave one.
        """
        order = ShedLog(self.orders).at(now)
        if order.share <= 0:
            return None
        hashes = row_hashes([seq.combine_chunks()], len(seq))
        goes = LoadShedder(order).rows(np.full(len(seq), self.spec.priority, np.int8), hashes)
        told = np.flatnonzero(goes)[: max(payloads, 0)]
        goes[told] = False
        return Kept(pa.array(~goes), int(goes.sum()), len(told)) if goes.any() or len(told) else None
