"""A pytest plugin that makes pyspark unimportable: `PYTHONPATH=scripts pytest -p without_pyspark tests/sql`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

BLOCKED = frozenset({"pyspark", "py4j"})


class Blocker:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{name} cannot be imported here: this test must not need Spark", name=name)
        return None


sys.meta_path.insert(0, Blocker())
