"""Every setting that the code reads from its environment."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any, get_type_hints

import services
from services.gateway.descriptors import Descriptors
from services.gateway.message_shape import MessageShapes
from services.gateway.route_table import compile_routes
from services.gateway.settings import address_variable
from services.runtime.settings import Variable

# Read by other means than a dataclass: before there is anything that could fail (logging), or for the numeric library.
PLAIN_VARIABLES = {"WAGGLE_LOG_LEVEL"}
# Between processes of the suite, and for tests; no operator sets them.
INTERNAL_VARIABLES = {"WAGGLE_START_REPORT", "WAGGLE_SUPERVISOR_PID", "WAGGLE_FAULT_POINTS"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """A member of a dataclass of settings.

    Attributes:
        variable: Where it comes from.
        default: `dataclasses.MISSING` when it must be set.
        kind: The dataclass.
    """

    variable: Variable
    default: Any
    kind: type


@functools.cache
def settings_kinds() -> list[type]:
    """Every dataclass of settings that a module of the services defines."""
    found = []
    for module in pkgutil.walk_packages(services.__path__, "services."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__ == module.name and dataclasses.is_dataclass(kind) and _has_variables(kind):
                found.append(kind)
    return found


@functools.cache
def all_settings() -> dict[str, Setting]:
    """Variable -> setting, of all processes."""
    return {setting.variable.name: setting for kind in settings_kinds() for setting in _members(kind)}


@functools.cache
def address_variables() -> dict[str, str]:
    """Service -> variable, of those that the gateway has routes to."""
    descriptors = Descriptors.load()
    routes = compile_routes(descriptors, MessageShapes(descriptors))
    packages = {route.service for route in routes}
    return {package.split(".")[1]: address_variable(package) for package in packages}


def _has_variables(kind: type) -> bool:
    # Looked at as text: hints of other dataclasses may need names that only type checkers import.
    return any(
        "Variable(" in str(hint) for base in kind.__mro__ for hint in vars(base).get("__annotations__", {}).values()
    )


def _members(kind: type) -> Iterator[Setting]:
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        notes = getattr(hints[field.name], "__metadata__", ())
        for note in notes:
            if isinstance(note, Variable) and not inspect.isclass(note):
                yield Setting(note, field.default, kind)
