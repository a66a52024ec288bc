"""What a user is told out of the pages that Spark prints when a stream stops."""

from __future__ import annotations

from eventide.errors import CheckpointError, StreamFailedError, UnreadableFileError
from eventide.spark.analysis import first_sentence
from eventide.spark.failure import failure_of, is_of_memory, out_of_memory

HEAD = (
    "[STREAM_FAILED] Query [id = 1] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error "
    "occurred. Reason: x\n"
)
TAIL = "\n\tat org.apache.spark.Task.run(Task.scala:147)\n SQLSTATE: 39000 SQLSTATE: XXKST"


def test_sparks_own_error_class_comes_first() -> None:
    text = HEAD + "Caused by: org.apache.spark.SparkException: [CAST_OVERFLOW] The value 1e9 overflows.\n"
    error = failure_of("o", text + "Caused by: java.lang.ArithmeticException: overflow" + TAIL)
    assert isinstance(error, StreamFailedError)
    assert error.message == "stream o stopped: The value 1e9 overflows."


def test_a_file_that_spark_cannot_read_is_called_by_its_name() -> None:
    text = (
        HEAD + "Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading "
        "file file:///in/a%20b%2520%C3%A9.json.gz. SQLSTATE: KD001\n"
    )
    error = failure_of("o", text + "Caused by: java.io.EOFException: Unexpected end of input stream" + TAIL)
    assert isinstance(error, UnreadableFileError) and error.path == "/in/a b%20é.json.gz"
    assert error.message.endswith("cannot be read: EOFException: Unexpected end of input stream")


def test_an_error_of_eventide_in_a_worker_keeps_its_kind_and_its_help() -> None:
    text = (
        HEAD
        + '  File "x.py", line 1\neventide.errors.CheckpointError: the state is damaged\n  help: restore it\n'
        + TAIL
    )
    error = failure_of("o", text)
    assert isinstance(error, CheckpointError) and error.help == "restore it"


def test_the_last_line_of_a_python_traceback_comes_before_javas() -> None:
    text = (
        HEAD
        + '  File "x.py", line 1\npyarrow.lib.ArrowInvalid: out of range\n'
        + TAIL
        + "\npy4j.protocol.Py4JJavaError: An error"
    )
    assert failure_of("o", text).message == "stream o stopped: pyarrow.lib.ArrowInvalid: out of range"


def test_javas_deepest_cause_is_better_than_nothing() -> None:
    text = (
        HEAD + "Caused by: java.io.IOException: first\n\tat a.b.C\nCaused by: java.io.FileNotFoundException: "
        "deepest\n\tat a.b.C"
    )
    assert failure_of("o", text).message == "stream o stopped: FileNotFoundException: deepest"


def test_a_message_of_spark_that_ends_where_pythons_begins_gives_way_to_it() -> None:
    head = "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed: Traceback (most recent call last):\n"
    text = HEAD + head + '  File "x.py", line 1, in read\n    raise Boom(1)\n__main__.Boom: the disk of node 7\n' + TAIL
    assert failure_of("o", text).message == "stream o stopped: Boom: the disk of node 7"


def test_an_exception_without_a_message_is_named() -> None:
    text = HEAD + 'Traceback (most recent call last):\n  File "x.py", line 1\n    assert row\nAssertionError\n' + TAIL
    assert failure_of("o", text).message == "stream o stopped: AssertionError"


def test_a_long_traceback_is_read_in_time() -> None:
    text = HEAD + "Traceback (most recent call last):\n" + '    File "x.py", line 1\n        call()\n' * 500 + TAIL
    assert failure_of("o", text).message.startswith("stream o stopped: ")


def test_where_memory_ran_out_the_expressions_that_may_have_taken_it_are_named() -> None:
    assert is_of_memory(HEAD + "Caused by: java.lang.OutOfMemoryError: Java heap space" + TAIL)
    assert not is_of_memory(HEAD + "Caused by: java.io.IOException: first" + TAIL)
    error = out_of_memory("o", "Spark has ended", ["size(sequence(1, v))"])
    assert error.message.startswith("stream o stopped: Spark has ended. ")
    assert error.message.endswith(": size(sequence(1, v))")


def test_a_refusal_that_ends_where_pythons_traceback_begins_tells_its_cause() -> None:
    text = "[PYTHON_DATA_SOURCE_ERROR] Failed when planning: Traceback (most recent call last):\n"
    error = Exception(text + '  File "x.py", line 1, in schema\n    raise ValueError(1)\nValueError: no such table\n')
    assert first_sentence(error) == "ValueError: no such table"
    assert first_sentence(Exception("[A.B] It is wrong. SQLSTATE: 42000\nmore")) == "It is wrong."
