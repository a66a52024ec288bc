"""What the names of folders say of the rows below them, where Spark decodes: texts in their columns' types.

A text that does not fit its column makes each of the rows one that did not decode, as a field of csv would.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StructType

from eventide.connectors.contract import CORRUPT
from eventide.connectors.files.csv import value_of
from eventide.plan.names import backticked


def with_folder_values(
    rows: DataFrame, schema: StructType, texts: Mapping[str, Column], columns: Collection[str]
) -> DataFrame:
    """`rows`, which have CORRUPT, with a column for each of `texts`, in place of one of that name. Only `columns` are
    judged; the others are NULL.
    """
    if not texts:
        return rows
    types = {field.name: field.dataType for field in schema.fields}
    judged = [name for name in texts if name in columns]
    values = {name: value_of(texts[name], types[name]) for name in judged}
    misfits = [F.when(texts[name].isNotNull() & values[name].isNull(), _misfit(name, texts[name])) for name in judged]
    kept = [F.col(backticked(name)) for name in rows.columns if name not in texts and name != CORRUPT]
    made = [values.get(name, F.lit(None).cast(types[name])).alias(name) for name in texts]
    return rows.select(*kept, *made, F.coalesce(CORRUPT, *misfits).alias(CORRUPT))


def _misfit(name: str, text: Column) -> Column:
    return F.concat(F.lit(f"the folder says of column {name}: "), text)
