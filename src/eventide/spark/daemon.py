"""The parent of Spark's Python workers, which loads what they need before it forks them.

Spark's own parent loads nothing, so every worker imports Arrow, pandas and the kernels by itself: half a second of each new process,
of which a stream's first batch needs several. And after each task a worker looks through all its objects for garbage, which takes
longer than many a task; what is loaded here is exempt from that, and its memory is shared.

Run by the JVM with the name of the worker's module (spark.python.daemon.module).
"""

import gc
import importlib
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # forking is safe only without threads; a worker runs one task, on one core

from pyspark import daemon

_TASKS = "pyspark.worker"
_OF_TASKS = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.json",
    "pyarrow.parquet",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.worker.plan_data_source_read",
    "eventide.kernels.forward",
    "eventide.kernels.intake",
    "eventide.kernels.session",
    "eventide.kernels.slide",
    "eventide.scan.fused",
    "eventide.spark.pack",
    "eventide.spark.shard",
)


def preload(worker: str) -> None:
    for module in (worker, *(_OF_TASKS if worker == _TASKS else ())):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload(sys.argv[1] if len(sys.argv) > 1 else _TASKS)
    daemon.manager()
