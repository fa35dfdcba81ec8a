"""Reading many lines of a record fast. Pure.

`lines.decode` decides what a line says. msgspec reads the kinds of line that grow with a run, eight
times as fast; a line that msgspec refuses, for whatever reason, is read by `decode`.
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

FAST_READER_FROM_BYTES: Final = 1 << 20  # below, to import msgspec takes longer than it saves
DECODERS: Final = 64  # cached: the files of one leg say a handful of different defaults
# All that there are many of; of the others a leg or a process has one.
_KINDS: Final[dict[str, type[Any]]] = {
    "result": Result,
    "start": StartLine,
    "sample": SampleLine,
    "peak": PeakLine,
    "event": EventLine,
    "metric": MetricLine,
}


def reader(defaults: DefaultsLine, *, is_large: bool) -> Read:
    """What reads the lines of a file; each says, or raises, what `lines.decode` does.

    Args:
        defaults: what the first line of the file says of them all.
        is_large: there is so much to read, in all files, that msgspec pays.
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
                pass  # a line of another kind, or one that only the slower reader understands
        return decode(text.rstrip(b"\r\n"), defaults)

    return read


def _with_ending(result: Result) -> Result:
    ending = ending_by_words(result.ending, result.message)
    return result if ending == result.ending else replace(result, ending=ending)


@lru_cache(DECODERS)
def _decoder(suite: str, variant: str, process: int | None) -> Callable[[bytes], Any]:
    """What takes a line that does not contradict its file's first line."""
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
    """The struct of a kind of line: its fields in their order, strictly as the schema has them.

    An unknown key is refused, for msgspec would pass over a value that is no JSON.
    """
    from msgspec import defstruct  # noqa: PLC0415
    from msgspec import field as struct_field  # noqa: PLC0415

    schema = LINE_SCHEMAS[kind].fields
    found: list[Any] = []
    for field, how in zip(fields(kind), schema, strict=True):
        if field.name in defaults:
            found.append((field.name, *defaults[field.name]))
            continue
        value = _value(cast("str", field.type), how)
        if field.default is None:
            value = Union[value, None]
        if field.default is not MISSING:
            found.append((field.name, value, field.default))
        elif field.default_factory is not MISSING:
            found.append((field.name, value, struct_field(default_factory=dict)))
        else:
            found.append((field.name, value))
    return defstruct(
        kind.__name__,
        found,
        namespace={"to_line": _to_line(word)},
        tag_field="type",
        tag=word,
        rename={how.name: how.json_name for how in schema},
        forbid_unknown_fields=True,
        gc=False,
    )


@cache
def _to_line(word: str) -> Callable[[Any], Any]:
    """What makes a line of its struct, so that every reader yields the same classes."""
    kind = _KINDS[word]
    values_of = attrgetter(*(field.name for field in fields(kind)))
    twin = mutable_twin(kind)
    names_file, names_case = kind in (Result, StartLine), kind is Result

    def to_line(struct: Any) -> Any:
        line = twin(*values_of(struct))
        # A unit is named by its start, its result and its case, a file by each of its units: as one
        # object they take a third of the memory, and dictionaries of them compare no text.
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
    # Below the limit, not at it: it is compared after an integer was rounded to a float.
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
