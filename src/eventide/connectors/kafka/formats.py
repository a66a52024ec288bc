"""Formats in which a message is one record that Python decodes: what their options must say, and who decodes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from eventide.errors import OptionError

if TYPE_CHECKING:
    from eventide.connectors.kafka.records import Decoder, Encoder


def check_format(what: str, options: Mapping[str, str]) -> None:
    """Raises an OptionError unless the options tell all of the format that they name."""
    match options.get("format", "json"):
        case "protobuf":
            for name in ("protobuf_descriptor", "protobuf_message"):
                _need(what, options, "protobuf", name)
            decoder_of(what, options)
        case "avro" if "avro_registry" in options:
            from eventide.connectors.kafka.registry import check_registry

            check_registry(what, options)
            decoder_of(what, options)
        case "avro":
            _need(what, options, "avro", "avro_schema")
            for name in ("avro_registry_user", "avro_registry_password", "avro_subject"):
                if name in options:
                    raise OptionError(f"{what}: '{name}' is for a registry", help="add 'avro_registry' = 'http://...'")
            decoder_of(what, options)


def _need(what: str, options: Mapping[str, str], format: str, name: str) -> None:
    if name not in options:
        raise OptionError(f"{what}: 'format' is {format}, so it needs '{name}'", help=f"add '{name}' = '...'")


def decoder_of(what: str, options: Mapping[str, str]) -> Decoder:
    if options["format"] == "protobuf":
        from eventide.connectors.kafka.protobuf import ProtobufDecoder, message_type

        return ProtobufDecoder(message_type(what, options))
    from eventide.connectors.kafka.avro import AvroDecoder, check_installed, schema_of

    check_installed(what)
    if "avro_registry" not in options:
        return AvroDecoder(schema_of(what, options))
    from eventide.connectors.kafka.registry import Registry, RegistryDecoder

    return RegistryDecoder(Registry.of(options), schema_of(what, options) if "avro_schema" in options else None)


def encoder_of(sink: str, options: Mapping[str, str]) -> Encoder | None:
    """None for JSON."""
    match options.get("format", "json"):
        case "protobuf":
            from eventide.connectors.kafka.protobuf import ProtobufEncoder, message_type

            return ProtobufEncoder(sink, message_type(f"sink {sink}", options))
        case "avro" if "avro_registry" in options:
            from eventide.connectors.kafka.registry import RegistryEncoder

            return RegistryEncoder(sink, options)
        case "avro":
            from eventide.connectors.kafka.avro import AvroEncoder, schema_of

            return AvroEncoder(sink, schema_of(f"sink {sink}", options))
        case _:
            return None
