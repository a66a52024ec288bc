"""A span for every batch: its figures, and its phases one after the other inside it."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk", reason="tracing needs eventide[opentelemetry]")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from eventide.diagnose.tracing import BatchSpans
from eventide.storage.results import Account


def test_a_batch_is_a_span_with_its_phases_inside() -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    took = {"plan": 10, "compute": 200, "sinks": 5, "store": 3}
    counts, events = {"rows_in": 7, "used": 6, "late": 1}, {"rows_out": 2}
    BatchSpans(provider)("o", Account(4, counts, {}, events, watermark=5_000_000, began=1_000_000, took=took))
    *phases, batch = kept.get_finished_spans()
    assert batch.name == "batch o" and batch.attributes is not None and batch.context is not None
    assert dict(batch.attributes) == {
        "eventide.stream": "o",
        "eventide.batch": 4,
        "eventide.rows_in": 7,
        "eventide.used": 6,
        "eventide.late": 1,
        "eventide.rows_out": 2,
        "eventide.watermark_ms": 5000,
    }
    assert [phase.name for phase in phases] == ["plan", "compute", "sinks", "store"]
    assert all(phase.parent is not None and phase.parent.span_id == batch.context.span_id for phase in phases)
    assert phases[0].start_time == batch.start_time == 1_000_000_000 and phases[-1].end_time == batch.end_time
    assert [one.end_time for one in phases[:-1]] == [other.start_time for other in phases[1:]]


def test_an_account_of_an_earlier_release_has_no_span() -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    BatchSpans(provider)("o", Account(4, {}, {}))
    assert kept.get_finished_spans() == ()
