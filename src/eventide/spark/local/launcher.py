"""What Spark runs as `python`: asks the nursery for a process, and lives as long as that one does.

    python -I -S launcher.py DOOR PYTHON [the arguments of python]

DOOR is the nursery's socket (nursery.py has the whole story), PYTHON the interpreter to become where the nursery is
gone or does not take the arguments. Nothing but a few modules of the standard library is loaded here: it has to be
there at once.
"""

import contextlib
import json
import os
import signal
import socket
import sys


def main(door: str, python: str, arguments: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as nursery:
        child = _ask(nursery, door, arguments) if arguments[:1] == ["-m"] else 0
        if not child:
            os.execv(python, [python, *arguments])
        signal.signal(signal.SIGTERM, lambda *_: _end(child))
        status = _line(nursery)
        if not status:  # the nursery has died: nobody else would end its child
            _end(child)
        return int(status or 1)


def _ask(nursery: socket.socket, door: str, arguments: list[str]) -> int:
    """The process that was forked, 0 if none was."""
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}).encode()
    try:
        nursery.connect(door)
        socket.send_fds(nursery, [len(request).to_bytes(4, "big")], [0, 1, 2])
        nursery.sendall(request)
        return int(_line(nursery) or 0)
    except OSError:
        return 0


def _line(nursery: socket.socket) -> str:
    line = b""
    while not line.endswith(b"\n"):
        byte = nursery.recv(1)
        if not byte:
            return ""
        line += byte
    return line.decode()


def _end(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
