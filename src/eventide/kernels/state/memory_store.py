"""A store in memory, for tests, the kernel runner and batch use without Spark."""

from __future__ import annotations

from collections.abc import Mapping


class MemoryStore:
    """Implements `contract.Store` on a dict. Two stores are equal when they hold the same blobs in the same order."""

    def __init__(self, logs: Mapping[tuple[str, int], list[bytes]] | None = None) -> None:
        self._logs: dict[tuple[str, int], list[bytes]] = {place: list(log) for place, log in (logs or {}).items()}

    def append(self, space: str, bucket: int, blob: bytes) -> int:
        log = self._logs.setdefault((space, bucket), [])
        log.append(blob)
        return len(log)

    def read(self, space: str, bucket: int) -> list[bytes]:
        return list(self._logs.get((space, bucket), ()))

    def replace(self, space: str, bucket: int, blob: bytes) -> None:
        self._logs[space, bucket] = [blob]

    def delete(self, space: str, bucket: int) -> None:
        self._logs.pop((space, bucket), None)

    def buckets(self, space: str) -> list[int]:
        return sorted(bucket for held, bucket in self._logs if held == space)

    def size(self, space: str, bucket: int) -> tuple[int, int]:
        log = self._logs.get((space, bucket), [])
        return len(log), sum(map(len, log))

    def spaces(self) -> list[str]:
        """The spaces that hold anything; tests use it to check that nothing was left behind."""
        return sorted({space for space, _ in self._logs})

    def blobs(self) -> list[tuple[str, int, bytes]]:
        """All blobs with their spaces and buckets, each bucket's in their order."""
        return [(*place, blob) for place, log in sorted(self._logs.items()) for blob in log]

    def snapshot(self) -> MemoryStore:
        """A copy that later calls do not touch: use it to repeat a call from the same state."""
        return MemoryStore(self._logs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryStore) and self._logs == other._logs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        held = ", ".join(f"{space}/{bucket}: {len(log)} blobs" for (space, bucket), log in sorted(self._logs.items()))
        return f"MemoryStore({held})"
