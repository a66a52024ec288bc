"""The cause inside Spark's long reports, in one line."""

from __future__ import annotations

import re
from urllib.parse import unquote

from eventide import errors
from eventide.errors import EventideError, StorageError, StreamFailedError, UnreadableFileError

# Spark's error classes that only say that something else failed.
_WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH", "PYTHON_EXCEPTION", "JOB_ABORTED", "TASK_")
_OWN = re.compile(r"eventide\.errors\.(\w+): (.+?)(?=\n\s*(?:help:|at |SQLSTATE|$))(?:\n\s*help: (.+))?")
_SPARK = re.compile(r"\[([A-Z_]+(?:\.[A-Z_]+)*)\] ((?:(?!\[[A-Z_]+[.\]]).)+?)(?=\s+SQLSTATE|$)", re.MULTILINE)
_PYTHON = re.compile(r"^(?!py4j|pyspark|org\.|java)((?:\w+\.)*\w*(?:Error|Exception|Invalid)): (\S.*)$", re.MULTILINE)
TRACEBACK = "Traceback (most recent call last):"
# The line after a traceback; an exception of a user's own may be called anything, and may have no message.
_RAISED = re.compile(
    rf"{re.escape(TRACEBACK)}\n(?:[ \t].*\n)+(?!py4j|pyspark|org\.|java)([\w.]+(?:: \S.*)?)$", re.MULTILINE
)
_CAUSE = re.compile(r"^\s*Caused by: (?:[\w.$]+\.)?(\w+): (\S.*)$", re.MULTILINE)
# Spark names a file as a URI; of one that has gone it says so.
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE\.(?!FILE_NOT_EXIST)\w+\] Encountered error \D*?file (\S+)\.\s")
_MEMORY = re.compile(r"OutOfMemoryError|OUT_OF_MEMORY|Java heap space")
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_MOST_SUSPECTS = 5
_HELP = "nothing is lost: fix the cause and run it again from the same checkpoint"
_ROOM = "nothing is lost: free some space and run it again from the same checkpoint"


def is_of_memory(text: str) -> bool:
    """Whether Spark's report says that memory ran out."""
    return _MEMORY.search(text) is not None


def out_of_memory(stream: str, what: str, expressions: list[str]) -> StreamFailedError:
    """`what` happened for lack of memory; `expressions` are those that may have taken it, as the user wrote them."""
    suspects = "; ".join(expressions[:_MOST_SUSPECTS]) or "none of its expressions makes much of little"
    return StreamFailedError(
        f"stream {stream} stopped: {what}. Expressions that may have taken the memory: {suspects}",
        help="bound what they make of a row, for example with least(), or give Spark more memory: conf "
        "spark.driver.memory; then connect again: nothing is lost",
    )


def failure_of(stream: str, text: str) -> EventideError:
    """Why a stream stopped, as an error of the right kind: its own first, then Spark's, Python's and Java's deepest."""
    own = _OWN.findall(text)
    if own:
        kind, message, help = own[-1]
        made: EventideError = getattr(errors, kind, StreamFailedError)(f"stream {stream}: {message}", help=help or None)
        return made
    unreadable = _UNREADABLE.findall(text)
    if unreadable:
        path = unquote(unreadable[-1].removeprefix("file://"))
        found = UnreadableFileError.of(path, ": ".join((_CAUSE.findall(text) or [("Spark", "it is damaged")])[-1]))
        return UnreadableFileError(f"stream {stream}: {found.message}", help=found.help)
    full = _FULL.search(text)
    if full:
        where = "where Spark keeps the checkpoint or its scratch files"
        return StorageError(f"stream {stream} stopped: {full.group()}, {where}", help=_ROOM)
    return StreamFailedError(f"stream {stream} stopped: {cause_of(text)}", help=_HELP)


def cause_of(text: str) -> str:
    """What is behind a report of Spark's, in one line."""
    messages = [(kind, " ".join(message.split())) for kind, message in _SPARK.findall(text)]
    spark = [said for kind, said in messages if not kind.startswith(_WRAPPERS) and not said.endswith(TRACEBACK)]
    if spark:
        return spark[-1]
    raised = _RAISED.findall(text)
    if raised:
        return str(raised[-1]).removeprefix("__main__.")
    for pattern in (_PYTHON, _CAUSE):
        found = pattern.findall(text)
        if found:
            return ": ".join(found[-1])
    lines = text.strip().splitlines()
    return lines[0] if lines else "unknown cause"
