"""The lines of a record: JSON <-> the line values of `model`; no other module reads or writes them.

A record is the file in which a shard's job writes about its tests. Unknown types and keys are
skipped; a malformed line is a `LineError`. `reader.py` reads whole files. Pure; standard library
only, Python 3.8+, because the program that runs a shard contains this module.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import MISSING, fields
from typing import Any, Callable, Final, Mapping, NamedTuple, cast

from ciguard.model import (
    ENDINGS,
    MEASURED_BY,
    OUTCOMES,
    SCHEMA,
    DefaultsLine,
    Ending,
    EndLine,
    EventLine,
    Line,
    MetricLine,
    PeakLine,
    ProcessEndLine,
    ProcessLine,
    Result,
    Runner,
    SampleLine,
    ShardLine,
    StartLine,
)
from ciguard.model.failure_texts import ending_of_failure

MAX_LINE_BYTES: Final = 1 << 20  # messages are cut at 4 KiB: a longer line is an attack
MAX_SHOWN: Final = 60  # characters of a name or value in an error
_BARE_VALUE: Final = re.compile(rb'"value"\s*:\s*([A-Za-z+-][^,}\s"\d]*)(?=[,}\s])')
MAX_INTEGER: Final = 1 << 62  # every column of the history can hold it
FAILED: Final = ("failed", "errored")
_JSON_NAME: Final[dict[str, str]] = {"try_number": "try"}


class LineError(ValueError):
    """A line that does not fit the schema; it becomes an entry of `Record.damage`."""


Check = Callable[[Any], Any]  # converts a JSON value, or raises LineError


def _typed(kind: type, name: str) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise LineError(f"expected {name}, found {value!r:.40}")
        return value

    return check


_text: Final = _typed(str, "text")
expect_object: Final = _typed(dict, "an object")
expect_list: Final = _typed(list, "a list")


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_INTEGER:
        raise LineError(f"expected an integer, found {value!r:.40}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise LineError(f"expected a number, found {value!r:.40}")
    if abs(value) > MAX_INTEGER or math.isnan(value):
        raise LineError(f"expected a number of at most {MAX_INTEGER:.1e}, found {value!r:.40}")
    return float(value)


def each(check: Check) -> Check:
    return lambda value: tuple(
        _at_place(f"[{index}]", check, item) for index, item in enumerate(expect_list(value))
    )


def by_name(check: Check) -> Check:
    """Return a check of an object whose values have one type."""
    return lambda value: {
        name: _at_place(name, check, item) for name, item in expect_object(value).items()
    }


def _at_place(position: str, check: Check, item: Any) -> Any:
    try:
        return check(item)
    except LineError as error:
        raise LineError(f"{position}: {error}") from None


def one_of(allowed: tuple[str, ...]) -> Check:
    """Return a check of a text that must be one of `allowed`."""

    def check(value: Any) -> str:
        if value not in allowed:
            raise LineError(f"expected one of {', '.join(allowed)}; found {value!r:.40}")
        return cast("str", value)

    return check


# Checks by annotation, without "| None", because null counts as an absent key.
CHECKS: Final[dict[str, Check]] = {
    "str": _text,
    "EventKind": _text,  # also a kind of another program
    "int": _integer,
    "float": _number,
    "bool": _typed(bool, "true or false"),
    "tuple[str, ...]": each(_text),
    "Mapping[str, str]": by_name(_text),
    "Mapping[str, int]": by_name(_integer),
    "Mapping[str, float]": by_name(_number),
    "Outcome": one_of(OUTCOMES),
    "Ending": one_of(ENDINGS),
    "MeasuredBy": one_of(MEASURED_BY),
}
_EXACT: Final[dict[str, Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    **dict.fromkeys(("str", "EventKind", "Outcome", "Ending", "MeasuredBy"), str),
}
_ALLOWED: Final[dict[str, frozenset[str]]] = {
    "Outcome": frozenset(OUTCOMES),
    "Ending": frozenset(ENDINGS),
    "MeasuredBy": frozenset(MEASURED_BY),
}


class Field(NamedTuple):
    """The JSON key of a dataclass field, and its allowed values."""

    name: str
    json_name: str
    check: Check
    exact: Any  # a value of exactly this type needs only a check of its range; None: always check
    default: Any  # MISSING for no default, or for a default that a factory makes
    allowed: frozenset[str] | None  # one of these texts needs no check
    not_negative: bool


class LineSchema:
    """The JSON form of a dataclass of `model`.

    Args:
        kind: the dataclass.
        checks: annotation as written in the dataclass -> check of a value. Import fails for a field
            with another annotation, so that a check must be added.
    """

    def __init__(self, kind: Callable[..., Any], checks: Mapping[str, Check]):
        self.kind = kind
        self.fields = tuple(_field(field, checks) for field in fields(cast("Any", kind)))
        self._by_json_name = {field.json_name: field for field in self.fields}
        self._required = frozenset(
            field.name
            for field in fields(cast("Any", kind))
            if field.default is MISSING and field.default_factory is MISSING
        )

    def build(self, content: Any, defaults: DefaultsLine | None = None) -> Any:
        """Build the value of a JSON object; unknown keys are skipped, and null counts as absent.

        Args:
            defaults: the first line of the file, with values for all lines about units.

        Raises:
            LineError: a key is missing or wrong; the error has the path to the key.
        """
        values: dict[str, Any] = {}
        for word, item in expect_object(content).items():
            field = self._by_json_name.get(word)
            if field is None or item is None:
                continue
            # Reading a record spends half of its time here. A correct value needs no call; NaN is
            # no correct value, by the comparison.
            exact = field.exact
            if type(item) is exact and (
                0 <= item <= MAX_INTEGER
                if exact is not str
                else field.allowed is None or item in field.allowed
            ):
                values[field.name] = item
            else:
                values[field.name] = _check_value(field, item)
        if not self._required <= values.keys():
            raise LineError(f"{min(self._required - values.keys())} is missing")
        if defaults is not None and self.kind in OF_PROCESS:
            _complete(values, defaults, has_suite=self.kind in OF_UNITS)
            if self.kind is Result and not values.get("case"):
                values["case"] = values["unit"]
        if self.kind is Result and values["outcome"] in FAILED:
            values["ending"] = ending_by_words(
                values.get("ending", "completed"), values.get("message")
            )
        return self.kind(**values)


def _field(field: Any, checks: Mapping[str, Check]) -> Field:
    annotation = field.type[: -len(" | None")] if field.type.endswith(" | None") else field.type
    return Field(
        name=field.name,
        json_name=_JSON_NAME.get(field.name, field.name),
        check=checks[annotation],
        exact=_EXACT.get(annotation),
        default=field.default,
        allowed=_ALLOWED.get(annotation),
        # Only retained memory may be negative.
        not_negative=field.name.endswith(("_s", "_ms", "_bytes"))
        and field.name != "retained_bytes"
        and not annotation.startswith("Mapping"),
    )


def _check_value(field: Field, item: Any) -> Any:
    try:
        item = field.check(item)
    except LineError as error:
        raise LineError(f"{field.json_name}: {error}") from None
    if field.not_negative and item < 0:
        raise LineError(f"{field.json_name}: expected a number >= 0, found {item!r}")
    return item


def ending_by_words(ending: Ending, message: str | None) -> Ending:
    """Return the ending of a failed case; a "completed" case gets the ending of its message."""
    return ending_of_failure("", message) if message and ending == "completed" else ending


def _complete(values: dict[str, Any], defaults: DefaultsLine, *, has_suite: bool) -> None:
    """Set process, and absent suite and variant, to the values in the first line of the file.

    The process of a line is overwritten. A copy of the finished line would take as long as reading.
    """
    if has_suite and defaults.suite and not values.get("suite"):
        values["suite"] = defaults.suite
    if has_suite and defaults.variant and not values.get("variant"):
        values["variant"] = defaults.variant
    if defaults.process is not None:
        values["process"] = defaults.process


OF_UNITS: Final = (StartLine, Result, EventLine, PeakLine)
OF_PROCESS: Final = (*OF_UNITS, MetricLine)
_RUNNER: Final = LineSchema(Runner, CHECKS)
CHECKS["Runner"] = _RUNNER.build

_LINES: Final[dict[str, Callable[..., Line]]] = {
    "shard": ShardLine,
    "defaults": DefaultsLine,
    "process": ProcessLine,
    "start": StartLine,
    "result": Result,
    "peak": PeakLine,
    "sample": SampleLine,
    "metric": MetricLine,
    "event": EventLine,
    "process_end": ProcessEndLine,
    "end": EndLine,
}
_TYPE_NAME: Final[dict[Any, str]] = {kind: word for word, kind in _LINES.items()}
LINE_SCHEMAS: Final[dict[Any, LineSchema]] = {
    Runner: _RUNNER,
    **{kind: LineSchema(kind, CHECKS) for kind in _LINES.values()},
}


def _as_json(value: Any) -> dict[str, Any]:
    """Return the JSON of a value without the fields that were not measured."""
    content: dict[str, Any] = {}
    for field in LINE_SCHEMAS[type(value)].fields:
        item = getattr(value, field.name)
        if item is None or (isinstance(item, (tuple, dict)) and not item):
            continue
        content[field.json_name] = _as_json(item) if isinstance(item, Runner) else item
    return content


def encode(line: Line) -> bytes:
    """Encode a line of a record with its line end, in ASCII (an id may have a lone surrogate)."""
    content = {"type": _TYPE_NAME[type(line)], **_as_json(line)}
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def refused_metric(text: bytes) -> str | None:
    """Return a metric line that `decode` refuses, as "hits = NaN"; None for any other line."""
    if len(text) > MAX_LINE_BYTES or b"metric" not in text:
        return None
    # Python writes NaN and Infinity, other languages nan and -inf.
    bare = _BARE_VALUE.search(text)
    try:
        content = json.loads(_BARE_VALUE.sub(b'"value":null', text) if bare else text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("type") != "metric":
        return None
    value = bare[1].decode("utf-8", "replace") if bare else json.dumps(content.get("value"))
    name = content.get("name")
    label = name[:MAX_SHOWN] if isinstance(name, str) else "a metric without a name"
    return f"{label} = {value[:MAX_SHOWN]}"


def _refuse_constant(text: str) -> float:
    raise LineError(f"{text} is not a number that can be measured")


# Created once, because json.loads with a parse_constant creates a decoder for each line.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def _parse_json(text: bytes) -> Any:
    """Parse a line as JSON.

    Raises:
        LineError: the line is no JSON.
    """
    try:
        line = text.strip(b" \t\r\n").decode("utf-8", "surrogatepass")
        # `decode` would spend a sixth of its time on the search for blanks.
        content, end = _DECODER.raw_decode(line)
    except (ValueError, RecursionError) as error:
        if isinstance(error, LineError):
            raise
        raise LineError("no JSON") from None
    if end != len(line):
        raise LineError("no JSON")
    return content


def decode(text: bytes, defaults: DefaultsLine | None = None) -> Line | None:
    """Read a line without its line end; return None for an unknown type.

    Args:
        defaults: the first line of the file, with values for all lines; None for no defaults.

    Raises:
        LineError: the line is no JSON object with a type, or a value has the wrong type.
    """
    if len(text) > MAX_LINE_BYTES:
        raise LineError(f"{len(text)} bytes in one line, {MAX_LINE_BYTES} are allowed")
    content = _parse_json(text)
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise LineError("no object with a type")
    kind = _LINES.get(content["type"])
    if kind is None:
        return None
    line = cast("Line", LINE_SCHEMAS[kind].build(content, defaults))
    if isinstance(line, ShardLine) and line.schema > SCHEMA:
        raise LineError(f"schema {line.schema} is newer than {SCHEMA}: update ciguard")
    return line
