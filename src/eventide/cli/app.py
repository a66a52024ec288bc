"""The commands. Each one only reads its arguments and calls the module that does the work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from eventide.cli.console import print_error, stderr, stdout
from eventide.errors import EventideError

app = typer.Typer(
    name="eventide",
    help="Event-time streaming SQL on Apache Spark, with every row accounted for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_FILE_HELP = "SQL statements, each ending with ';', or an app file FILE.toml. '-' reads SQL from standard input."
File = Annotated[Path, typer.Argument(metavar="FILE", help=_FILE_HELP)]
Master = Annotated[
    str | None, typer.Option(help="Where Spark runs: local[4], spark://host:7077, yarn, k8s://… Default: this machine.")
]
Checkpoint = Annotated[
    str | None, typer.Option(metavar="DIR", help="Keeps state, so that the next run can continue. Default: temporary.")
]
Conf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting; may be repeated.")]
Shards = Annotated[
    int | None,
    typer.Option(
        min=1, max=4096, help="How many parts a stream's state is split into; `eventide rescale` changes it later."
    ),
]
AllowJvmCalls = Annotated[
    bool, typer.Option("--allow-jvm-calls", help="Let SQL call java_method and reflect, which run any code of the JVM.")
]
LocalSpeed = Annotated[
    bool | None,
    typer.Option(
        "--local-speed/--no-local-speed",
        help="Whether all is done to make a Spark on this machine faster. Default: yes.",
        show_default=False,
    ),
]

StreamName = Annotated[str, typer.Argument(metavar="STREAM", help="A stream in the checkpoint.")]
Existing = Annotated[str, typer.Option("--checkpoint", metavar="DIR", help="The checkpoint folder of the stream.")]
Address = Annotated[
    str | None,
    typer.Option(
        "--dashboard-address",
        metavar="HOST:PORT",
        help="Where the dashboard listens. Default: 127.0.0.1:8321. Beyond this machine it asks for a token.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="EVENTIDE_DASHBOARD_TOKEN",
        show_envvar=True,
        help="What the dashboard asks for. Default: none on this machine, else one that is made and printed.",
    ),
]


class _Debug:
    """Whether an unexpected error shows its traceback."""

    on = False


def _print_version(wanted: bool) -> None:
    if wanted:
        import eventide

        stdout().print(f"eventide {eventide.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def common(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="EVENTIDE_DEBUG", help="Show tracebacks of unexpected errors.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version of Eventide.")
    ] = False,
) -> None:
    _Debug.on = debug


@app.command()
def run(
    file: File,
    once: Annotated[
        bool, typer.Option("--once", help="Process what is there, then stop; windows stay open for the next run.")
    ] = False,
    flush: Annotated[
        bool | None,
        typer.Option(
            "--flush/--no-flush",
            help="Emit open windows when stopping. Default: yes after Ctrl-C, no after SIGTERM or with --once.",
            show_default=False,
        ),
    ] = None,
    master: Master = None,
    checkpoint: Checkpoint = None,
    conf: Conf = None,
    shards: Shards = None,
    local_speed: LocalSpeed = None,
    allow_jvm_calls: AllowJvmCalls = False,
    reload: Annotated[
        bool,
        typer.Option("--reload", help="When the file changes, go on under its new text where the change allows it."),
    ] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Serve a page that shows the streams live.")] = False,
    dashboard_address: Address = None,
    token: Token = None,
) -> None:
    """Run a SQL or app file until it is stopped, or once. Ctrl-C stops cleanly, a second Ctrl-C at once."""
    from eventide.cli.pages import Page
    from eventide.cli.runner import Connection, run as run_file

    connection = Connection(checkpoint, master, _settings(conf), shards, local_speed, allow_jvm_calls)
    page = Page(dashboard_address, token) if dashboard or dashboard_address is not None else None
    run_file(file, connection, once=once, flush=flush, console=stdout(), page=page, reload=reload)


@app.command()
def sql(
    master: Master = None,
    checkpoint: Checkpoint = None,
    conf: Conf = None,
    shards: Shards = None,
    local_speed: LocalSpeed = None,
    allow_jvm_calls: AllowJvmCalls = False,
) -> None:
    """Start an interactive shell. Also reads SQL from a pipe: echo 'SHOW STREAMS;' | eventide sql."""
    from eventide.cli.runner import Connection
    from eventide.cli.shell import Quit, Shell

    console = stdout()
    db = Connection(checkpoint, master, _settings(conf), shards, local_speed, allow_jvm_calls).open(console)
    shell = Shell(db, console, stderr())
    try:
        if sys.stdin.isatty():
            from eventide.cli.prompt import interact

            console.print("[bold]eventide[/bold]: statements end with ;  \\? lists commands  \\q leaves")
            interact(shell)
            return
        try:
            for line in sys.stdin:
                shell.feed(line)
            shell.finish()
        except Quit:
            pass
    finally:
        db.close()
    if shell.failures:
        raise typer.Exit(1)


@app.command()
def validate(
    file: File,
    against: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A checkpoint folder: also say whether the file can continue from it."),
    ] = None,
    function: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A function that Spark does not have but the session will; may be repeated."),
    ] = None,
    allow_jvm_calls: AllowJvmCalls = False,
) -> None:
    """Check a SQL or app file without Spark; with --against, also whether it can continue from a checkpoint."""
    from eventide.cli.files import check_functions, read_program

    program = read_program(file, allow_jvm_calls, against)
    check_functions(program, function or ())
    stdout().print(f"[green]ok[/green]: {program.summary()}")
    if against is not None:
        from eventide.cli.resume import print_resume

        if not print_resume(program, against):
            raise typer.Exit(1)


@app.command()
def migrate(
    file: File,
    partial: Annotated[
        bool, typer.Option("--partial", help="Begin anew even if the sources no longer have all rows.")
    ] = False,
    master: Master = None,
    checkpoint: Checkpoint = None,
    conf: Conf = None,
    allow_jvm_calls: AllowJvmCalls = False,
) -> None:
    """Begin anew, from their sources, the streams of a changed file that cannot go on from a checkpoint."""
    from eventide.cli.migrate import migrate_file
    from eventide.cli.runner import Connection

    connection = Connection(checkpoint, master, _settings(conf), allow_jvm_calls=allow_jvm_calls)
    migrate_file(file, connection, partial)


@app.command()
def rescale(
    checkpoint: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint; nobody may be running it.")],
    shards: Annotated[int, typer.Option(min=1, max=4096, help="How many parts each stream's state is to have.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Begin anew even if the sources no longer have all rows.")
    ] = False,
    master: Master = None,
    conf: Conf = None,
    allow_jvm_calls: AllowJvmCalls = False,
) -> None:
    """Give the streams of a checkpoint more or fewer shards: they begin anew from their sources, beside the old ones,
    and take their place when they have taken in as many rows.
    """
    from eventide.cli.rescale import rescale_checkpoint
    from eventide.cli.runner import Connection

    connection = Connection(checkpoint, master, _settings(conf), shards, allow_jvm_calls=allow_jvm_calls)
    rescale_checkpoint(connection, partial)


@app.command()
def history(stream: StreamName, checkpoint: Existing) -> None:
    """Show the texts that a stream has had, and which batches ran under which. Needs no Spark."""
    from eventide.cli.history import print_history

    print_history(checkpoint, stream)


@app.command()
def explain(file: File, stream: Annotated[str | None, typer.Argument(help="One stream; default: all.")] = None) -> None:
    """Show the plan of a file's streams without starting Spark."""
    from eventide.cli.files import read_program

    stdout().print(read_program(file, allow_jvm_calls=True).explain(stream), markup=False, soft_wrap=True)


@app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The file to write.")] = Path("app.toml"),
) -> None:
    """Write a commented app file to start from; an existing file is left alone."""
    from eventide.app.example import write_example

    write_example(file)
    stdout().print(f"{file} written; next: eventide validate {file}, eventide run {file}", markup=False, soft_wrap=True)


@app.command()
def why(
    stream: Annotated[str, typer.Argument(help="The stream that emits nothing, or nothing yet.")],
    checkpoint: Annotated[
        str, typer.Option(metavar="DIR", help="The checkpoint folder of the stream; it may be running.")
    ],
) -> None:
    """Say what is keeping a stream's oldest window open, and what would close it. Needs no Spark."""
    from eventide.cli.diagnosis import why_of

    stdout().print(why_of(checkpoint, stream), markup=False, soft_wrap=True)


late = typer.Typer(
    help="Rows that came too late: list them, see what would have caught them, fold them in.", no_args_is_help=True
)
app.add_typer(late, name="late")


@late.command("list")
def late_list(
    stream: StreamName,
    checkpoint: Existing,
    limit: Annotated[int, typer.Option(min=1, help="How many of the newest rows to show.")] = 10,
) -> None:
    """Show late rows: why, how late, which window, and a histogram. Needs no Spark; the stream may be running."""
    from eventide.cli.late import list_late

    list_late(checkpoint, stream, limit)


@late.command("advise")
def late_advise(stream: StreamName, checkpoint: Existing) -> None:
    """Show the lag or allowed lateness at which 99, 99.9 and 100 % of the rows would have been used, and its cost.
    Needs no Spark.
    """
    from eventide.cli.late import advise_late

    advise_late(checkpoint, stream)


@late.command("replay")
def late_replay(stream: StreamName, checkpoint: Existing) -> None:
    """Fold late rows into the windows they missed and emit the corrected rows. No other process may be running the
    stream.
    """
    from eventide.cli.late import replay_late

    replay_late(checkpoint, stream)


@app.command()
def state(stream: StreamName, checkpoint: Existing) -> None:
    """Show what a stream holds: windows, groups, bytes, the oldest. Needs no Spark; the stream may be running."""
    from eventide.cli.state import print_state

    print_state(checkpoint, stream)


@app.command()
def dashboard(
    place: Annotated[
        str, typer.Argument(metavar="CHECKPOINT|URL", help="A checkpoint folder, or the URL of a dashboard elsewhere.")
    ],
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to listen. Default: 127.0.0.1:8321, or a free port.")
    ] = None,
    token: Token = None,
    remote_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="What the dashboard elsewhere asks for; may be in its URL.")
    ] = None,
) -> None:
    """Serve a page that shows the streams of a checkpoint, running or not, or of a run elsewhere. Needs no Spark."""
    from eventide.cli.pages import Page, show_dashboard

    show_dashboard(place, Page(address, token), remote_token, stdout())


@app.command()
def doctor(
    checkpoint: Annotated[str | None, typer.Option(metavar="DIR", help="Also look at this checkpoint.")] = None,
) -> None:
    """Check Java, memory, disk, clock, versions and a checkpoint, and say what to do. Exit status 1 if one is bad."""
    from eventide.cli.doctor import print_findings

    if not print_findings(checkpoint, stdout()):
        raise typer.Exit(1)


@app.command()
def top(
    place: Annotated[
        str, typer.Argument(metavar="CHECKPOINT|URL", help="A checkpoint folder, or the URL of a dashboard elsewhere.")
    ],
    once: Annotated[bool, typer.Option("--once", help="One picture, then stop.")] = False,
    remote_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="What the dashboard elsewhere asks for; may be in its URL.")
    ] = None,
) -> None:
    """Show all streams on the terminal, live: rates, lag, windows, accounts, why one stands still. Needs no Spark."""
    from eventide.cli.top import show_top

    show_top(place, remote_token, stdout(), once)


@app.command()
def demo(
    seconds: Annotated[int, typer.Option(min=2, max=600, help="How long to generate clicks.")] = 20,
    rate: Annotated[
        int | None, typer.Option(min=10, max=100_000, help="Clicks per second. Default: 3000; 30000 with --overload.")
    ] = None,
    overload: Annotated[
        bool, typer.Option("--overload", help="Instead: more than the engine can take, and who pays for it.")
    ] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Show it on a page as well.")] = False,
) -> None:
    """Run a click stream with disorder, late rows and bad timestamps, live on local Spark."""
    if overload:
        from eventide.overload import run_overload

        run_overload(seconds=seconds, rate=rate or 30_000, console=stdout())
        return
    from eventide.demo import run_demo

    run_demo(seconds=seconds, rate=rate or 3000, console=stdout(), dashboard=dashboard)


@app.command()
def version() -> None:
    """Show the versions of Eventide and of its main dependencies."""
    from importlib.metadata import version as installed

    import eventide

    stdout().print(f"eventide {eventide.__version__}", highlight=False)
    for package in ("pyspark", "pyarrow", "sqlglot"):
        stdout().print(f"{package} {installed(package)}")
    stdout().print(f"python {sys.version.split()[0]}")


@app.command()
def warm() -> None:
    """Make every later start of Spark on this machine some seconds faster; once per machine, Java and Spark."""
    from eventide.cli.warm import warm_up

    warm_up()


def _settings(conf: list[str] | None) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in conf or []]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise typer.BadParameter(f"expected KEY=VALUE, got {key!r}", param_hint="--conf")
    return {key: value for key, _, value in pairs}


def main(arguments: list[str] | None = None) -> None:
    """The entry point. Exit status: 0 success, 1 failure, 2 wrong arguments, 130 after Ctrl-C."""
    try:
        app(args=arguments, prog_name="eventide")
    except EventideError as error:
        print_error(stderr(), error)
        sys.exit(1)
    except Exception as error:
        if _Debug.on:
            raise
        console = stderr()
        console.print(f"unexpected error: {type(error).__name__}: {error}", style="red", markup=False)
        console.print("  help: eventide --debug … shows the traceback", style="red", markup=False)
        sys.exit(1)
