import pyarrow as pa
import pytest

from eventide.errors import CheckpointError
from eventide.kernels.state.codec import COMPRESS_FROM, Codec

SCHEMA = pa.schema([("slice", pa.int64()), ("__k0", pa.string()), ("s0_0", pa.list_(pa.float64()))])
SMALL = pa.table([[1, 2], ["a", None], [[1.5], []]], schema=SCHEMA)


def large() -> pa.Table:
    count = COMPRESS_FROM // 8
    return pa.table([list(range(count)), ["user"] * count, [[0.5]] * count], schema=SCHEMA)


@pytest.mark.parametrize("table", [SMALL, SCHEMA.empty_table(), large(), pa.concat_tables([SMALL, SMALL])])
def test_a_table_survives_encoding(table: pa.Table) -> None:
    codec = Codec("plan", SCHEMA)
    assert codec.decode(codec.encode(table)).equals(table)


def test_the_same_rows_give_the_same_bytes_however_they_are_chunked_or_sliced() -> None:
    codec = Codec("plan", SCHEMA)
    doubled = pa.concat_tables([SMALL, SMALL])
    assert codec.encode(doubled) == codec.encode(doubled.combine_chunks())
    assert codec.encode(doubled.slice(2)) == codec.encode(SMALL)


def test_small_blobs_are_small_and_large_ones_compressed() -> None:
    codec = Codec("plan", SCHEMA)
    assert len(codec.encode(SMALL)) < 500
    assert len(codec.encode(large())) < large().nbytes / 2


def test_a_blob_of_another_plan_is_refused() -> None:
    with pytest.raises(CheckpointError, match="belongs to another query"):
        Codec("other plan", SCHEMA).decode(Codec("plan", SCHEMA).encode(SMALL))


def test_a_blob_of_another_version_is_refused() -> None:
    blob = Codec("plan", SCHEMA).encode(SMALL)
    with pytest.raises(CheckpointError, match="format 2, this version of Eventide reads format 1"):
        Codec("plan", SCHEMA).decode(b"\x02" + blob[1:])


@pytest.mark.parametrize("keep", [0, 5, 16, 40, 120])
def test_a_damaged_blob_is_refused(keep: int) -> None:
    with pytest.raises(CheckpointError, match="damaged"):
        Codec("plan", SCHEMA).decode(Codec("plan", SCHEMA).encode(SMALL)[:keep])


def test_a_log_decodes_to_one_table_in_order() -> None:
    codec = Codec("plan", SCHEMA)
    assert codec.decode_all([codec.encode(SMALL), codec.encode(SMALL)]).num_rows == 4
    assert codec.decode_all([]).schema == SCHEMA
