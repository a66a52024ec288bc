from eventide.testing.batches import Payload, Step
from eventide.testing.expressions import UnsupportedExpressionError
from eventide.testing.kernel_database import KernelDatabase
from eventide.testing.kernel_runner import KernelRunner
from eventide.testing.reference import ReferenceModel
from eventide.testing.reference_database import ReferenceDatabase
from eventide.testing.transcripts import Player, TranscriptError, comparable

__all__ = [
    "KernelDatabase",
    "KernelRunner",
    "Payload",
    "Player",
    "ReferenceDatabase",
    "ReferenceModel",
    "Step",
    "TranscriptError",
    "UnsupportedExpressionError",
    "comparable",
]
