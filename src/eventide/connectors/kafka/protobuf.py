"""Messages in Protocol Buffers' binary form: one message type for all of them, described by a file that protoc writes.

    protoc --include_imports --descriptor_set_out=clicks.desc clicks.proto

What has no presence of its own, such as the numbers of proto3, is never NULL: nobody can tell whether it was set.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from eventide.errors import OptionError

DESCRIPTOR, MESSAGE = "protobuf_descriptor", "protobuf_message"
_TIME = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_HELP = "give the path of a file that `protoc --include_imports --descriptor_set_out=FILE` has written"


@dataclass(frozen=True)
class MessageType:
    """A type as it travels to tasks: the descriptors of its files, and its full name."""

    descriptors: bytes
    name: str

    @property
    def form(self) -> str:
        return f"a {self.name}"

    def new(self) -> Any:
        return _message_class(self)()


def message_type(what: str, options: Mapping[str, str]) -> MessageType:
    """The type that the options name. Raises an OptionError if there is none."""
    path, name = options[DESCRIPTOR], options[MESSAGE]
    try:
        found = MessageType(Path(path).read_bytes(), name)
    except OSError as error:
        raise OptionError(f"{what}: '{DESCRIPTOR}' {path} cannot be read: {error.strerror}", help=_HELP) from None
    try:
        found.new()
    except KeyError:
        listed = ", ".join(_names(found.descriptors)) or "none"
        raise OptionError(f"{what}: {path} has no message {name}", help=f"its messages: {listed}") from None
    except Exception as error:
        told = " ".join(str(error).split())
        raise OptionError(f"{what}: {path} does not describe messages: {told}", help=_HELP) from None
    return found


@functools.lru_cache(16)
def _message_class(type: MessageType) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(type.descriptors).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(type.name))


def _names(descriptors: bytes) -> list[str]:
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    return [".".join(filter(None, (file.package, each.name))) for file in files for each in file.message_type]


@dataclass(frozen=True)
class ProtobufDecoder:
    type: MessageType

    @property
    def form(self) -> str:
        return self.type.form

    def record(self, value: bytes) -> Mapping[str, Any]:
        message = self.type.new()
        message.ParseFromString(value)
        return _fields(message)


@dataclass(frozen=True)
class ProtobufEncoder:
    sink: str
    type: MessageType

    def encoded(self, row: Mapping[str, Any]) -> bytes:
        message = self.type.new()
        try:
            _fill(message, row)
            found: bytes = message.SerializeToString(deterministic=True)
        except Exception as error:
            raise OptionError(
                f"sink {self.sink}: a row does not fit the message {self.type.name}: {type(error).__name__}: {error}",
                help="name the columns in the SELECT as the fields are named, with types that fit",
            ) from None
        return found


# From messages ----------------------------------------------------------------------------------------------------


def _fields(message: Any) -> dict[str, Any]:
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: FieldDescriptor) -> Any:
    if field.is_repeated:
        values = getattr(message, field.name)
        if _is_map(field):
            item = field.message_type.fields_by_name["value"]
            return [(key, _value(values[key], item)) for key in values]
        return [_value(value, field) for value in values]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _value(getattr(message, field.name), field)


def _value(value: Any, field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if field.message_type is None:
        return value
    if field.message_type.full_name == _TIME:
        return value.ToDatetime(tzinfo=dt.UTC)
    return value.value if field.message_type.full_name in _WRAPPERS else _fields(value)


# Into messages ----------------------------------------------------------------------------------------------------


def _fill(message: Any, row: Mapping[str, Any]) -> None:
    kind: Descriptor = message.DESCRIPTOR
    for name, value in row.items():
        if name not in kind.fields_by_name:
            raise ValueError(f"it has no field {name}")
        if value is not None:
            _set(message, kind.fields_by_name[name], value)


def _set(message: Any, field: FieldDescriptor, value: Any) -> None:
    if field.is_repeated and _is_map(field):
        item = field.message_type.fields_by_name["value"]
        entries = getattr(message, field.name)
        for key, each in dict(value).items():
            if item.message_type is None:
                entries[key] = _plain(each, item)
            else:
                _fill_from(entries[key], each)
    elif field.is_repeated:
        added = getattr(message, field.name)
        for each in value:
            if field.message_type is None:
                added.append(_plain(each, field))
            else:
                _fill_from(added.add(), each)
    elif field.message_type is None:
        setattr(message, field.name, _plain(value, field))
    else:
        inner = getattr(message, field.name)
        inner.SetInParent()
        _fill_from(inner, value)


def _plain(value: Any, field: FieldDescriptor) -> Any:
    is_name = field.enum_type is not None and isinstance(value, str)
    if is_name and value not in field.enum_type.values_by_name:
        raise ValueError(f"{field.enum_type.full_name} has no {value}")
    return field.enum_type.values_by_name[value].number if is_name else value


def _fill_from(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name == _TIME and isinstance(value, dt.datetime):
        message.FromDatetime(value)
    elif name in _WRAPPERS and not isinstance(value, Mapping):
        message.value = value
    else:
        _fill(message, value)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
