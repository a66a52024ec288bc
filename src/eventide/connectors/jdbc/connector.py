"""`jdbc`: tables of any database that Java can reach, to be looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, Family, LooksUp, Option

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from eventide.plan.logical import Table


def _read_table(spark: SparkSession, table: Table) -> pa.Table:
    from eventide.connectors.jdbc.table import read_table

    return read_table(spark, table)


JDBC = Connector(
    name="jdbc",
    doc="tables of databases, by JDBC",
    table=LooksUp(
        options={
            "url": Option(is_required=True, doc="`jdbc:mysql://host/db`, `jdbc:oracle:thin:@…`, …"),
            "table": Option(identifies=True, doc="a table or a view"),
            "query": Option(
                instead_of="table", both_say="what is read", identifies=True, doc="instead: a SELECT of the server's"
            ),
            "user": Option(doc="who asks"),
            "password": Option(is_secret=True, doc="`${env:NAME}` or `${file:/path}` ([secrets](../sql.md#secrets))"),
            "driver": Option(doc="the class of the driver, where its URL does not tell"),
        },
        one_of=("table", "query"),
        family=Family(
            "option.",
            "an option of Spark's JDBC source: `option.fetchsize`, `option.partitionColumn`",
        ),
        read=_read_table,
    ),
)
