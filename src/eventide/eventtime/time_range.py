"""The range of possible event times, in microseconds since 1970."""

from __future__ import annotations

SHIFT_US = 62_135_596_800_000_000  # from 0001-01-01 to 1970-01-01; see spark.clock for what is shifted by it
EARLIEST_US = -SHIFT_US + 1000  # one millisecond later, so that no watermark equals Spark's zero
LATEST_US = 253_402_300_799_999_999  # the end of year 9999
