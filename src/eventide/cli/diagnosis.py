"""`eventide why`: reads a checkpoint folder, beside the process that has it open, and changes nothing."""

from __future__ import annotations

import time
from pathlib import Path

from eventide.errors import OptionError


def why_of(checkpoint: Path, name: str) -> str:
    from eventide.sql.catalog import Catalog
    from eventide.storage.atomic import read_json
    from eventide.storage.layout import Layout
    from eventide.storage.results import Results
    from eventide.why import why

    layout = Layout(checkpoint)
    if not layout.catalog.exists():
        raise OptionError(f"{checkpoint} is no checkpoint of Eventide", help="give the folder that `eventide run --checkpoint DIR` used")
    stream = Catalog.from_texts(read_json(layout.catalog)).stream(name)
    folder = layout.results(stream.name)
    account = Results(folder).latest() if folder.exists() else None
    told: int | None = read_json(layout.stream(stream.name) / "watermark.json")
    watermark = told if told is not None else account.watermark if account else None
    return why(stream, account, watermark=watermark, now=time.time_ns() // 1000)
