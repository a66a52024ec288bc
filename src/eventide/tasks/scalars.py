"""The trees of scalar expressions, each text parsed once."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import sqlglot
from sqlglot import expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser


class _Parser(SparkParser):
    """Leaves date_format as it is written: sqlglot's own form of the pattern says less than Spark's."""

    FUNCTIONS: ClassVar = {name: make for name, make in SparkParser.FUNCTIONS.items() if name != "DATE_FORMAT"}


class _Spark(Spark):
    Parser = _Parser


@lru_cache(maxsize=4096)
def parsed(sql: str) -> exp.Expr:
    """The tree of a Spark SQL expression, to be read only: it is shared. Raises sqlglot's `ParseError`."""
    return sqlglot.parse_one(sql, dialect=_Spark)
