"""Ctrl-C while Spark starts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from eventide.spark.interrupts import interrupts_wait


@pytest.fixture(autouse=True)
def pythons_own_handler() -> Iterator[None]:
    """Whatever Spark has left behind in this process."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_control_c_is_noted_in_the_block_and_works_as_before_behind_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts_wait() as noted:
        signal.raise_signal(signal.SIGINT)
        assert noted == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_handler_of_the_block_itself_goes() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts_wait():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_leaves_signals_alone() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def enter() -> None:
        with interrupts_wait():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]
