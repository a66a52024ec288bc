"""The parent of Spark's Python workers, which loads what they need before it forks them.

Spark's own parent loads nothing, so every worker imports Arrow, pandas and the kernels by itself: half a second of each
new process, of which a stream's first batch needs several. And after each task a worker looks through all its objects
for garbage, which takes longer than many a task; what is loaded here is exempt from that, and its memory is shared. Nor
do they give memory back to the system after each block of rows, only to get it back, page by page, for the next.

Run by the JVM with the name of the worker's module (spark.python.daemon.module).
"""

import contextlib
import ctypes
import gc
import importlib
import os
import sys
from collections.abc import Iterable

# forking is safe only without threads; a worker runs one task, on one core
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pyspark import daemon

from eventide.tasks.compiled import kept

_TASKS = "pyspark.worker"
OF_TASKS = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.json",
    "pyarrow.parquet",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.worker.plan_data_source_read",
    "eventide.kernels.logic.forward",
    "eventide.kernels.intake",
    "eventide.kernels.logic.sessions",
    "eventide.kernels.logic.slides",
    "eventide.tasks.fused_scan",
    "eventide.spark.pack",
    "eventide.spark.shard",
)

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # as glibc numbers its settings
_LARGEST_KEPT, _MOST_KEPT = 32 << 20, 64 << 20  # bytes


def keep_memory() -> None:
    """Let freed memory stay with the process, up to a bound. Only Linux with glibc can be told so."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT)


def preload(modules: Iterable[str]) -> None:
    """Load what can be loaded: another release of Spark may lack a module, and whoever needs it will say so."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            sys.stderr.write(f"{module} is not loaded ahead: {type(error).__name__}: {error}\n")
    if kept.is_there():
        kept.load()
    gc.collect()
    gc.freeze()


def main() -> None:
    keep_memory()
    worker = sys.argv[1] if len(sys.argv) > 1 else _TASKS
    preload((worker, *(OF_TASKS if worker == _TASKS else ())))
    daemon.manager()


if __name__ == "__main__":
    main()
