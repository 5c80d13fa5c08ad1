"""The descriptor set as the gateway sees it: message types, services, options and comments, no stub imported by name.

Whatever the set declares is served. The options of `waggle.json.v1` and `google.api` are read through the set's own
pool, so that the set alone decides what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    EnumValueDescriptor,
    FieldDescriptor,
    MethodDescriptor,
    OneofDescriptor,
    ServiceDescriptor,
)
from google.protobuf.message import Message

DESCRIPTOR_SET_PATH = Path(__file__).resolve().parents[2] / "waggle" / "descriptor_set.binpb"

_FIELD_JSON = "waggle.json.v1.field"
_FIELD_RULES = "waggle.json.v1.rules"
_UNION = "waggle.json.v1.union"
_WORD = "waggle.json.v1.word"
_HTTP_STATUS = "waggle.json.v1.http_status"
_ANSWERED_BY = "waggle.json.v1.answered_by"
_ROUTE = "waggle.json.v1.route"
_MESSAGE_JSON = "waggle.json.v1.message"
_HTTP = "google.api.http"

# Numbers of the repeated members of the descriptor messages, as source locations use them.
_IN_FILE_MESSAGE, _IN_FILE_ENUM, _IN_FILE_SERVICE = 4, 5, 6
_IN_MESSAGE_FIELD, _IN_MESSAGE_NESTED, _IN_MESSAGE_ENUM, _IN_MESSAGE_ONEOF = 2, 3, 4, 8
_IN_SERVICE_METHOD = 2
_IN_ENUM_VALUE = 2


class Descriptors:
    """A loaded descriptor set.

    Attributes:
        pool: The types of the set.
        comments: Full name of a message, field, enum, enum value, service or method -> its leading comment.
    """

    def __init__(self, file_set: descriptor_pb2.FileDescriptorSet) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        self.comments: dict[str, str] = {}
        self._service_names: list[str] = []
        for file in file_set.file:
            self.pool.AddSerializedFile(file.SerializeToString())
            prefix = file.package + "." if file.package else ""
            self._service_names.extend(prefix + service.name for service in file.service)
            self.comments.update(_comments_of_file(file))
        self._options_classes: dict[str, Any] = {}

    @staticmethod
    def load(path: Path = DESCRIPTOR_SET_PATH) -> Descriptors:
        """Read a file made by `protoc --include_imports --descriptor_set_out`.

        Raises:
            OSError: The file cannot be read.
            google.protobuf.message.DecodeError: It is not a descriptor set.
        """
        return Descriptors(descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()))

    def services(self) -> Iterator[ServiceDescriptor]:
        """Every service of the set, in file order."""
        for name in self._service_names:
            yield self.pool.FindServiceByName(name)

    def message_class(self, descriptor: Descriptor) -> Callable[..., Message]:
        """The class of a message type; calling it with keywords makes a message, its FromString reads one."""
        return message_factory.GetMessageClass(descriptor)

    def http_rule(self, method: MethodDescriptor) -> Any | None:
        """`google.api.http` of a method, None where it has no route."""
        return self._extension(method, "google.protobuf.MethodOptions", _HTTP)

    def route(self, method: MethodDescriptor) -> Any:
        """`waggle.json.v1.route` of a method; all defaults where it is not set."""
        return self._extension_or_default(method, "google.protobuf.MethodOptions", _ROUTE)

    def message_json(self, message: Descriptor) -> Any:
        """`waggle.json.v1.message` of a message type; all defaults where it is not set."""
        return self._extension_or_default(message, "google.protobuf.MessageOptions", _MESSAGE_JSON)

    def field_json(self, field: FieldDescriptor) -> Any:
        """`waggle.json.v1.field` of a field; all defaults where it is not set."""
        return self._extension_or_default(field, "google.protobuf.FieldOptions", _FIELD_JSON)

    def field_rules(self, field: FieldDescriptor) -> Any:
        """`waggle.json.v1.rules` of a field; nothing set where it is not there."""
        return self._extension_or_default(field, "google.protobuf.FieldOptions", _FIELD_RULES)

    def union_json(self, oneof: OneofDescriptor) -> Any | None:
        """`waggle.json.v1.union` of a oneof, None where it has no JSON form of its own."""
        return self._extension(oneof, "google.protobuf.OneofOptions", _UNION)

    def word(self, value: EnumValueDescriptor) -> str:
        """`waggle.json.v1.word` of an enum value, empty where it has none."""
        word: str = self._extension_or_default(value, "google.protobuf.EnumValueOptions", _WORD)
        return word

    def http_statuses(self, enum: EnumDescriptor) -> dict[str, int]:
        """Word -> HTTP status of an enum whose values carry both."""
        return {
            self.word(value): self._extension_or_default(value, "google.protobuf.EnumValueOptions", _HTTP_STATUS)
            for value in enum.values
            if self.word(value)
        }

    def answering_services(self, enum: EnumDescriptor) -> dict[str, frozenset[str]]:
        """Word -> short names of the services whose routes alone answer with it; none for a word of any route."""
        return {
            self.word(value): frozenset(
                self._extension_or_default(value, "google.protobuf.EnumValueOptions", _ANSWERED_BY)
            )
            for value in enum.values
            if self.word(value)
        }

    def words(self, enum: EnumDescriptor) -> dict[str, int]:
        """Word -> number, in declaration order; values without a word are left out."""
        return {word: value.number for value in enum.values if (word := self.word(value))}

    def comment(self, full_name: str) -> str:
        """The comment above a declaration, empty where there is none."""
        return self.comments.get(full_name, "")

    def _extension(self, descriptor: Any, options_name: str, extension_name: str) -> Any | None:
        options = self._options(descriptor, options_name)
        extension = self._find_extension(extension_name)
        if extension is None or not options.HasExtension(extension):
            return None
        return options.Extensions[extension]

    def _extension_or_default(self, descriptor: Any, options_name: str, extension_name: str) -> Any:
        extension = self.pool.FindExtensionByName(extension_name)
        return self._options(descriptor, options_name).Extensions[extension]

    def _find_extension(self, name: str) -> FieldDescriptor | None:
        try:
            return self.pool.FindExtensionByName(name)
        except KeyError:  # a set that never imports the file that declares it
            return None

    def _options(self, descriptor: Any, options_name: str) -> Any:
        # Options arrive in the default pool's class, where our extensions are unknown fields: read them again.
        options_class = self._options_classes.get(options_name)
        if options_class is None:
            options_class = message_factory.GetMessageClass(self.pool.FindMessageTypeByName(options_name))
            self._options_classes[options_name] = options_class
        return options_class.FromString(descriptor.GetOptions().SerializeToString())


def _comments_of_file(file: descriptor_pb2.FileDescriptorProto) -> Mapping[str, str]:
    names = dict(_names_by_path(file))
    comments: dict[str, str] = {}
    for location in file.source_code_info.location:
        name = names.get(tuple(location.path))
        if name is not None and location.leading_comments:
            lines = [line.strip() for line in location.leading_comments.strip().splitlines()]
            comments[name] = "\n".join(lines)
    return comments


def _names_by_path(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    prefix = file.package + "." if file.package else ""
    for index, message in enumerate(file.message_type):
        yield from _names_in_message(message, (_IN_FILE_MESSAGE, index), prefix)
    for index, enum in enumerate(file.enum_type):
        yield from _names_in_enum(enum, (_IN_FILE_ENUM, index), prefix)
    for index, service in enumerate(file.service):
        path = (_IN_FILE_SERVICE, index)
        yield path, prefix + service.name
        for method_index, method in enumerate(service.method):
            yield (*path, _IN_SERVICE_METHOD, method_index), f"{prefix}{service.name}.{method.name}"


def _names_in_message(
    message: descriptor_pb2.DescriptorProto, path: tuple[int, ...], prefix: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    full_name = prefix + message.name
    yield path, full_name
    for index, field in enumerate(message.field):
        yield (*path, _IN_MESSAGE_FIELD, index), f"{full_name}.{field.name}"
    for index, oneof in enumerate(message.oneof_decl):
        yield (*path, _IN_MESSAGE_ONEOF, index), f"{full_name}.{oneof.name}"
    for index, enum in enumerate(message.enum_type):
        yield from _names_in_enum(enum, (*path, _IN_MESSAGE_ENUM, index), full_name + ".")
    for index, nested in enumerate(message.nested_type):
        yield from _names_in_message(nested, (*path, _IN_MESSAGE_NESTED, index), full_name + ".")


def _names_in_enum(
    enum: descriptor_pb2.EnumDescriptorProto, path: tuple[int, ...], prefix: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    yield path, prefix + enum.name
    # Values are named beside their enum in protobuf; here below it, so that two enums never share a comment.
    for index, value in enumerate(enum.value):
        yield (*path, _IN_ENUM_VALUE, index), f"{prefix}{enum.name}.{value.name}"
