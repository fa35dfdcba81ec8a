"""What a validator of the configuration found, in the words of who writes TOML or flags. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# The validator's words for types are Python's; who writes TOML or flags has others.
_EXPECTED: Final = {
    "tuple_type": "expected a list",
    "dict_type": "expected a table",
    "model_type": "expected a table",
    "string_type": "expected text",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "greater_than": "expected more than {gt:g}",
    "greater_than_equal": "expected at least {ge:g}",
    "less_than": "expected less than {lt:g}",
    "less_than_equal": "expected at most {le:g}",
    "string_too_short": "expected text that is not empty",
    "literal_error": "expected {expected}",
    "finite_number": "expected a finite number",
}


def describe_mistake(detail: ErrorDetails) -> str:
    """What a validator found, in words: what is expected, and what stands there."""
    message = detail["msg"].removeprefix("Value error, ")
    form = _EXPECTED.get(detail["type"])
    text = form.format(**detail.get("ctx", {})) if form else message[:1].lower() + message[1:]
    return f"{text}, found {detail['input']!r:.60}"
