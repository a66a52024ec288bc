"""Snapshots of state as files: JSON, blobs in base64, one folder per release.

Run as a program, it writes those of this release: `python -m tests.state_snapshots.snapshots 0.1`.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

from eventide.kernels.state.memory_store import MemoryStore
from tests.kernels.harness import Driver
from tests.state_snapshots.cases import CASES, Case

FOLDER = Path(__file__).parent
Blobs = dict[str, dict[str, list[str]]]


def blobs_of(store: MemoryStore) -> Blobs:
    return {
        space: {
            str(bucket): [base64.b64encode(blob).decode() for blob in store.read(space, bucket)]
            for bucket in store.buckets(space)
        }
        for space in store.spaces()
    }


def store_of(blobs: Blobs) -> MemoryStore:
    logs = {
        (space, int(bucket)): list(map(base64.b64decode, log))
        for space, held in blobs.items()
        for bucket, log in held.items()
    }
    return MemoryStore(logs)


def plain(value: Any) -> Any:
    """As it comes back from JSON."""
    return json.loads(json.dumps(value, default=str))


def run(case: Case) -> Driver:
    """A driver that has taken the steps up to the snapshot."""
    driver = case.driver()
    for step in case.before:
        step(driver)
    return driver


def go_on(case: Case, driver: Driver) -> dict[str, Any]:
    """Take the steps that follow; returns the results."""
    done, aside, counts = len(driver.main), len(driver.side), driver.counts.copy()
    for step in case.after:
        step(driver)
    return {
        "main": plain(driver.main[done:]),
        "side": plain([[payload["kind"], payload["original_event"]] for payload in driver.side[aside:]]),
        "counts": plain(driver.counts - counts),
    }


def restored(case: Case, snapshot: dict[str, Any]) -> Driver:
    """A driver that continues from a snapshot: the store, the time, and no memory of anything else."""
    driver = case.driver()
    driver.store = store_of(snapshot["state"])
    driver.watermark, driver.wake_at, driver.now = snapshot["watermark"], snapshot["wake_at"], snapshot["now"]
    return driver


def snapshot(case: Case) -> dict[str, Any]:
    driver = run(case)
    head = {
        "fingerprint": driver.spec.fingerprint(),
        "watermark": driver.watermark,
        "wake_at": driver.wake_at,
        "now": driver.now,
    }
    return {**head, "state": blobs_of(driver.store), "then": go_on(case, driver)}


def stored() -> list[Path]:
    return sorted(FOLDER.glob("*/*.json"))


def main(release: str) -> None:
    folder = FOLDER / release
    folder.mkdir(exist_ok=True)
    for name, case in CASES.items():
        path = folder / f"{name}.json"
        if not path.exists():
            path.write_text(
                json.dumps(snapshot(case), indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
            )
            print(f"wrote {path}")


if __name__ == "__main__":
    main(sys.argv[1])
