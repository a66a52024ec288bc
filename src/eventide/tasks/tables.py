"""Rows that are there as tables: what a scan of another stream reads, which has nothing to decode."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tables:
    """`columns` are those that are read, by name and type."""

    columns: tuple[tuple[str, str], ...]
