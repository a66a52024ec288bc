"""A Spark whose tasks run elsewhere: how many cores it has, and whether its executors can do what streams need.

All of that is asked before the first batch, by small jobs: an executor without Arrow, or one that does not see the
checkpoint, is an error with a name and not a stream that stands still.
"""

from __future__ import annotations

import re
import time
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import eventide
from eventide.errors import EnvironmentError, EventideError
from eventide.spark.settings import is_local, promised_cores
from eventide.storage.paths import AnyPath

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from eventide.plan.logical import Source

WAIT = "spark.eventide.executorWait"  # seconds, for the first executor; a user's setting
_WAIT_SECONDS = 300.0
_GATHERING_SECONDS = 10.0  # for executors that come after the first
_QUIET_SECONDS = 1.0  # without another one: these are all
_HOLDING_SECONDS = 0.1  # each task of a question, so that one executor does not take them all
_OWN_MODULES = ("eventide.spark.shard", "eventide.spark.pack", "eventide.tasks.fused_scan")
_MODULES = (*_OWN_MODULES, "numba", "pandas", "google.protobuf")
# what tasks of a connector import, or of a format; and connectors whose tasks read from a path
_OF_CONNECTORS = {"kafka": ("confluent_kafka",), "delta": ("deltalake",)}
_OF_FORMATS = {"avro": ("fastavro",)}
_WITH_PATHS = ("files", "delta")


@dataclass(frozen=True)
class Question:
    """What executors are asked: can they import modules, do they have this version, do they see paths."""

    modules: tuple[str, ...] = ()
    paths: tuple[AnyPath, ...] = ()


@dataclass(frozen=True)
class Answer:
    host: str
    version: str | None  # of Eventide, None if it is not there
    problems: Mapping[str, str]  # by module or path


def cores(spark: SparkSession) -> int:
    """How many tasks the cluster runs at once: as the settings say, or as there are when executors stop to come."""
    context = spark.sparkContext
    promised = promised_cores(dict(context.getConf().getAll()))
    if promised is not None:
        return max(1, promised)
    end = time.monotonic() + _GATHERING_SECONDS
    found, since = context.defaultParallelism, time.monotonic()
    while time.monotonic() < min(end, since + _QUIET_SECONDS):
        time.sleep(0.1)
        now = context.defaultParallelism
        if now != found:
            found, since = now, time.monotonic()
    return found


@dataclass
class Executors:
    """Those of one Spark. Where driver and tasks are one process there is nothing to ask."""

    spark: SparkSession
    _seen: set[str] = field(default_factory=set)
    _has_package: bool = False

    @property
    def are_elsewhere(self) -> bool:
        return not is_local(self.spark.conf.get("spark.master", "") or "")

    def need_package(self) -> None:
        """Executors can import what tasks need; if only Eventide itself is missing, or is another version, they get
        this one.
        """
        if self._has_package or not self.are_elsewhere:
            return
        answers = self._ask(Question())
        if any(answer.version != eventide.__version__ for answer in answers):
            self._send_package()
        self._need_modules(_MODULES)
        self._has_package = True

    def need_for(self, source: Source) -> None:
        """Executors can read a source: they see its folder, and can import what its connector uses in tasks."""
        if not self.are_elsewhere:
            return
        if source.connector in _WITH_PATHS:
            path = re.sub(r"^file:(//)?(?=/)", "", source.options["path"])
            if "://" not in path:
                self.need_folder(f"the folder of source {source.name}", Path(re.split(r"[^/]*[*?{\\[]", path)[0]))
        formats = _OF_FORMATS.get(source.options.get("format", ""), ())
        is_in_hdfs = source.options.get("path", "").startswith("hdfs://") and find_spec("hdfs_native") is not None
        stores = ("hdfs_native",) if is_in_hdfs else ()  # where the driver lacks it, Spark reads
        for module in (*_OF_CONNECTORS.get(source.connector, ()), *formats, *stores):
            if module not in self._seen:
                self._need_modules([module])

    def need_checkpoint(self, folder: AnyPath) -> None:
        """Executors see the checkpoint: state, results and what was written lie there."""
        if not self.are_elsewhere:
            return
        token = folder / f".seen-{uuid.uuid4().hex}"
        token.touch()
        try:
            self._need_paths({token: f"the checkpoint {folder}"})
        finally:
            token.unlink(missing_ok=True)

    def need_folder(self, what: str, folder: Path) -> None:
        """Executors see a folder that tasks read or write; `what` it is, in words."""
        if not self.are_elsewhere or str(folder) in self._seen:
            return
        some = next(folder.iterdir(), folder) if folder.is_dir() else folder
        self._need_paths({some: what})
        self._seen.add(str(folder))

    def _need_modules(self, modules: Iterable[str]) -> None:
        for answer in self._ask(Question(modules=tuple(modules))):
            for module, problem in answer.problems.items():
                raise EnvironmentError(
                    f"the executor on {answer.host} cannot import {module}: {problem}",
                    help="install what Eventide needs in the Python of every worker (pip install eventide), or send it "
                    "along with spark.archives; PYSPARK_PYTHON says which Python they run (docs/deploy.md)",
                )
        self._seen.update(modules)

    def _need_paths(self, paths: Mapping[AnyPath, str]) -> None:
        named = {str(path): what for path, what in paths.items()}
        for answer in self._ask(Question(paths=tuple(paths))):
            for path, problem in answer.problems.items():
                raise EnvironmentError(
                    f"the executor on {answer.host} does not see {named[path]}: {problem}",
                    help="driver and executors must share it: a mounted folder under the same path everywhere, which "
                    "the user that runs executors may enter (docs/deploy.md)",
                )

    def _send_package(self) -> None:
        """The file stays as long as Spark does: executors that come later fetch it, too."""
        from pyspark import SparkFiles

        path = Path(SparkFiles.getRootDirectory()) / "to-executors" / f"eventide-{eventide.__version__}.zip"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            _zip_package(path)
        self.spark.sparkContext.addPyFile(str(path))

    def _ask(self, question: Question) -> list[Answer]:
        context = self.spark.sparkContext
        tasks = max(2, context.defaultParallelism)
        numbers = context.parallelize(range(tasks), tasks)
        job = numbers.mapPartitions(_answering(question, _HOLDING_SECONDS))
        told = _within(context, job.collect, float(context.getConf().get(WAIT, str(_WAIT_SECONDS)) or 0))
        return [Answer(*each) for each in told]


def _answering(question: Question, seconds: float) -> Callable[[Iterable[int]], Iterable[tuple[Any, ...]]]:
    """The task. It travels by value and imports nothing of Eventide before it knows whether that is there."""
    modules, paths = question.modules, question.paths

    def answer(numbers: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        import importlib.util
        import re
        import socket
        import time

        def version() -> str | None:  # without an import: it would stay, whatever comes to be in front of it
            try:
                found: Any = importlib.util.find_spec("eventide")
                source = None if found is None else found.loader.get_source("eventide")
            except ImportError:
                return None
            told = re.search(r'^__version__ = "(.+)"$', source or "", re.MULTILINE)
            return None if told is None else told[1]

        problems = {}
        for module in modules:
            try:
                importlib.import_module(module)
            except Exception as error:
                problems[module] = f"{type(error).__name__}: {error}"
        for path in paths:
            try:
                path.stat()
            except Exception as error:  # of the system, or of what a store needs
                problems[str(path)] = str(error)
        time.sleep(seconds)
        yield socket.gethostname(), version(), problems

    return answer


def _zip_package(path: Path) -> None:
    root = Path(eventide.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                archive.write(file, file.relative_to(root.parent))


def _within(context: SparkContext, job: Callable[[], list[Any]], seconds: float) -> list[Any]:
    """What the job gives; an error where no executor has run it in time, or none can."""
    group, told, failure = f"eventide-{uuid.uuid4().hex}", [], []

    def run() -> None:
        context.setJobGroup(group, "what executors can do", interruptOnCancel=True)
        try:
            told.extend(job())
        except Exception as error:
            failure.append(error)

    from pyspark import InheritableThread

    thread = InheritableThread(target=run, name="eventide executors", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        context.cancelJobGroup(group)
        raise no_executors(context, seconds)
    if failure:
        raise cannot_run(str(failure[0]), context) from None
    return told


def no_executors(context: SparkContext, seconds: float) -> EventideError:
    settings = context.getConf()
    address = f"{settings.get('spark.driver.host')}:{settings.get('spark.driver.port')}"
    return EnvironmentError(
        f"no executor of {context.master} has done anything for {seconds:g} seconds",
        help="either the cluster has no cores or memory left for this application (its own pages say), or executors "
        f"cannot reach the driver at {address}: set spark.driver.host to an address that they reach. {WAIT} sets how "
        "many seconds to wait",
    )


def cannot_run(text: str, context: SparkContext) -> EventideError:
    """Why no task can run, of what Spark says."""
    program = re.search(r'Cannot run program "([^"]+)"', text)
    if program:
        return EnvironmentError(
            f"executors cannot run {program[1]}",
            help="PYSPARK_PYTHON, or the setting spark.pyspark.python, says which Python they run, by its path there",
        )
    versions = re.search(r"\[PYTHON_VERSION_MISMATCH\] ([^\n]+)", text)
    if versions:
        return EnvironmentError(
            f"executors have another Python: {versions[1]}",
            help="install the same Python everywhere, and name it by PYSPARK_PYTHON",
        )
    lines = [line for line in text.splitlines() if line.strip()]
    causes = re.findall(r"^(?:Caused by: )?([\w.]+(?:Error|Exception): \S.*)$", text, re.MULTILINE)
    said = causes[-1] if causes else (lines[0] if lines else "unknown cause")
    return EnvironmentError(f"{context.master} runs no tasks: {said}", help="docs/deploy.md says what executors need")
