"""The trees of scalar expressions, each text parsed once."""

from __future__ import annotations

from functools import lru_cache

import sqlglot
from sqlglot import expressions as exp


@lru_cache(maxsize=4096)
def parsed(sql: str) -> exp.Expr:
    """The tree of a Spark SQL expression, to be read only: it is shared. Raises sqlglot's `ParseError`."""
    return sqlglot.parse_one(sql, dialect="spark")
