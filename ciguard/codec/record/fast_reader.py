"""Reading many lines of a record fast. Pure.

`record.decode` decides what a line says. Where there is much to read, pydantic's validator makes
results and starts of their JSON in half of the time; a line that it does not take, for whatever
reason, is read by `decode`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from ciguard.codec.record.lines import LINE_SCHEMAS, MAX_INTEGER, MAX_LINE_BYTES, decode
from ciguard.model import DefaultsLine, Line, Result, StartLine

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, SchemaValidator

    from ciguard.codec.record.lines import Field

Read = Callable[[bytes], "Line | None"]

FAST_READER_FROM_BYTES: Final = (
    4 << 20
)  # below, importing pydantic's parser takes longer than it saves
FILES: Final = 64  # validators kept: the files of one leg say a handful of different defaults


def reader(defaults: DefaultsLine, *, is_large: bool) -> Read:
    """What reads the lines of a file; each says, or raises, what `record.decode` does.

    Args:
        defaults: what the first line of the file says of them all.
        much: there is so much to read, in all files, that making a faster reader pays.
    """
    if not is_large:
        return lambda text: decode(text, defaults)
    from pydantic_core import ValidationError  # noqa: PLC0415

    validate = _validator(defaults.suite, defaults.variant, defaults.process).validate_json

    def read(text: bytes) -> Line | None:
        # Pydantic's parser passes over what is no number of JSON where nobody asks for it.
        if len(text) <= MAX_LINE_BYTES and b"NaN" not in text and b"Infinity" not in text:
            try:
                return cast("Line", validate(text, strict=True))
            except ValidationError:
                pass  # another line, or one that only the slower reader understands
        return decode(text, defaults)

    return read


@lru_cache(FILES)
def _validator(suite: str, variant: str, process: int | None) -> SchemaValidator:
    """What takes a whole result or start that does not contradict its file's first line."""
    from pydantic_core import SchemaValidator, core_schema  # noqa: PLC0415

    defaults_schema: dict[str, CoreSchema] = {}
    for name, value in (("suite", suite), ("variant", variant)):
        if value:
            text = core_schema.str_schema(min_length=1)
            defaults_schema[name] = core_schema.with_default_schema(text, default=value)
    if process is not None:
        same = core_schema.int_schema(ge=process, le=process)
        defaults_schema["process"] = core_schema.with_default_schema(same, default=process)
    case = core_schema.with_default_schema(
        core_schema.str_schema(min_length=1),
        default_factory=lambda data: data["unit"],
        default_factory_takes_data=True,
    )
    lines = {
        "result": _line(Result, {**defaults_schema, "case": case}),
        "start": _line(StartLine, defaults_schema),
    }
    return SchemaValidator(core_schema.tagged_union_schema(lines, "type"))


def _line(kind: type[Any], defaults_schema: dict[str, CoreSchema]) -> CoreSchema:
    from pydantic_core import core_schema  # noqa: PLC0415

    words = {field.name: field for field in LINE_SCHEMAS[kind].fields}
    found = []
    for field in fields(kind):
        schema = defaults_schema.get(field.name)
        if schema is None:
            schema = _value(words[field.name])
            if field.default is None:
                schema = core_schema.nullable_schema(schema)
            if field.default is not MISSING:
                schema = core_schema.with_default_schema(schema, default=field.default)
        word = words[field.name].json_name
        found.append(core_schema.dataclass_field(field.name, schema, validation_alias=word))
    return core_schema.dataclass_schema(
        kind,
        core_schema.dataclass_args_schema(kind.__name__, found),
        [field.name for field in fields(kind)],
        slots=True,
        frozen=True,
    )


def _value(field: Field) -> CoreSchema:
    from pydantic_core import core_schema  # noqa: PLC0415

    if field.allowed is not None:
        return core_schema.literal_schema(sorted(field.allowed))
    if field.exact is str:
        return core_schema.str_schema()
    if field.exact is int:
        low = 0 if field.not_negative else -MAX_INTEGER
        return core_schema.int_schema(ge=low, le=MAX_INTEGER)
    if field.exact is float:
        # Below the limit, not at it: it is compared after an integer was rounded to a float.
        above = {"ge": 0.0} if field.not_negative else {"gt": -MAX_INTEGER}
        return core_schema.float_schema(lt=MAX_INTEGER, allow_inf_nan=False, **above)
    return core_schema.bool_schema()
