"""A span of OpenTelemetry for every batch, with a span for each of its phases inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.errors import OptionError
from eventide.storage.history import KINDS, PHASES
from eventide.storage.results import ROWS_OUT, Account

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_NANOS = 1000  # in a microsecond


class BatchSpans:
    """Called with each batch after it has ended; what is sent where is the provider's affair."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import trace
        except ModuleNotFoundError:
            raise OptionError("tracing needs OpenTelemetry", help="pip install 'eventide[opentelemetry]'") from None
        self._trace = trace
        self._tracer = trace.get_tracer("eventide", tracer_provider=provider)

    def __call__(self, stream: str, account: Account) -> None:
        if account.began is None:
            return
        figures: dict[str, str | int] = {"eventide.stream": stream, "eventide.batch": account.batch}
        figures |= {f"eventide.{kind}": account.counts[kind] for kind in KINDS if account.counts.get(kind)}
        figures["eventide.rows_out"] = account.events.get(ROWS_OUT, 0)
        if account.watermark is not None:
            figures["eventide.watermark_ms"] = account.watermark // 1000
        begin = account.began * _NANOS
        batch = self._tracer.start_span(f"batch {stream}", start_time=begin, attributes=figures)
        inside, at = self._trace.set_span_in_context(batch), begin
        for phase in PHASES:
            if phase in account.took:
                end = at + account.took[phase] * _NANOS
                self._tracer.start_span(phase, context=inside, start_time=at).end(end)
                at = end
        batch.end(at)
