"""Values of the configuration that a person writes as text: times, sizes, exit codes. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from ciguard.config.declared_memory import BYTES_BY_UNIT, parse_size
from ciguard.model.duration import parse_seconds

MAX_EXIT_CODE: Final = 255


def seconds(value: object) -> object:
    """ "10m", "1h30m", "90s" or a number of seconds, as a float; anything else unchanged."""
    if isinstance(value, str):
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value)
        return parse_seconds(value)
    return value


def size_bytes(value: object) -> object:
    """ "16GB", "500MiB" or a number of bytes, as an int; anything else unchanged."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d{1,18}(?:\.\d+)?) ?([A-Za-z]*)", value)
        if match and match[2] in BYTES_BY_UNIT:
            return int(float(match[1]) * BYTES_BY_UNIT[match[2]])
        raise ValueError('expected a size like "16GB" or "500MiB"')
    return value


def size_expression(value: object) -> object:
    """A size, or an expression of sizes, as text; anything else unchanged."""
    text = str(value) if type(value) is int else value
    if isinstance(text, str):
        parse_size(text)
    return text


def exit_codes(value: object) -> object:
    """8 or "8", or a range such as "1-255", as text."""
    text = str(value) if type(value) is int else value
    found = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", text) if isinstance(text, str) else None
    if found is None or not 0 < int(found[1]) <= int(found[2] or found[1]) <= MAX_EXIT_CODE:
        raise ValueError('expected an exit code from 1 to 255, or a range like "1-255"')
    return text


def variable_name(value: object) -> object:
    """The name of an environment variable; anything else than text unchanged."""
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("expected the name of an environment variable")
    return value


Seconds = Annotated[float, BeforeValidator(seconds), Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, BeforeValidator(size_bytes), Field(ge=0)]
SizeExpression = Annotated[str, BeforeValidator(size_expression)]
Texts = tuple[str, ...]
ExitCodes = tuple[Annotated[str, BeforeValidator(exit_codes)], ...]
VariableNames = tuple[Annotated[str, BeforeValidator(variable_name)], ...]
