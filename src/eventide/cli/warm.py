"""`eventide warm`: builds, once, what makes later starts on this machine faster."""

from __future__ import annotations

from rich.text import Text

from eventide.cli.console import stdout
from eventide.errors import EnvironmentError


def warm_up() -> None:
    from eventide.spark.java import check_java
    from eventide.spark.local import speed

    console = stdout()
    path = speed.built_ahead(check_java())
    if path is not None:
        console.print(Text(f"nothing to do: {path} is there"), soft_wrap=True)
        return
    try:
        with console.status("compiling, and running a small stream, so that Java notes which classes Spark uses …"):
            made = speed.build_ahead()
    except (RuntimeError, OSError) as error:
        raise EnvironmentError(
            f"Java has written no archive of classes: {str(error).splitlines()[-1]}",
            help="all works without it, and starts some seconds later",
        ) from None
    size = made.stat().st_size / 1e6
    console.print(Text(f"{made} ({size:.0f} MB): Spark starts faster from now on; it may be deleted"), soft_wrap=True)
