"""The app file that `eventide init` writes: it runs as it is, and shows further settings in comments."""

from __future__ import annotations

from pathlib import Path

from eventide.errors import OptionError

EXAMPLE = '''\
# An Eventide app: sources, transforms and sinks.
#   eventide validate app.toml    checks it without Spark
#   eventide run app.toml         runs it until Ctrl-C
# Lines that begin with "#" and no space are settings with example values: remove the "#" to use them.

[app]
#checkpoint = "state"                    # keeps state, so that the next run continues; without it, state is temporary
#master = "local[4]"                     # where Spark runs; default: this machine, all cores
#shards = 4                              # parts of a stream's state; `eventide rescale` changes it later
#local_speed = false                     # nothing is done to make a Spark on this machine faster
#conf."spark.driver.memory" = "8g"       # Spark's own settings
#eventtime.enabled = true                # false: the time at which a row is processed counts, whatever it says
#eventtime.lateTolerance = "5 seconds"   # the watermark's lag of sources that give none

# A source that generates rows, for trying things out: timestamp TIMESTAMP, value BIGINT.
[sources.numbers]
connector = "rate"
rows_per_second = 10
watermark_lag = "2 seconds"              # how far the watermark is behind the newest row
#idle_timeout = "30 seconds"             # after this long without rows it no longer holds other sources back
#max_future_skew = "5 minutes"           # rows further ahead of the clock are errors

# JSON, CSV or Parquet files that appear in a folder.
#[sources.clicks]
#connector = "files"
#path = "clicks"                         # the folder must exist
#format = "json"
#columns = { id = "STRING", ts = "BIGINT", visitor = "STRING", amount = "DOUBLE" }
#eventtime.column = "ts"
#eventtime.type = "unixtimestamp_ms"     # or iso8601, spark (a TIMESTAMP), unixtimestamp_s, _us, _ns
#watermark_lag = "5 seconds"
#target_latency = "2 seconds"            # how long a batch should take; or max_files_per_batch = 10

[transforms.per_digit]
sql = """
SELECT window_start, window_end, value % 10 AS digit, count(*) AS n
FROM numbers
GROUP BY value % 10, TUMBLE(timestamp, INTERVAL '10' SECOND)
"""
#watermark_lag = "3 seconds"             # overrides the source's, unless the SQL has a WATERMARK
#event_time_field = "timestamp"          # another TIMESTAMP column as event time, unless the SQL names one
#allowed_lateness = "1 minute"           # keeps windows open that long after their end
#emit = "on window close"
#late_to = "late_numbers"                # a name for the late rows; per_digit$late always works
#late.policy = "window"                  # or strict, or reassign with late.max_lateness
#shards = 2
#side_output.error.sink = "metrics_only" # or a sink without `from`, or "reinject": where unused rows go, by kind
#side_output.duplicate.rate_limit = "100/s"
#side_output.duplicate.sink = "unused"

[sinks.screen]
from = "per_digit"                       # a stream, or stream$late
connector = "console"

#[sinks.totals]
#from = "per_digit"
#connector = "files"
#path = "out/totals"
#format = "parquet"

#[sinks.unused]
#connector = "files"
#path = "out/unused"
'''


def write_example(file: Path) -> None:
    """Write the example; raises an error if the file already exists."""
    if file.suffix.lower() != ".toml":
        raise OptionError(f"{file} is not a name for an app file", help=f"write {file.with_suffix('.toml')}")
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(EXAMPLE)
    except FileExistsError:
        raise OptionError(f"{file} already exists", help="choose another name, or remove it first") from None
    except OSError as error:
        raise OptionError(f"cannot write {file}: {error.strerror}") from None
