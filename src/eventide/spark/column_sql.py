"""A Column of PySpark as the SQL that says the same, so that the fluent API takes what people have at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventide.errors import OptionError
from eventide.plan.names import backticked, quoted
from eventide.spark.remote import is_remote

if TYPE_CHECKING:
    from pyspark.sql import Column

# Functions that SQL writes between their arguments, or in front of the only one.
_OPERATORS = frozenset(
    {"+", "-", "*", "/", "%", "=", "==", ">", ">=", "<", "<=", "<=>", "!=", "and", "or", "&", "|", "^", "like"}
)
_PREFIXES = {"negative": "-", "!": "NOT ", "not": "NOT ", "~": "~"}
_HELP = "write it as Spark SQL text"


def column_sql(column: Column, label: str) -> str:
    """The SQL of a Column, its alias included; `label` names the argument in errors."""
    if is_remote(column):
        raise OptionError(f"{label}: a Column of a remote session (Spark Connect) cannot be taken apart", help=_HELP)
    node = getattr(column, "_jc", None)
    if node is None:
        raise OptionError(f"{label} takes SQL text or a Column of PySpark, not {column!r}", help=_HELP)
    return _Writer(label).sql(node.node())


class _Writer:
    def __init__(self, label: str) -> None:
        self._label = label

    def sql(self, node: Any) -> str:
        kind = str(node.getClass().getSimpleName())
        write = getattr(self, f"_{kind}", None)
        if write is None:
            raise self._refused(node)
        return str(write(node))

    def _refused(self, node: Any) -> OptionError:
        return OptionError(f"{self._label}: {node.sql()} has no form in SQL that streams take", help=_HELP)

    def _UnresolvedAttribute(self, node: Any) -> str:
        return ".".join(quoted(part) for part in _items(node.nameParts()))

    def _UnresolvedStar(self, node: Any) -> str:
        return str(node.sql())

    def _SqlExpression(self, node: Any) -> str:
        return str(node.expression())

    def _Alias(self, node: Any) -> str:
        names = _items(node.name())
        if len(names) != 1:
            raise self._refused(node)
        return f"{self.sql(node.child())} AS {backticked(names[0])}"

    def _SortOrder(self, node: Any) -> str:
        is_ascending = "Ascending" in str(node.sortDirection().toString())
        return f"{self.sql(node.child())} {'ASC' if is_ascending else 'DESC'}"

    def _Cast(self, node: Any) -> str:
        return f"CAST({self.sql(node.child())} AS {node.dataType().sql()})"

    def _CaseWhenOtherwise(self, node: Any) -> str:
        branches = [f"WHEN {self.sql(pair._1())} THEN {self.sql(pair._2())}" for pair in _items(node.branches())]
        otherwise = node.otherwise()
        default = [f"ELSE {self.sql(otherwise.get())}"] if otherwise.isDefined() else []
        return " ".join(["CASE", *branches, *default, "END"])

    def _UnresolvedExtractValue(self, node: Any) -> str:
        return f"{self.sql(node.child())}[{self.sql(node.extraction())}]"

    def _UnresolvedNamedLambdaVariable(self, node: Any) -> str:
        return str(node.name())

    def _LambdaFunction(self, node: Any) -> str:
        names = ", ".join(self.sql(argument) for argument in _items(node.arguments()))
        return f"({names}) -> {self.sql(node.function())}"

    def _UnresolvedFunction(self, node: Any) -> str:
        name, arguments = str(node.functionName()), [self.sql(argument) for argument in _items(node.arguments())]
        if name.lower() in _OPERATORS and len(arguments) == 2:
            return f"({arguments[0]} {name.upper()} {arguments[1]})"
        if name.lower() in _PREFIXES and len(arguments) == 1:
            return f"({_PREFIXES[name.lower()]}{arguments[0]})"
        if name.lower() == "in":
            return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
        if not name.replace("_", "a").isalnum():
            raise self._refused(node)
        return f"{name}({'DISTINCT ' if node.isDistinct() else ''}{', '.join(arguments)})"

    def _Literal(self, node: Any) -> str:
        value = node.value()
        if isinstance(value, str):
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return f"{value!r}D" if value == value and abs(value) != float("inf") else f"double('{value}')"
        if isinstance(value, int):
            return str(value)
        kind = str(value.getClass().getSimpleName()) if hasattr(value, "getClass") else type(value).__name__
        if kind in ("Date", "LocalDate"):
            return f"DATE '{value.toString()}'"
        if kind == "Timestamp":
            return f"timestamp_micros({value.getTime() // 1000 * 1_000_000 + value.getNanos() // 1000})"
        if kind in ("BigDecimal", "Decimal"):
            return f"{value}BD"
        raise self._refused(node)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]
