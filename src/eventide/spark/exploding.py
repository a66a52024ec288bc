"""One row into several, in such a way that no row gets lost or counted twice.

What is no longer a row of the user's stays one row: a line that did not decode, and what a scan has packed. Each new
row has an identity of its own, so that the elements of one row are not duplicates of each other, while all elements of
a row that comes again are.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, functions as F

from eventide.connectors.contract import PASSED
from eventide.eventtime.resolution import IS_NO_ROW
from eventide.kernels.contract import DEDUP
from eventide.plan.logical import Explode
from eventide.plan.names import backticked
from eventide.spark.resolve import CARRIED
from eventide.tasks.packing import HOW

_POSITION = "__position"
Keep = Callable[[DataFrame, Column], DataFrame]  # of a frame the rows for which a condition is true


def exploded(frame: DataFrame, columns: list[str], step: Explode, elements: Column, keep: Keep) -> DataFrame:
    """`columns` of `frame` with a row for each of the `elements` of `step`, CARRIED behind them. `keep` leaves the
    others out.
    """
    own = [F.col(backticked(name)) for name in columns if name not in CARRIED]
    names = step.names[1:] if step.position else step.names
    spread = frame.select(*own, F.posexplode_outer(elements).alias(_POSITION, *names), *CARRIED)
    position = F.col(_POSITION)
    is_no_row = (F.col(HOW) >= IS_NO_ROW) | F.col(PASSED).isNotNull()
    keeps = F.lit(True) if step.outer else position.isNotNull()
    kept = keep(spread, F.when(is_no_row, F.coalesce(position, F.lit(0)) == 0).otherwise(keeps))
    numbered = [position.alias(step.names[0])] if step.position else []
    identity = F.concat_ws(":", F.col(DEDUP).cast("string"), position.cast("string"))
    carried = [
        F.when(F.col(DEDUP).isNotNull(), identity).alias(DEDUP) if name == DEDUP else F.col(name) for name in CARRIED
    ]
    return kept.select(*own, *numbered, *[F.col(backticked(name)) for name in names], *carried)
