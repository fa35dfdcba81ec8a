"""Fast reading of the lines of large records, by msgspec. Pure.

msgspec reads the kinds of line that grow with a run eight times as fast as `lines.decode`. A line
that msgspec refuses, for any reason, is read by `decode`, which defines the format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from functools import cache, lru_cache
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, cast

from ciguard.codec.mutable_twin import mutable_twin
from ciguard.codec.record.lines import (
    FAILED,
    LINE_SCHEMAS,
    MAX_INTEGER,
    MAX_LINE_BYTES,
    OF_PROCESS,
    OF_UNITS,
    decode,
    ending_by_words,
)
from ciguard.model import (
    DefaultsLine,
    EventLine,
    Line,
    MetricLine,
    PeakLine,
    Result,
    SampleLine,
    StartLine,
)

if TYPE_CHECKING:
    from msgspec import Struct

    from ciguard.codec.record.lines import Field

Read = Callable[[bytes], "Line | None"]

FAST_READER_FROM_BYTES: Final = 1 << 20  # below, the import of msgspec takes longer than it saves
DECODERS: Final = 64  # cached: the files of a shard's job have a handful of different defaults
# The kinds with many lines; of other kinds, a job or a process has one line.
_KINDS: Final[dict[str, type[Any]]] = {
    "result": Result,
    "start": StartLine,
    "sample": SampleLine,
    "peak": PeakLine,
    "event": EventLine,
    "metric": MetricLine,
}


def reader(defaults: DefaultsLine, *, is_large: bool) -> Read:
    """Return a function that reads a line of a file, with the results and errors of `lines.decode`.

    Args:
        defaults: the first line of the file, with values for all lines.
        is_large: all files together are so large that msgspec saves time.
    """
    if not is_large:
        return lambda text: decode(text.rstrip(b"\r\n"), defaults)
    decode_struct = _decoder(defaults.suite, defaults.variant, defaults.process)

    def read(text: bytes) -> Line | None:
        if len(text) <= MAX_LINE_BYTES:
            try:
                line: Line = decode_struct(text).to_line()
                if isinstance(line, Result) and line.outcome in FAILED:
                    return _with_ending(line)
                return line
            except (ValueError, RecursionError):
                pass  # a line of another kind, or a line that only the slower reader accepts
        return decode(text.rstrip(b"\r\n"), defaults)

    return read


def _with_ending(result: Result) -> Result:
    ending = ending_by_words(result.ending, result.message)
    return result if ending == result.ending else replace(result, ending=ending)


@lru_cache(DECODERS)
def _decoder(suite: str, variant: str, process: int | None) -> Callable[[bytes], Any]:
    """Return a decoder of lines that do not contradict the first line of their file."""
    from msgspec import Meta  # noqa: PLC0415
    from msgspec.json import Decoder  # noqa: PLC0415

    defaults: dict[str, tuple[Any, Any]] = {}
    for name, value in (("suite", suite), ("variant", variant)):
        if value:
            defaults[name] = (Annotated[str, Meta(min_length=1)], value)
    number: dict[str, tuple[Any, Any]] = {}
    if process is not None:
        number["process"] = (Annotated[int, Meta(ge=process, le=process)], process)
    structs = tuple(
        _struct(
            word,
            kind,
            {**(defaults if kind in OF_UNITS else {}), **(number if kind in OF_PROCESS else {})},
        )
        for word, kind in _KINDS.items()
    )
    return Decoder(Union[structs]).decode


def _struct(word: str, kind: type[Any], defaults: dict[str, tuple[Any, Any]]) -> type[Struct]:
    """Return the struct of a kind of line: its fields in their order, strictly by the schema.

    An unknown key is refused, as msgspec would skip a value that is no JSON.
    """
    from msgspec import defstruct  # noqa: PLC0415
    from msgspec import field as struct_field  # noqa: PLC0415

    schema = LINE_SCHEMAS[kind].fields
    struct_fields: list[Any] = []
    for field, line_field in zip(fields(kind), schema, strict=True):
        if field.name in defaults:
            struct_fields.append((field.name, *defaults[field.name]))
            continue
        value = _value(cast("str", field.type), line_field)
        if field.default is None:
            value = Union[value, None]
        if field.default is not MISSING:
            struct_fields.append((field.name, value, field.default))
        elif field.default_factory is not MISSING:
            struct_fields.append((field.name, value, struct_field(default_factory=dict)))
        else:
            struct_fields.append((field.name, value))
    return defstruct(
        kind.__name__,
        struct_fields,
        namespace={"to_line": _to_line(word)},
        tag_field="type",
        tag=word,
        rename={line_field.name: line_field.json_name for line_field in schema},
        forbid_unknown_fields=True,
        gc=False,
    )


@cache
def _to_line(word: str) -> Callable[[Any], Any]:
    """Return a function that converts a struct to its line, the same class for every reader."""
    kind = _KINDS[word]
    values_of = attrgetter(*(field.name for field in fields(kind)))
    twin = mutable_twin(kind)
    names_file, names_case = kind in (Result, StartLine), kind is Result

    def to_line(struct: Any) -> Any:
        line = twin(*values_of(struct))
        # Several lines name the same unit and file. Interned, these texts take a third of the
        # memory, and dictionaries compare no characters.
        if names_file:
            line.unit = intern(line.unit)
            if line.file is not None:
                line.file = intern(line.file)
        if names_case:
            line.case = intern(line.case) if line.case else line.unit
        line.__class__ = kind
        return line

    return to_line


def _value(annotation: str, field: Field) -> Any:
    from msgspec import Meta  # noqa: PLC0415

    integer = Annotated[int, Meta(ge=0 if field.not_negative else -MAX_INTEGER, le=MAX_INTEGER)]
    # Below the limit, not equal to it: integers are rounded to floats before the comparison.
    above = {"ge": 0.0} if field.not_negative else {"gt": -MAX_INTEGER}
    number = Annotated[float, Meta(lt=MAX_INTEGER, **above)]
    mappings = {
        "Mapping[str, int]": dict[str, integer],
        "Mapping[str, float]": dict[str, number],
        "Mapping[str, str]": dict[str, str],
    }
    if annotation in mappings:
        return mappings[annotation]
    if field.allowed is not None:
        return Literal[tuple(sorted(field.allowed))]
    if field.exact is int:
        return integer
    if field.exact is float:
        return number
    return str if field.exact is str else bool
