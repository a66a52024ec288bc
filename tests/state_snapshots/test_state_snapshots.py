"""State that any release has written can be read today, and leads to the same results; see docs/state.md."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide.errors import CheckpointError
from eventide.kernels.aggregates import SUPPORTED
from tests.kernels.harness import KEYED_SUMS, paned_spec
from tests.state_snapshots.cases import CALLS, CASES, COUNTED_CALLS
from tests.state_snapshots.snapshots import FOLDER, blobs_of, go_on, restored, run, snapshot, stored

LATEST = max(path.parent.name for path in stored())


def ids(path: Path) -> str:
    return f"{path.parent.name}: {path.stem}"


def read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("path", stored(), ids=ids)
def test_a_restored_snapshot_leads_to_the_results_of_its_release(path: Path) -> None:
    kept, case = read(path), CASES[path.stem]
    assert go_on(case, restored(case, kept)) == kept["then"]


@pytest.mark.parametrize("name", CASES)
def test_continuing_from_a_snapshot_is_the_same_as_continuing_without_one(name: str) -> None:
    case = CASES[name]
    assert go_on(case, restored(case, snapshot(case))) == go_on(case, run(case))


@pytest.mark.parametrize("name", CASES)
def test_todays_code_writes_the_bytes_of_the_latest_release(name: str) -> None:
    kept, driver = read(FOLDER / LATEST / f"{name}.json"), run(CASES[name])
    assert driver.spec.fingerprint() == kept["fingerprint"]
    assert blobs_of(driver.store) == kept["state"]


def changed(kept: dict[str, Any], change: Callable[[bytes], bytes]) -> dict[str, Any]:
    def again(blob: str) -> str:
        return base64.b64encode(change(base64.b64decode(blob))).decode()

    state = {
        space: {bucket: list(map(again, log)) for bucket, log in held.items()} for space, held in kept["state"].items()
    }
    return {**kept, "state": state}


@pytest.mark.parametrize("name", CASES)
def test_state_of_another_format_or_another_query_is_refused(name: str) -> None:
    case, kept = CASES[name], read(FOLDER / LATEST / f"{name}.json")
    with pytest.raises(CheckpointError, match="written in format 9"):
        go_on(case, restored(case, changed(kept, lambda blob: b"\x09" + blob[1:])))
    with pytest.raises(CheckpointError, match="belongs to another query"):
        go_on(case, restored(case, changed(kept, lambda blob: blob[:8] + b"\x00" * 8 + blob[16:])))
    with pytest.raises(CheckpointError, match="damaged"):
        go_on(case, restored(case, changed(kept, lambda blob: blob[:10])))


def test_another_type_of_key_or_another_window_is_another_query() -> None:
    kept = read(FOLDER / LATEST / "tumble.json")
    for spec in (paned_spec(20, 20, **KEYED_SUMS), paned_spec(10, 10, **{**KEYED_SUMS, "key_types": (pa.binary(),)})):
        with pytest.raises(CheckpointError, match="belongs to another query"):
            other = replace(CASES["tumble"], spec=spec)
            go_on(other, restored(other, kept))


def test_every_case_and_every_aggregate_has_a_snapshot() -> None:
    assert {path.stem for path in stored() if path.parent.name == LATEST} == CASES.keys()
    assert {function for function, *_ in [*CALLS, *COUNTED_CALLS]} >= SUPPORTED
