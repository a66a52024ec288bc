"""Eventide measured against Spark itself: `python -m benchmarks --help`, and docs/performance.md."""
