"""Which shard a row belongs to, and which number stands for a shard so that every state partition gets one.

Spark puts a group into partition `pmod(murmur3(key), partitions)`. Were the shards numbered 0, 1, 2, ... some
partitions would hold several and others none; so each shard takes the smallest number that Spark hashes to its
partition.
"""

from __future__ import annotations

from itertools import count

from eventide.kernels.contract import DEDUP
from eventide.plan.co_location import CoLocation, co_location
from eventide.plan.physical import AggregateWindows, Input, Physical
from eventide.plan.windows import Tumble
from eventide.tasks.packing import ShardBy


def shard_by(physical: Physical, input: Input) -> ShardBy:
    """Which rows of an input meet in one shard."""
    operator = physical.operator
    match co_location(physical):
        case CoLocation.EVERYTHING:
            return ShardBy()
        case CoLocation.NOTHING:
            return ShardBy(anywhere=True)
        case CoLocation.IDENTITY:
            return ShardBy(anywhere=True) if input.source.dedup is None else ShardBy((DEDUP,))
        case CoLocation.WINDOW if isinstance(operator, AggregateWindows) and isinstance(operator.window, Tumble):
            return ShardBy(window=(operator.window.offset, operator.window.size))
        case _:
            return ShardBy(tuple(key.sql for key in input.keys))


def shard_numbers(shards: int) -> list[int]:
    """For shard i of `shards`, the group key that Spark places in partition i."""
    found: dict[int, int] = {}
    for candidate in count():
        found.setdefault(murmur3_int(candidate) % shards, candidate)
        if len(found) == shards:
            break
    return [found[i] for i in range(shards)]


def murmur3_int(value: int, seed: int = 42) -> int:
    """Spark's hash of an INT, as a signed 32-bit number."""
    mask = 0xFFFFFFFF
    k = (value * 0xCC9E2D51) & mask
    k = (_rotate(k, 15) * 0x1B873593) & mask
    h = (_rotate(seed ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & mask
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & mask
    h ^= h >> 16
    return h - (1 << 32) if h & 0x80000000 else h


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & 0xFFFFFFFF
