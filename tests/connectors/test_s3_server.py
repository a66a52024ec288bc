"""The S3 server of the tests is one: what is put there can be read and listed, by the key it was put under."""

from __future__ import annotations

from pyarrow import fs

from tests.connectors.s3_server import S3Server


def test_what_is_put_can_be_read_and_listed(s3: S3Server) -> None:
    bucket = s3.new_bucket()
    with s3.files.open_output_stream(f"{bucket}/folder/one") as file:
        file.write(b"some bytes")
    with s3.files.open_input_file(f"{bucket}/folder/one") as file:
        assert file.read() == b"some bytes"
    assert [each.path for each in s3.files.get_file_info(fs.FileSelector(f"{bucket}/folder"))] == [
        f"{bucket}/folder/one"
    ]
