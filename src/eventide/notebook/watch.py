"""`db.watch("stream")`: the latest rows of a stream in a notebook, kept up to date in place."""

from __future__ import annotations

import threading
from html import escape
from typing import Any

from eventide.diagnose.observer import Observer
from eventide.errors import EventideError, OptionError
from eventide.notebook.html import accounting_html, table_html
from eventide.web.details import Details
from eventide.web.snapshot import Snapshots


class Watch:
    """Shows a stream until `stop`, or until its database is closed. Never waits for a batch, nor holds one up."""

    def __init__(self, observer: Observer, stream: str, rows: int = 10, every: float = 1.0) -> None:
        try:
            from IPython.display import HTML, display
        except ModuleNotFoundError:
            raise OptionError("watch() shows in a notebook", help="pip install 'eventide[notebook]'") from None
        self.stream = observer.catalog().stream(stream).name
        self._snapshots, self._details = Snapshots(observer), Details(observer)
        self._rows, self._every, self._as_html = rows, every, HTML
        self._stop = threading.Event()
        self._shown = self.html()
        self._handle: Any = display(HTML(self._shown), display_id=True)
        self._thread = threading.Thread(target=self._run, name=f"eventide watch {self.stream}", daemon=True)
        self._thread.start()

    def html(self) -> str:
        """What is shown now."""
        found = next(each for each in self._snapshots.take()["streams"] if each["name"] == self.stream)
        rows = self._details.rows(self.stream, self._rows)
        lines = [f"<b>{escape(self.stream)}</b> {escape(found['state'])}", accounting_html(found["accounting"])]
        told = [found["error"]] if found["error"] else found["standing"] or []
        lines += [f"<p style='margin:.2em 0'>{escape(line)}</p>" for line in told[:3]]
        note = f"the latest of {rows['total']:,} rows, the newest first"
        lines.append(
            table_html(rows["columns"], rows["rows"], note) if rows["rows"] else "<p>no row has come out yet</p>"
        )
        return "".join(lines)

    def stop(self) -> None:
        """Leave what is shown as it is. Harmless if it has stopped already."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *problem: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Watch: {self.stream}>"

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                text = self.html()
            except (EventideError, OSError, StopIteration):
                return  # the database is closed, or the stream is gone
            if self._handle is not None and text != self._shown:
                self._handle.update(self._as_html(text))
            self._shown = text
