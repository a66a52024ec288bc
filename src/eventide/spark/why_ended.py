"""What the end of a query means: whether another try or another plan may help, or what is told to the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from eventide.errors import EventideError, StreamFailedError, UnreadableFileError
from eventide.plan.growing import growing
from eventide.spark.compile import Compiled
from eventide.spark.damage import checkpoint_damage
from eventide.spark.failure import failure_of, is_of_memory, out_of_memory
from eventide.spark.patience import Patience
from eventide.spark.router import Router
from eventide.storage.paths import AnyPath
from eventide.storage.texts import next_batch
from eventide.storage.unreadable_files import UnreadableFiles


class Need(Enum):
    """What a plan may lack for a batch; the value is its name in the checkpoint, if it is kept there."""

    DECODING = "decodes"  # Spark decodes lines that fused scans cannot
    GUARDS = "guards"  # rows for which an expression raises become errors
    ASKING = "asks"  # limits of sources are asked for every row; not kept: see `cheaper_plan`
    ORIGINALS = "originals"  # columns are read that only payloads show; not kept either: see `cheaper_plan`
    TIME = "time"  # nothing but another try


@dataclass
class WhyEnded:
    """Of the queries of one stream. `check_sources` raises what is wrong with its sources."""

    stream: str
    folder: AnyPath
    router: Router
    check_sources: Callable[[], None]
    is_beyond_guards: bool = False  # whether guards were tried, or are of no use
    met: set[Need] = field(default_factory=set)  # what the plan that runs has for a while: see `cheaper_plan`
    _patience: Patience = field(default_factory=Patience)

    def need(self, error: Exception, compiled: Compiled) -> Need | None:
        """What the plan lacks for the batch at which the query has ended."""
        if self.router.must_decode:
            return Need.DECODING
        if self.router.must_ask and Need.ASKING not in self.met:
            return Need.ASKING
        if self.router.must_read_all and Need.ORIGINALS not in self.met:
            return Need.ORIGINALS
        text = self.report(error)
        if self._patience.covers(text, self._batch):
            return Need.TIME
        is_sparks = type(self.router.failure).__module__.startswith(("pyspark.", "py4j."))
        if compiled.guarded or self.is_beyond_guards or not is_sparks:
            return None
        is_known = is_of_memory(text) or checkpoint_damage(self.stream, self.folder, text) is not None
        return None if is_known or type(failure_of(self.stream, text)) is not StreamFailedError else Need.GUARDS

    def try_again(self) -> None:
        """Count that the batch gets another try."""
        self._patience.use(self._batch)

    @property
    def _batch(self) -> int:
        return next_batch(self.folder / "spark")

    def cause(self, error: Exception | None) -> str:
        """In one line."""
        return failure_of(self.stream, self.report(error)).message.partition(" stopped: ")[2]

    def failure(self, error: Exception, compiled: Compiled) -> EventideError:
        """What is told to the user."""
        if isinstance(self.router.failure, EventideError):
            return self.router.failure
        text = self.report(error)
        if is_of_memory(text):
            return out_of_memory(self.stream, "Spark's memory has run out", growing(compiled.physical))
        found = failure_of(self.stream, text)
        if isinstance(found, UnreadableFileError):
            UnreadableFiles(self.folder / "scans").note(found.path)
        if type(found) is not StreamFailedError:
            return found
        try:
            self.check_sources()
        except EventideError as clearer:
            return clearer
        return checkpoint_damage(self.stream, self.folder, text) or found

    def lost(self, compiled: Compiled) -> EventideError:
        """What is told to the user when Spark itself has ended."""
        return out_of_memory(self.stream, "Spark has ended, probably for lack of memory", growing(compiled.physical))

    def report(self, error: Exception | None) -> str:
        """All that is known of a failure: Spark's own report leaves its cause out."""
        return str(error) if self.router.failure is None else f"{error}\n{self.router.failure}"
