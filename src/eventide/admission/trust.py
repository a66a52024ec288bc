"""Rows that a task lets pass before limits are asked: while all get a token, it does not matter which.

A task tells how many there were, instead of sending each with its ticket, and may fold them. Every shard checks that
all rows of the batch that want a token get one. If not, the batch is taken again by a plan that asks for every row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Trusted:
    """What a task tells of rows that it lets pass; nothing, to shards other than the one that counts them."""

    admitted: int = 0
    lags: Mapping[str, float] = field(default_factory=dict)  # see `lags`
    offered: Mapping[int, int] = field(default_factory=dict)  # rows by priority, where rows may be shed
    claim: int | None = None  # the watermark that they allow, where no task could know
    top: int | None = None  # their latest event time

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Trusted:
        told = json.loads(text)
        return cls(**{**told, "offered": {int(priority): rows for priority, rows in told["offered"].items()}})
