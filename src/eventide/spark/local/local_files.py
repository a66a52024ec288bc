"""Files on a local disk as Hadoop has them, but without its forks.

Hadoop sets the permissions of every file and folder that it makes by a `chmod` in a process of its own, milliseconds
each, eight times in every batch. LocalFiles.java does it by a call. Spark brings a compiler along, with which it makes
classes of its queries; the JVM that is to have this class makes it by the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS = "eventide.LocalFiles"
_SOURCE = Path(__file__).with_name("LocalFiles.java")


def set_permissions_without_forks(spark: SparkSession) -> None:
    """From now on, for everybody in the JVM of `spark`: Hadoop keeps one object per kind of disk for all."""
    jvm: Any = spark._jvm
    conf = spark._jsc.hadoopConfiguration()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE.read_text())
    with_class = jvm.org.apache.hadoop.conf.Configuration(conf)
    with_class.setClassLoader(compiler.getClassLoader())
    with_class.set("fs.file.impl", CLASS)
    files, disk = jvm.org.apache.hadoop.fs.FileSystem, jvm.java.net.URI.create("file:///")
    files.get(disk, conf).close()  # whoever has it may go on with it
    files.get(disk, with_class)
