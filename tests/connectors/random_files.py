"""Files such as somebody else might write: good and bad pieces, in every format, packed, marked, cut short."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ("{}", "a b {}", "a:b {}", "é{}", "{}%20x", "{}#&=+", "{}'\"`$", "({})")  # none that Spark takes for a pattern
MARKS = (b"", b"", b"", b"\xef\xbb\xbf", b"\xff\xfe")
ENDS = (b"\n", b"\r\n", b"\r")
JSON_PIECES = (
    b"{", b"}", b"[", b"]", b'"', b":", b",", b'"v"', b'"k"', b'"ts"', b"1", b"-0", b"1e5", b"NaN", b"null", b" ",
    b"true", b"\\u00e9", b"\xef\xbb\xbf", b"\xff", b"\x00", b"'", b'{"k":"a","v":1,"ts":1000}', b'{"x":{}}', b'"d":0.1',
    b"\\", b'"\\ud83d"', b"9" * 25, b"1e999", b"-", b".5", b"//", b"/**/", b"\xe2\x80\xa8", b"Infinity", b"0x1f",
)  # fmt: skip
CSV_PIECES = (
    b",", b",", b",", b'"', b'""', b"a", b"1", b"-0", b"+3", b"1e5", b"NaN", b"NULL", b" ", b"\t", b"\\", b'\\"', b"\n",
    b"\r", b"\xff", b"\x00", b"'", b";", b"\xef\xbb\xbf", b"9" * 25, b"1e999", b"#", b"true", b"\xe2\x80\xa8", b"1000",
)  # fmt: skip
VALUES = ("a", "", "é", "\U0001f600", "a,b", 'a"b', "a\nb", "\x00", "x" * 3000, None, 0, -1, 2**63, 0.1, True, [], {})
CUT_SHORT = 0.01  # of all files, beside those that their pieces spoil


def random_file(random: Random, format: str, number: int) -> tuple[str, bytes]:
    """A name and a content."""
    content = {"json": _json, "csv": _csv, "parquet": _parquet}[format](random)
    name = f"{random.choice(NAMES).format(number)}.{format}"
    if format != "parquet" and random.random() < 0.3:
        name, content = f"{name}.gz", gzip.compress(content)
    if name.endswith((".gz", ".parquet")) and random.random() < CUT_SHORT:
        content = content[: random.randrange(len(content))]
    return name, content


def _lines(random: Random, line: Callable[[Random], bytes]) -> bytes:
    end = random.choice(ENDS)
    return random.choice(MARKS) + end.join(line(random) for _ in range(random.randrange(9)))


def _pieces(random: Random, pieces: tuple[bytes, ...]) -> bytes:
    return b"".join(random.choices(pieces, k=random.randrange(10)))


def _json(random: Random) -> bytes:
    return _lines(random, _json_line)


def _json_line(random: Random) -> bytes:
    match random.randrange(8):
        case 0 | 1:
            return json.dumps({"k": "a", "v": random.randrange(10), "ts": random.randint(900, 1100)}).encode()
        case 2:
            names = random.choices(["k", "v", "d", "unused", "ts", "K", "x", "k.v", ""], k=random.randrange(6))
            return json.dumps({name: random.choice(VALUES) for name in names}).encode()
        case 3:
            return random.randbytes(random.randrange(13))
        case 4:
            levels = random.choice([3, 999, 1000, 1001, 10_000])
            return b'{"k":"a","ts":1000,"x":%b}' % (b"[" * levels + b"]" * levels)
        case _:
            return _pieces(random, JSON_PIECES)


def _csv(random: Random) -> bytes:
    return _lines(random, _csv_line)


def _csv_line(random: Random) -> bytes:
    match random.randrange(6):
        case 0 | 1:
            return b"a,%d,0.5,,%d" % (random.randrange(10), random.randint(900, 1100))
        case 2:
            return ",".join(json.dumps(random.choice(VALUES)) for _ in range(5)).encode()
        case 3:
            return random.randbytes(random.randrange(13))
        case _:
            return _pieces(random, CSV_PIECES)


def _parquet(random: Random) -> bytes:
    """Columns in any order, some missing, some of another width, texts that are none."""
    count = random.randrange(9)
    texts = pa.array(random.choices([b"a", b"", b"\xff", "é".encode(), b"\x00", None], k=count), pa.binary())
    columns = {
        "k": pa.Array.from_buffers(pa.string(), count, texts.buffers(), null_count=texts.null_count),
        "v": pa.array(random.choices([0, 1, -1, None], k=count), random.choice([pa.int64(), pa.int32()])),
        "d": pa.array(random.choices([0.5, float("nan"), None], k=count), random.choice([pa.float64(), pa.float32()])),
        "unused": pa.array(random.choices(range(9), k=count), pa.int32()),
        "ts": pa.array(random.choices([1000, 1001, None, 2**62], k=count), pa.int64()),
    }
    names = random.sample(list(columns), k=random.choice([5, 5, 5, 4, 3]))
    buffer = io.BytesIO()
    pq.write_table(pa.table({name: columns[name] for name in names}), buffer)
    return buffer.getvalue()
