"""What a checkpoint keeps of a stream's plan: its texts, its place, its shards, its identity, who reads its files."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from eventide.errors import CheckpointError
from eventide.plan import logical
from eventide.plan.changes import lateness
from eventide.plan.difference import canonical, difference
from eventide.plan.physical import Physical
from eventide.plan.planner import plan_id
from eventide.spark.cheaper_plan import CHEAPER
from eventide.spark.compile import Compiled, CompileOptions, Origin
from eventide.spark.inputs import unfused
from eventide.spark.moved_state import Moved
from eventide.spark.moving import follow
from eventide.spark.why_ended import Need
from eventide.storage.atomic import read_json, write_json
from eventide.storage.layout import Layout
from eventide.storage.results import Account
from eventide.storage.texts import Text, Texts, next_batch

_LOG = logging.getLogger("eventide")


Compiling = Callable[[Physical, int, CompileOptions], Compiled]  # a query of a plan, with so many shards


class StreamPlans:
    """The plans of one checkpoint folder. `asked_shards` are those that the user wants, if any."""

    def __init__(self, layout: Layout, compiling: Compiling, default_shards: int, asked_shards: int | None) -> None:
        self._layout = layout
        self._compile = compiling
        self._default_shards = default_shards
        self._asked_shards = asked_shards

    def identity(self, stream: str) -> str:
        """By which sinks know what this stream has written, whatever it is called."""
        found: str = read_json(self._layout.plan(stream))["identity"]
        return found

    def shards(self, stream: str) -> int:
        return int(read_json(self._layout.plan(stream))["shards"])

    def first_id(self, stream: str) -> str:
        """The id of the text that the stream began with, which names its windows."""
        return Texts.of(read_json(self._layout.plan(stream))).all[0].plan_id

    def compiled(self, physical: Physical, sql: str) -> Compiled:
        """The stream ready to run, as its checkpoint has it or, if it has none, as it begins now."""
        kept: dict[str, Any] | None = read_json(self._layout.plan(physical.stream.name))
        return self._begun(physical, sql) if kept is None else self._resumed(physical, kept)

    def _begun(self, physical: Physical, sql: str) -> Compiled:
        stream = physical.stream
        shards = stream.options.shards or self._default_shards
        compiled = self._compile(physical, shards, CompileOptions())
        text = Text(physical.plan_id, canonical(stream), sql, since=time.time_ns() // 1000)
        kept = {
            "plan_id": text.plan_id,
            "plan": text.plan,
            "shards": shards,
            "identity": uuid.uuid4().hex[:12],
            "place": str(self._layout.root),
            "fused": list(compiled.fused),
            "together": [list(numbers) for numbers in compiled.together],
        }
        write_json(self._layout.plan(stream.name), Texts((text,)).with_layout(compiled.spec.layout).into(kept))
        return compiled

    def _resumed(self, physical: Physical, kept: dict[str, Any]) -> Compiled:
        stream, path, place = physical.stream, self._layout.plan(physical.stream.name), str(self._layout.root)
        if kept["place"] != place:
            follow(self._layout.spark(stream.name), stream.name, kept["place"], place)
            kept = {**kept, "place": place}
            write_json(path, kept)
        texts = self._texts(stream.name, kept, physical.plan_id)
        if texts.newest.plan_id != physical.plan_id:
            raise another_plan(stream.name, texts.newest.plan, canonical(stream))
        self._check_shards(stream, kept["shards"])
        compiled = self._compiled_as(physical, kept)
        if list(compiled.fused) != kept["fused"]:
            raise CheckpointError(
                f"stream {stream.name} has begun with a fused scan, and Spark's own reader would not know which "
                "files it has taken",
                help="leave 'fused_scan' as it was, or start anew with another checkpoint folder",
            )
        known = texts.with_layout(compiled.spec.layout).into(kept)
        if known != kept:
            write_json(path, known)
        return compiled

    def _check_shards(self, stream: logical.Stream, kept: int) -> None:
        asked = stream.options.shards or self._asked_shards
        if asked not in (None, kept):
            raise CheckpointError(
                f"stream {stream.name} has {kept} shards in this checkpoint, and {asked} are asked for",
                help=f"ask for {kept} or for none; `eventide rescale {self._layout.root} --shards {asked}` changes it",
            )

    def replanned(self, physical: Physical, need: Need) -> Compiled | None:
        """The stream as it runs from now on, with a plan that has what its batch needs; None if there is none."""
        path = self._layout.plan(physical.stream.name)
        kept = {**read_json(path), need.value: True}
        compiled = self._compiled_as(physical, kept)
        if need is Need.GUARDS and not compiled.guarded:
            return None
        if need not in CHEAPER:
            write_json(path, kept)
        return compiled

    def _compiled_as(self, physical: Physical, kept: Mapping[str, Any]) -> Compiled:
        """The stream with what its checkpoint says of its plan."""
        as_kept = unfused(physical, [number for number, fused in enumerate(kept["fused"]) if not fused])
        texts = self._texts(physical.stream.name, kept, physical.plan_id)
        options = CompileOptions(
            decodes=kept.get(Need.DECODING.value, False),
            guards=kept.get(Need.GUARDS.value, False),
            asks=kept.get(Need.ASKING.value, False),
            spares=not kept.get(Need.ORIGINALS.value, False),
            together=tuple(tuple(numbers) for numbers in kept.get("together", [])),
            origin=Origin(texts.all[0].plan_id, texts.past),
            moved=Moved.told(kept.get("moved"), self._layout.moved(physical.stream.name)),
        )
        return self._compile(as_kept, kept["shards"], options)

    def change(
        self, old: logical.Stream, new: logical.Stream, sql: str, differences: Iterable[str], latest: Account | None
    ) -> None:
        """Let the batches that follow be those of `new`; `latest` is the account of the last one of `old`."""
        path, settings = self._layout.plan(old.name), read_json(self._layout.plan(old.name))
        texts, first = Texts.of(settings), next_batch(self._layout.spark(old.name))
        now, passed = time.time_ns() // 1000, _passed(texts, first, latest, lateness(old))
        text = Text(plan_id(new), canonical(new), sql, first, now, passed, tuple(differences))
        write_json(path, texts.followed_by(text).into(settings))
        for change in text.differences:
            _LOG.info("stream %s, from batch %d on: %s", old.name, text.from_batch, change)

    def _texts(self, name: str, kept: Mapping[str, Any], plan_id: str) -> Texts:
        """The texts of a stream; one that a crash has kept from beginning is forgotten."""
        texts = Texts.of(kept)
        if texts.newest.plan_id != plan_id:
            texts = texts.without_unused(next_batch(self._layout.spark(name)))
        return texts


def _passed(texts: Texts, first: int, account: Account | None, lateness: int) -> int | None:
    """What ends by then has closed before batch `first`, which is the first of another text."""
    known = [] if texts.newest.passed is None else [texts.newest.passed]
    if account is not None and account.watermark is not None and texts.newest.from_batch < first:
        known.append(account.watermark - lateness)
    return max(known, default=None)


def another_plan(stream: str, old: str, new: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint of stream {stream} belongs to another query:\n{difference(old, new)}",
        help=f"CREATE OR REPLACE STREAM {stream} ... KEEP STATE goes on where it can; without KEEP STATE, it starts "
        "anew",
    )
