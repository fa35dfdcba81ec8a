"""JSON schemas of classes, made of their annotations."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, get_args, get_origin

PLAIN: dict[Any, dict[str, Any]] = {
    Any: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    type(None): {"type": "null"},
}


@dataclass(frozen=True)
class ClassSchemas:
    """Schemas of classes, by their names, as they are met.

    `names`: what annotations may name. `place`: begins a reference. `properties`: also described.
    """

    names: dict[str, Any]
    place: str = "#/$defs/"
    properties: bool = False
    known: dict[str, Any] = field(default_factory=dict)

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type; classes are put into `known` and referred to."""
        if kind in PLAIN:
            return PLAIN[kind]
        if inspect.isclass(kind) and issubclass(kind, StrEnum):
            return {"enum": list(kind)}
        origin, inside = get_origin(kind), get_args(kind)
        if origin is typing.Literal:
            return {"enum": list(inside)}
        if origin in (typing.Union, types.UnionType):
            # Infinity, as in "from nothing", has no JSON: a number may be null wherever it is.
            return {"anyOf": [self.of(member) for member in inside]}
        if origin is tuple and inside[1:] != (...,):
            return {"type": "array", "prefixItems": [self.of(member) for member in inside]}
        if origin in (tuple, list):
            return {"type": "array", "items": self.of(inside[0])}
        if origin in (Mapping, dict):
            return {"type": "object", "additionalProperties": self.of(inside[1])}
        name = kind.__name__
        if name not in self.known:
            self.known[name] = {}
            self.known[name] = self.as_object(kind)
        return {"$ref": f"{self.place}{name}"}

    def as_object(self, kind: Any) -> dict[str, Any]:
        names_here = {**self.names, **vars(sys.modules[kind.__module__])}
        hints = typing.get_type_hints(kind, names_here)
        names = list(getattr(kind, "_fields", ()))
        if is_dataclass(kind):
            names = [field.name for field in fields(kind)]
        if self.properties:
            members = [item for base in reversed(kind.__mro__) for item in vars(base).items()]
            for name, member in members:
                if isinstance(member, property):
                    names.append(name)
                    hints[name] = typing.get_type_hints(member.fget, names_here)["return"]
        return {
            "description": inspect.cleandoc(kind.__doc__ or ""),
            "type": "object",
            "properties": {name: self.of(hints[name]) for name in names},
            "required": names,
        }
