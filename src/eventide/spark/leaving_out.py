"""Rows that a query leaves out, by WHERE or because nothing is found for them: their time still counts.

The watermark is that of the source, whatever a query takes of it. Otherwise a window over rare rows would wait for the
next of them, although the source has long gone on.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, functions as F

from eventide.eventtime.resolution import DECLARED, LEFT_OUT
from eventide.kernels.contract import TS
from eventide.plan.names import backticked
from eventide.tasks.packing import HOW

_IS_KEPT = "__is_kept"


def with_times_of_the_rest(frame: DataFrame, keeps: Column, carried: Sequence[str]) -> DataFrame:
    """The rows for which `keeps` is true, and of the others nothing but their time, if it was declared.

    Nothing is filtered here, since Spark would then evaluate `keeps` twice: packing leaves out what is LEFT_OUT.
    """
    judged = frame.withColumn(_IS_KEPT, F.coalesce(keeps, F.lit(False)))
    users = [name for name in frame.columns if name not in carried]
    own = {
        TS: F.when(F.col(_IS_KEPT) | (F.col(HOW) == DECLARED), F.col(TS)),
        HOW: F.when(F.col(_IS_KEPT), F.col(HOW)).otherwise(F.lit(LEFT_OUT)).cast("tinyint"),
    }
    return judged.select(
        *[F.when(F.col(_IS_KEPT), F.col(backticked(name))).alias(name) for name in users],
        *[own.get(name, F.col(name)).alias(name) for name in carried],
    )
