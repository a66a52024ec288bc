"""How the event time of a row was found, or what is wrong with the row: one small number that travels with it."""

from __future__ import annotations

DECLARED, FROM_METADATA, FROM_PROCESSING = 0, 1, 2
IS_UNPARSEABLE, IS_FUTURE, IS_UNDECODABLE, IS_FAILED, IS_EMPTY = 3, 4, 5, 6, 7
LEFT_OUT = 8  # by WHERE or the like: all that counts is its time, which was declared
IS_NO_ROW = IS_UNDECODABLE  # from this number on no expression is evaluated for the row, and no filter leaves it out
# How a row is judged: the first of these that applies, else FROM_PROCESSING. Spark and the fused scan both go by it.
ORDER = (IS_UNDECODABLE, IS_EMPTY, IS_UNPARSEABLE, IS_FUTURE, DECLARED, FROM_METADATA)
UNPARSEABLE, FUTURE, UNDECODABLE = "event_time_unparseable", "future_timestamp", "row_undecodable"
FAILED, EMPTY = "expression_failed", "row_empty"
SUM_OVERFLOW = "sum_overflow"  # of a result, not of a row

PROBLEMS = {
    IS_UNPARSEABLE: UNPARSEABLE,
    IS_FUTURE: FUTURE,
    IS_UNDECODABLE: UNDECODABLE,
    IS_FAILED: FAILED,
    IS_EMPTY: EMPTY,
}  # reasons of `error` payloads
FALLBACKS = {
    FROM_METADATA: "event_time_from_metadata",
    FROM_PROCESSING: "event_time_from_processing_time",
}  # names of metrics

METADATA_COLUMNS = ("@timestamp", "received_at")  # columns in which a row itself says when it was received
