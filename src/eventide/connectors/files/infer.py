"""The columns of files, as the first of them show: names, and the narrowest types that hold what is there.

Without Spark, so that a file of statements can be checked without it as well.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from itertools import islice

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from eventide.connectors.files.listing import FoundFile, Listing, local_path
from eventide.connectors.secrets import Secrets
from eventide.errors import OptionError
from eventide.plan.names import quoted
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.folder_names import texts_of
from eventide.tasks.line_blocks import blocks

_FILES = 8  # that are looked at
_BYTES = 4 << 20  # of each
_NAMES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double"),
    (pa.types.is_date, "date"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_timestamp, "timestamp"),
)
_OF_PARQUET = {pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.float32(): "float"}


def infer(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Name and type of every column; those that folders are named after come last, as texts. Raises an OptionError if
    nothing tells.
    """
    path, format = Secrets("the source", options).options["path"], options.get("format", "json")
    try:
        files = list(islice((file for file in Listing(path).new_files(set()) if file.length), _FILES))
    except OptionError:
        raise OptionError(f"the columns of files in {path} cannot be inferred from here", help=_DECLARE) from None
    if not files:
        raise OptionError(f"there are no files in {path} from which columns could be inferred", help=_DECLARE)
    if format == "csv" and options.get("header") != "true":
        raise OptionError("columns of csv are inferred from a header", help=f"set 'header' = 'true', or {_DECLARE}")
    try:
        schemas = [_schema(file, format, options) for file in files]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowException, OSError) as error:
        raise OptionError(
            f"the columns of the files in {path} cannot be inferred: {' '.join(str(error).split())}", help=_DECLARE
        ) from None
    inside = tuple((field.name, _type(field.type, format)) for field in schema)
    own = {name.lower() for name, _ in inside}
    by_folder = texts_of(local_path(path), files[0].path)
    return (*inside, *((name, "string") for name in by_folder if name.lower() not in own))


_DECLARE = "declare the columns: CREATE SOURCE name (id STRING, ...)"


def _schema(file: FoundFile, format: str, options: Mapping[str, str]) -> pa.Schema:
    if format == "parquet":
        return pa.parquet.read_schema(file.path)
    content = io.BytesIO(b"".join(_beginning(file)))
    if format == "json":
        reading = pa.json.ReadOptions(use_threads=False, block_size=_BYTES * 2)
        return pa.json.read_json(content, reading).schema
    parsing = pa.csv.ParseOptions(
        delimiter=options.get("sep", ","), quote_char=options.get("quote", '"'), newlines_in_values=True
    )
    converting = pa.csv.ConvertOptions(null_values=["", options.get("null_text", "")], strings_can_be_null=True)
    reading = pa.csv.ReadOptions(use_threads=False, block_size=_BYTES * 2)
    return pa.csv.read_csv(content, reading, parsing, converting).schema


def _beginning(file: FoundFile) -> Iterator[bytes]:
    """Its first lines."""
    for at, block in blocks(FileRange(file.path, 0, 0, 0, file.length)):
        if at > _BYTES:
            return
        yield block


def _type(kind: pa.DataType, format: str) -> str:
    """As CREATE SOURCE declares it; what says nothing, and what SQL has no name for, is text."""
    if format == "parquet" and kind in _OF_PARQUET:
        return _OF_PARQUET[kind]
    if pa.types.is_timestamp(kind) and kind.tz is None and format == "parquet":
        return "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"map<{_type(kind.key_type, format)},{_type(kind.item_type, format)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_type(kind.value_type, format)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{quoted(field.name)}:{_type(field.type, format)}' for field in kind)}>"
    return next((name for fits, name in _NAMES if fits(kind)), "string")
