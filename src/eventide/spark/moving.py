"""A checkpoint that lies in another place than before: Spark's own files in it name the place, and are made to name the
new one.

Two kinds of them do: the logs of file sources, which say of each manifest of the inbox in which batch it was taken, and
what the operator's state says about its schemas. Everything else in a checkpoint is relative to it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from eventide.storage.atomic import write_bytes
from eventide.storage.paths import AnyPath, listed

_LOG = logging.getLogger("eventide")
# below Spark's own checkpoint: those with URIs, and those with plain paths
_WITH_URIS, _WITH_PATHS = ("sources/*/*",), ("state/*/_metadata/*", "state/*/_metadata/*/*")
_ESCAPED = re.compile(r"[^A-Za-z0-9_\-!.~'()*,;:$&+=/@\u0080-\U0010ffff]")


def follow(spark: AnyPath, stream: str, origin: str, place: str) -> None:
    """Let the checkpoint of a stream, whose database was in the folder `origin`, go on in `place`.

    It may be cut short and be done again: a file that names the new place already stays as it is.
    """
    for patterns, spelled in ((_WITH_URIS, hadoop_path), (_WITH_PATHS, str)):
        names, new = re.compile(f'"({_pattern(origin, spelled)})(?=/)'), _uri(place, spelled)
        for path in [found for pattern in patterns for found in listed(spark, pattern)]:
            if path.is_file() and not path.name.startswith("."):
                _rewrite(path, names, new)
    _LOG.warning(
        "stream %s goes on in %s, where it was copied or moved to from %s. See that nobody runs it there, too: both "
        "would write to its sinks under the same batch numbers",
        stream,
        place,
        origin,
    )


def _pattern(origin: str, spelled: Callable[[str], str]) -> str:
    """Of the URIs that a place has had in Spark's files."""
    return re.escape(spelled(origin)) if "://" in origin else rf"file:(?://)?{re.escape(spelled(origin))}"


def _uri(place: str, spelled: Callable[[str], str]) -> Callable[[str], str]:
    """What stands in the place of one: Spark writes that of a folder with one slash or with three, and keeps to it."""
    if "://" in place:
        return lambda old: spelled(place)
    return lambda old: f"{'file:' if re.match('file:/[^/]', old) else 'file://'}{spelled(place)}"


def _rewrite(path: AnyPath, names: re.Pattern[str], uri: Callable[[str], str]) -> None:
    old = path.read_text(encoding="utf-8")
    new = names.sub(lambda found: f'"{uri(found[1])}', old)
    if new != old:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # of the old content; Spark does without
        write_bytes(path, new.encode())


def hadoop_path(path: str) -> str:
    """A path as it stands in a URI of Hadoop's, which escapes less than others.

    >>> hadoop_path("/data/my app$1/ä")
    '/data/my%20app$1/ä'
    """
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", path)
