"""Files on a local disk as Hadoop has them, but without its forks.

Hadoop sets the permissions of every file and folder that it makes by a `chmod` in a process of its own, milliseconds
each, eight times in every batch. LocalFiles.java does it by a call. The compiler that Spark brings along makes a jar of
it, once per machine and Spark, kept beside the archive of classes. Where that cannot be done (no room, a JVM that runs
already) Hadoop's own files do.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from eventide.spark.local.java import cache, program

CLASS = "eventide.LocalFiles"
_SOURCE = Path(__file__).with_name("LocalFiles.java")
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_LAST_OF_CLASS_PATH = "SPARK_DIST_CLASSPATH"
_SECONDS = 60.0


@contextlib.contextmanager
def without_forks(wanted: bool) -> Iterator[dict[str, str]]:
    """Settings for a Spark whose JVM is started inside the block; none where they cannot be had."""
    java = program()
    made = java is not None and wanted and _has_no_jvm() and _is_made(java, jar())
    if not made:
        yield {}
        return
    before = os.environ.get(_LAST_OF_CLASS_PATH)
    os.environ[_LAST_OF_CLASS_PATH] = str(jar()) if before is None else f"{before}{os.pathsep}{jar()}"
    try:
        yield {"spark.hadoop.fs.file.impl": CLASS}
    finally:
        del os.environ[_LAST_OF_CLASS_PATH]
        if before is not None:
            os.environ[_LAST_OF_CLASS_PATH] = before


def jar() -> Path:
    """Where the jar is, for the installed Spark and what stands in the source."""
    import pyspark

    key = hashlib.sha256(f"{pyspark.__version__}\n{_SOURCE.read_text()}".encode()).hexdigest()[:16]
    return cache() / f"local-files-{key}.jar"


def _has_no_jvm() -> bool:
    """One that runs has its class path already."""
    from pyspark import SparkContext

    return SparkContext._gateway is None


def _is_made(java: str, path: Path) -> bool:
    """Whether the jar is there; if not, it is made first."""
    if not path.exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                _compile(java, Path(folder))
                _pack(Path(folder), Path(folder, path.name)).replace(path)
    return path.exists()


def _compile(java: str, folder: Path) -> None:
    import pyspark

    jars = sorted(Path(pyspark.__file__).with_name("jars").glob("*.jar"))
    compiler = os.pathsep.join(str(jar) for jar in jars if jar.name.startswith(("janino", "commons-compiler")))
    command = [
        java,
        "-cp",
        compiler,
        _COMPILER,
        "-d",
        str(folder),
        "-classpath",
        os.pathsep.join(map(str, jars)),
        str(_SOURCE),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)


def _pack(folder: Path, jar: Path) -> Path:
    classes = sorted(folder.rglob("*.class"))
    if not classes:
        raise FileNotFoundError("the compiler has written no class")
    with zipfile.ZipFile(jar, "w") as packed:
        for path in classes:
            packed.write(path, path.relative_to(folder))
    return jar
