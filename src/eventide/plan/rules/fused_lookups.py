"""Which tables rows are looked up in by the tasks that read them: by equal keys, and nothing else that is compared."""

from __future__ import annotations

from sqlglot import expressions as exp

from eventide.plan.logical import Lookup, Source
from eventide.plan.lookup_keys import conjuncts
from eventide.tasks.expressions import TYPES, WHOLE, Call, Column, Expression
from eventide.tasks.portable import Names, NotPortableError, portable
from eventide.tasks.scalars import parsed
from eventide.tasks.table_lookup import LookupKey, TableColumn, TableLookup

_WIDEST = WHOLE[-1]
_AS_THEY_ARE = ("string", "boolean", "timestamp")  # types whose values are equal if they are the same


def task_lookup(source: Source, step: Lookup, names: Names) -> TableLookup:
    """Raises why Spark must join the table."""
    by_spark = NotPortableError(f"rows are joined with the table {step.table.name} by Spark")
    is_columnar = source.options.get("format", "json") == "parquet"
    if is_columnar or source.dedup is not None or source.admission is not None:
        raise by_spark
    columns = tuple(
        TableColumn(column.name, f"__{step.table.name}_{number}", column.type.lower())
        for number, column in enumerate(step.table.columns)
    )
    by_name = {name.lower(): column for name, column in zip(step.names, columns, strict=True)}
    keys = tuple(_key(part, names, by_name, by_spark) for part in conjuncts(parsed(step.condition)))
    return TableLookup(step.table.name, keys, tuple(each for each in columns if each.type in TYPES), step.outer)


def looked_up_names(lookup: TableLookup, step: Lookup) -> dict[str, Expression]:
    """What the table's columns are called from here on."""
    columns = {column.column: Column(column.name, column.type) for column in lookup.columns}
    pairs = zip(step.names, step.table.columns, strict=True)
    return {name.lower(): columns[declared.name] for name, declared in pairs if declared.name in columns}


def _key(part: exp.Expr, names: Names, of_table: dict[str, TableColumn], by_spark: NotPortableError) -> LookupKey:
    if not isinstance(part, exp.EQ):
        raise by_spark
    for one, other in ((part.left, part.right), (part.right, part.left)):
        used = {column.name.lower() for column in other.find_all(exp.Column)}
        if isinstance(one, exp.Column) and one.name.lower() in of_table and not used & of_table.keys():
            column, value = of_table[one.name.lower()], portable(other.sql(dialect="spark"), names)
            if value.type in WHOLE and column.type in WHOLE:
                return LookupKey(value if value.type == _WIDEST else Call("cast", (value,), _WIDEST), column.column)
            if value.type == column.type and value.type in _AS_THEY_ARE:
                return LookupKey(value, column.column)
    raise by_spark
