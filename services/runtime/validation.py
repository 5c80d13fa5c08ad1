"""Request validation, compiled once for each message type from the options that stand in the protos.

`validate(message)` checks every field that carries `waggle.json.v1.rules` or `field.required`, in the message itself
and in everything that it holds, and turns UUID text to lower case in place. A breach raises the domain error of its
documented code and names the member as the documented JSON spells it: "query.seed.text", "record_ids[3]".

Presence can only be judged where protobuf records it: `required` is checked on message fields, `optional` fields,
enums and repeated fields; for plain strings and numbers their bounds decide, and the gateway has already seen whether
the member was there. A oneof with a JSON form must always be set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.message import Message

from services.domain.errors import InvalidRequest
from services.runtime.field_checks import (
    Breach,
    Check,
    bytes_checks,
    canonical_uuid,
    count_checks,
    enum_check,
    enum_const_checks,
    number_checks,
    numbers_check,
    string_checks,
    unique_check,
)
from services.runtime.status import ERROR_BY_REASON
from waggle.json.v1 import options_pb2

_STRING = FieldDescriptor.TYPE_STRING
_NOT_NUMBERS = frozenset(
    {
        FieldDescriptor.TYPE_STRING,
        FieldDescriptor.TYPE_BYTES,
        FieldDescriptor.TYPE_BOOL,
        FieldDescriptor.TYPE_ENUM,
        FieldDescriptor.TYPE_MESSAGE,
        FieldDescriptor.TYPE_GROUP,
    }
)
_OWN_PACKAGE = "waggle."

Step = Callable[[Any], None]


class MessageValidator:
    """The compiled checks of one message type. `steps` is empty when the type has no rules at all."""

    __slots__ = ("full_name", "steps")

    def __init__(self, full_name: str) -> None:
        self.full_name = full_name
        self.steps: tuple[Step, ...] = ()

    def run(self, message: Any) -> None:
        """Check `message`; raise Breach with the path inside it."""
        for step in self.steps:
            step(message)


_validators: dict[str, MessageValidator] = {}


def validate(message: Message) -> None:
    """Check a request by the rules of its type, and normalise its UUIDs in place.

    Raises:
        WaggleError: The class of the documented code, usually InvalidRequest, with the member at fault.
    """
    descriptor = cast(Descriptor, message.DESCRIPTOR)
    validator = _validators.get(descriptor.full_name) or compile_validator(descriptor)
    try:
        for step in validator.steps:
            step(message)
    except Breach as breach:
        error = ERROR_BY_REASON.get(breach.reason, InvalidRequest)
        raise error(breach.message, member=breach.path or None) from None


def compile_validator(descriptor: Descriptor) -> MessageValidator:
    """Return the validator of a message type, compiling it and those of the types that it holds on first use."""
    known = _validators.get(descriptor.full_name)
    if known is not None:
        return known
    validator = MessageValidator(descriptor.full_name)
    compiled: dict[str, MessageValidator] = {}
    _compile_into(validator, descriptor, compiled)
    # Published together, and only when whole: another thread must never run half of a validator.
    _validators.update(compiled)
    return validator


def _compile(descriptor: Descriptor, compiled: dict[str, MessageValidator]) -> MessageValidator:
    known = compiled.get(descriptor.full_name) or _validators.get(descriptor.full_name)
    if known is not None:
        return known
    validator = MessageValidator(descriptor.full_name)
    _compile_into(validator, descriptor, compiled)
    return validator


def _compile_into(validator: MessageValidator, descriptor: Descriptor, compiled: dict[str, MessageValidator]) -> None:
    # Entered before its fields are looked at, so that a message that holds itself finds it.
    compiled[descriptor.full_name] = validator
    steps: list[Step] = []
    for field in descriptor.fields:
        steps.extend(_field_steps(field, compiled))
    for oneof in descriptor.oneofs:
        if oneof.GetOptions().HasExtension(options_pb2.union):
            steps.append(_union_step(oneof))
    validator.steps = tuple(steps)


def _member_name(field: FieldDescriptor) -> str:
    """Return the field's part of a member path: empty where the documented JSON has no such level."""
    oneof = field.containing_oneof
    if oneof is not None and oneof.GetOptions().HasExtension(options_pb2.union):
        style = oneof.GetOptions().Extensions[options_pb2.union].style
        is_bare_word = field.type == FieldDescriptor.TYPE_ENUM
        if style == options_pb2.UnionJson.STYLE_TAGGED or is_bare_word:
            return ""
    if cast(Descriptor, field.containing_type).GetOptions().Extensions[options_pb2.message].transparent:
        return ""
    return field.GetOptions().Extensions[options_pb2.field].name or field.name


def _field_steps(field: FieldDescriptor, compiled: dict[str, MessageValidator]) -> list[Step]:
    options = field.GetOptions()
    rules = options.Extensions[options_pb2.rules]
    required = options.Extensions[options_pb2.field].required
    member = _member_name(field)
    if field.is_repeated:
        return _repeated_steps(field, rules, required, member, compiled)
    steps: list[Step] = []
    if required and field.has_presence and not _is_in_union(field):
        steps.append(_presence_step(field.name, member))
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        if _has_rules(_type_of(field), set()):
            steps.append(_submessage_step(field.name, member, _compile(_type_of(field), compiled)))
        return steps
    checks = _scalar_checks(field, rules, zero_is_unset=not required and not field.has_presence)
    if rules.uuid:
        steps.append(_uuid_step(field, member, checks))
    elif checks:
        steps.append(_scalar_step(field, member, checks))
    return steps


def _type_of(field: FieldDescriptor) -> Descriptor:
    return cast(Descriptor, field.message_type)


def _is_in_union(field: FieldDescriptor) -> bool:
    # proto3 wraps each `optional` scalar in a oneof of its own, named after it.
    oneof = field.containing_oneof
    return oneof is not None and oneof.name != f"_{field.name}"


def _has_rules(descriptor: Descriptor, seen: set[str]) -> bool:
    """Tell whether a message type, or anything that it holds, has something to check."""
    if descriptor.full_name in seen or not descriptor.full_name.startswith(_OWN_PACKAGE):
        return False
    seen.add(descriptor.full_name)
    if any(oneof.GetOptions().HasExtension(options_pb2.union) for oneof in descriptor.oneofs):
        return True
    for field in descriptor.fields:
        options = field.GetOptions()
        if options.HasExtension(options_pb2.rules) or options.Extensions[options_pb2.field].required:
            return True
        if field.type == FieldDescriptor.TYPE_ENUM:
            return True
        if field.type == FieldDescriptor.TYPE_MESSAGE and _has_rules(_type_of(field), seen):
            return True
    return False


def _scalar_checks(field: FieldDescriptor, rules: options_pb2.FieldRules, *, zero_is_unset: bool) -> list[Check]:
    if field.type == _STRING:
        return string_checks(rules)
    if field.type == FieldDescriptor.TYPE_ENUM:
        known = enum_check(cast(EnumDescriptor, field.enum_type), zero_is_unset=zero_is_unset)
        return [known, *enum_const_checks(cast(EnumDescriptor, field.enum_type), rules)]
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes_checks(rules)
    if field.type not in _NOT_NUMBERS:
        return number_checks(rules, is_contract_version=field.name == "contract_version")
    return []


def _presence_step(name: str, member: str) -> Step:
    def step(message: Any) -> None:
        if not message.HasField(name):
            raise Breach("is required").inside(member)

    return step


def _submessage_step(name: str, member: str, inner: MessageValidator) -> Step:
    def step(message: Any) -> None:
        if message.HasField(name):
            try:
                inner.run(getattr(message, name))
            except Breach as breach:
                raise breach.inside(member) from None

    return step


def _scalar_step(field: FieldDescriptor, member: str, checks: list[Check]) -> Step:
    name, has_presence = field.name, field.has_presence
    first, *others = checks

    def step(message: Any) -> None:
        if has_presence and not message.HasField(name):
            return
        value = getattr(message, name)
        try:
            first(value)
            for check in others:
                check(value)
        except Breach as breach:
            raise breach.inside(member) from None

    return step


def _uuid_step(field: FieldDescriptor, member: str, checks: list[Check]) -> Step:
    name, has_presence = field.name, field.has_presence

    def step(message: Any) -> None:
        if has_presence and not message.HasField(name):
            return
        value = getattr(message, name)
        try:
            canonical = canonical_uuid(value)
            for check in checks:
                check(value)
        except Breach as breach:
            raise breach.inside(member) from None
        if canonical != value:
            setattr(message, name, canonical)

    return step


def _repeated_steps(
    field: FieldDescriptor,
    rules: options_pb2.FieldRules,
    required: bool,
    member: str,
    compiled: dict[str, MessageValidator],
) -> list[Step]:
    name = field.name
    wholes = count_checks(rules)
    element: Check | None = None
    normalises = rules.uuid
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        # The entries of a map are messages too, but generated ones without rules.
        if _has_rules(_type_of(field), set()):
            element = _compile(_type_of(field), compiled).run
    elif field.type in _NOT_NUMBERS:
        element = _all_of(_scalar_checks(field, rules, zero_is_unset=False))
    else:
        numbers = numbers_check(rules)
        if numbers is not None:
            wholes.append(numbers)
    distinct = unique_check(rules)
    if not wholes and element is None and distinct is None and not normalises:
        return []

    def step(message: Any) -> None:
        values = getattr(message, name)
        try:
            for check in wholes:
                check(values)
            if normalises:
                _normalise_uuids(values)
            if element is not None:
                _check_elements(values, element)
            if distinct is not None:
                distinct(values)
        except Breach as breach:
            raise breach.inside(member) from None

    return [step]


def _normalise_uuids(values: Any) -> None:
    for index, value in enumerate(values):
        try:
            canonical = canonical_uuid(value)
        except Breach as breach:
            raise breach.inside(f"[{index}]") from None
        if canonical != value:
            values[index] = canonical


def _check_elements(values: Any, check: Check) -> None:
    index = 0
    try:
        for value in values:
            check(value)
            index += 1
    except Breach as breach:
        raise breach.inside(f"[{index}]") from None


def _all_of(checks: list[Check]) -> Check | None:
    if len(checks) < 2:
        return checks[0] if checks else None

    def run(value: Any) -> None:
        for check in checks:
            check(value)

    return run


def _union_step(oneof: OneofDescriptor) -> Step:
    name = oneof.name
    options = oneof.GetOptions().Extensions[options_pb2.union]
    words = ", ".join(field.GetOptions().Extensions[options_pb2.field].name or field.name for field in oneof.fields)

    def step(message: Any) -> None:
        if message.WhichOneof(name) is None:
            raise Breach(f"must be one of {words}").inside(options.discriminator)

    return step
