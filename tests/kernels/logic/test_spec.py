"""Specs travel to workers, and their fingerprints guard stored state."""

import pickle

import pyarrow as pa
import pytest

from eventide.errors import CheckpointError
from eventide.kernels.contract import MAIN_FIELDS, Clock, KernelSpec
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.kernels.state.memory_store import MemoryStore
from tests.kernels.harness import KEYED, KEYED_SUMS, SUM, paned_spec, session_spec, slide_spec, table

SPECS: list[KernelSpec] = [
    paned_spec(10, 10, **KEYED_SUMS),
    paned_spec(10, 5, **KEYED_SUMS),
    paned_spec(10, 10, **KEYED_SUMS, emit="changes"),
    paned_spec(20, 10, **KEYED_SUMS),
    paned_spec(10, 10, 1, **KEYED_SUMS),
    paned_spec(10, 10, **KEYED, aggregates=(SUM,)),
    session_spec(10, **KEYED_SUMS),
    session_spec(11, **KEYED_SUMS),
    slide_spec(10, **KEYED_SUMS),
    slide_spec(10, 5, **KEYED_SUMS),
    ForwardSpec((("v", "__i0"),), (pa.int64(),)),
    ForwardSpec((("v", "__i0"),), (pa.int64(),), ordered=True),
]


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_survives_pickling(spec: KernelSpec) -> None:
    wrapped = IntakeSpec(spec, dedup_within=(5,))  # type: ignore[attr-defined, arg-type]
    copy = pickle.loads(pickle.dumps(wrapped))
    assert copy == wrapped
    assert (copy.fingerprint(), copy.main_schema) == (wrapped.fingerprint(), wrapped.main_schema)
    copy.build()


def test_specs_whose_state_differs_have_different_fingerprints() -> None:
    assert len({spec.fingerprint() for spec in SPECS}) == len(SPECS)


def test_what_does_not_touch_the_state_does_not_touch_the_fingerprint() -> None:
    renamed = {**KEYED_SUMS, "keys": (("other name", "__k0"),), "originals": ()}
    assert paned_spec(10, 10, **renamed, lateness=5, emit="final").fingerprint() == SPECS[0].fingerprint()
    modes = [paned_spec(10, 10, **KEYED_SUMS, emit=mode).fingerprint() for mode in ("on update", "on watermark")]
    assert modes[0] == modes[1]


def test_the_main_schema_is_the_windows_the_keys_and_the_results() -> None:
    names = [field.name for field in MAIN_FIELDS]
    assert SPECS[0].main_schema.names == [*names, "__k0", "__a0", "__a1"]


def test_the_state_of_another_query_is_refused() -> None:
    store = MemoryStore()
    SPECS[0].build().on_rows({0: table([(1, "A", 1)])}, Clock(None, 0), store)
    with pytest.raises(CheckpointError, match="another query"):
        SPECS[3].build().on_rows({0: table([(1, "A", 1)])}, Clock(None, 0), store)


def test_a_store_can_be_compared_and_copied() -> None:
    store = MemoryStore()
    assert (store.append("a", 2, b"x"), store.append("a", 2, b"yz"), store.append("a", 1, b"")) == (1, 2, 1)
    copy = store.snapshot()
    assert copy == store
    store.replace("a", 2, b"!")
    assert copy != store
    assert (store.read("a", 2), copy.read("a", 2), store.size("a", 2), copy.size("a", 2)) == (
        [b"!"],
        [b"x", b"yz"],
        (1, 1),
        (2, 3),
    )
    assert (store.buckets("a"), store.buckets("b"), store.read("b", 0)) == ([1, 2], [], [])
    store.delete("a", 2)
    store.delete("a", 7)
    assert (store.buckets("a"), store.spaces()) == ([1], ["a"])
    assert repr(store) == "MemoryStore(a/1: 1 blobs)"
