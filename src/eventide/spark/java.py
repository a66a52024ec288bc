"""Which Java there is."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from eventide.errors import EnvironmentError

OLDEST_JAVA = 17


def _program() -> str | None:
    """The one that Spark would run."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def check_java() -> str:
    """What Java says about its version; a clear error unless there is one that Spark can use."""
    java = _program()
    help = "install Java 17 or newer, for example: sudo apt-get install -y openjdk-17-jre-headless; or set JAVA_HOME"
    if java is None or not Path(java).exists():
        raise EnvironmentError("Spark needs Java, and none was found", help=help)
    told = _release_of(java) or subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'(?i:version)[ =]"(\d+)', told)
    if found is None or int(found.group(1)) < OLDEST_JAVA:
        first = told.splitlines()[0] if told else "unknown"
        raise EnvironmentError(f"Spark needs Java {OLDEST_JAVA} or newer, found {first}", help=help)
    return told[found.start() :]


def _release_of(java: str) -> str:
    """What stands in the file that comes with every Java 9 and newer; asking Java itself takes longer."""
    with contextlib.suppress(OSError):
        return (Path(java).resolve().parent.parent / "release").read_text()
    return ""
