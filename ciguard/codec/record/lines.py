"""A record's lines: JSON <-> the line values of `model`. The one reader and the one writer.

Types and keys that this schema does not know are skipped; a line that is not what it should be is
a `LineError`. `reader.py` reads whole files. Pure; standard library only, Python 3.8+ (travels
in the leg).
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

MAX_LINE_BYTES: Final = 1 << 20  # a message is cut at 4 KiB when written: longer is an attack
MAX_SHOWN: Final = 60  # characters of a name, and of a value, that cannot be read
_BARE_VALUE: Final = re.compile(rb'"value"\s*:\s*([A-Za-z+-][^,}\s"\d]*)(?=[,}\s])')
MAX_INTEGER: Final = 1 << 62  # what every column of the history can hold
FAILED: Final = ("failed", "errored")
_JSON_NAME: Final[dict[str, str]] = {"try_number": "try"}


class LineError(ValueError):
    """A line that is no line of this schema; becomes an entry of `Record.damage`."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise LineError(f"expected text, found {value!r:.40}")
    return value


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


def expect_object(value: Any) -> dict[str, Any]:
    """Check an object. Raises LineError."""
    if not isinstance(value, dict):
        raise LineError(f"expected an object, found {value!r:.40}")
    return value


def expect_list(value: Any) -> list[Any]:
    """Check a list. Raises LineError."""
    if not isinstance(value, list):
        raise LineError(f"expected a list, found {value!r:.40}")
    return value


Check = Callable[[Any], Any]  # gives the value that JSON says, or raises LineError


def each(check: Check) -> Check:
    """Check a list of values."""
    return lambda value: tuple(
        _at_place(f"[{index}]", check, item) for index, item in enumerate(expect_list(value))
    )


def by_name(check: Check) -> Check:
    """Check an object of values of one kind."""
    return lambda value: {
        name: _at_place(name, check, item) for name, item in expect_object(value).items()
    }


def _at_place(place: str, check: Check, item: Any) -> Any:
    try:
        return check(item)
    except LineError as error:
        raise LineError(f"{place}: {error}") from None


def one_of(allowed: tuple[str, ...]) -> Check:
    """Check a text that is one of a few."""

    def check(value: Any) -> str:
        if value not in allowed:
            raise LineError(f"expected one of {', '.join(allowed)}; found {value!r:.40}")
        return cast("str", value)

    return check


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise LineError(f"expected true or false, found {value!r:.40}")
    return value


# By annotation, without "| None": null is an absent key.
CHECKS: Final[dict[str, Check]] = {
    "str": _text,
    "EventKind": _text,  # also one that another program made up
    "int": _integer,
    "float": _number,
    "bool": _flag,
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
    """How one field of a dataclass stands in JSON, and what its values may be."""

    name: str
    json_name: str
    check: Check
    exact: Any  # a value of this very type needs no check but its range; None: always check
    default: Any  # MISSING where there is none, or one is made for each value
    allowed: frozenset[str] | None  # a text of these needs none either
    not_negative: bool


class LineSchema:
    """How one dataclass of `model` stands in JSON.

    Args:
        kind: the dataclass.
        checks: annotation as written there -> what reads a value of that type or raises
            LineError. A field of a type that is not there fails here, on import, so that somebody
            decides how it is read.
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
        """The value that a JSON object says; unknown keys are skipped, null is an absent key.

        Args:
            defaults: for a line about a unit, what the first line of its file says of them all.

        Raises:
            LineError: with the path to the key that is missing or wrong.
        """
        values: dict[str, Any] = {}
        for word, item in expect_object(content).items():
            field = self._by_json_name.get(word)
            if field is None or item is None:
                continue
            # Half of the time of reading a record is spent here: what is as it should be (NaN is
            # not, by the comparison) pays for no call.
            exact = field.exact
            if type(item) is exact and (
                0 <= item <= MAX_INTEGER
                if exact is not str
                else field.allowed is None or item in field.allowed
            ):
                values[field.name] = item
            else:
                values[field.name] = _checked(field, item)
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
        # Only what a test leaves behind may be less than nothing.
        not_negative=field.name.endswith(("_s", "_ms", "_bytes"))
        and field.name != "retained_bytes"
        and not annotation.startswith("Mapping"),
    )


def _checked(field: Field, item: Any) -> Any:
    try:
        item = field.check(item)
    except LineError as error:
        raise LineError(f"{field.json_name}: {error}") from None
    if field.not_negative and item < 0:
        raise LineError(f"{field.json_name}: expected a number >= 0, found {item!r}")
    return item


def ending_by_words(ending: Ending, message: str | None) -> Ending:
    """The ending of a failed case: by its words, as in a result file, where it says no other."""
    return ending_of_failure("", message) if message and ending == "completed" else ending


def _complete(values: dict[str, Any], defaults: DefaultsLine, *, has_suite: bool) -> None:
    """Fill what a program left out; the process is the first line's, whatever a later one claims.

    Here and not in the line made of it: to copy that takes as long as to read it.
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
    """The fields that say something: what was not measured is left out, never null or 0."""
    found: dict[str, Any] = {}
    for field in LINE_SCHEMAS[type(value)].fields:
        item = getattr(value, field.name)
        if item is None or (isinstance(item, (tuple, dict)) and not item):
            continue
        found[field.json_name] = _as_json(item) if isinstance(item, Runner) else item
    return found


def encode(line: Line) -> bytes:
    """One line of a record, with its end of line, in ASCII (an id may hold a lone surrogate)."""
    content = {"type": _TYPE_NAME[type(line)], **_as_json(line)}
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def refused_metric(text: bytes) -> str | None:
    """What a line of a metric says that `decode` refuses, such as "hits = NaN"; nothing else is
    lost with it.

    Returns:
        None of any other line, and of one that is cut.
    """
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
    said = bare[1].decode("utf-8", "replace") if bare else json.dumps(content.get("value"))
    name = content.get("name")
    named = name[:MAX_SHOWN] if isinstance(name, str) else "a metric without a name"
    return f"{named} = {said[:MAX_SHOWN]}"


def _refuse_constant(text: str) -> float:
    raise LineError(f"{text} is not a number that can be measured")


# Made once: json.loads would make one for each line that it is given a parse_constant for.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def _parsed(text: bytes) -> Any:
    """What a line says as JSON.

    Raises:
        LineError: it is none.
    """
    try:
        whole = text.strip(b" \t\r\n").decode("utf-8", "surrogatepass")
        # Not `decode`, which searches for blanks around: that takes a sixth of its time.
        content, end = _DECODER.raw_decode(whole)
    except (ValueError, RecursionError) as error:
        if isinstance(error, LineError):
            raise
        raise LineError("no JSON") from None
    if end != len(whole):
        raise LineError("no JSON")
    return content


def decode(text: bytes, defaults: DefaultsLine | None = None) -> Line | None:
    """Read one line without its end; None for a type that this schema does not know.

    Args:
        defaults: what the first line of its file says of them all; None: read it as it stands.

    Raises:
        LineError: it is no JSON object with a type, or a value is not what its key says.
    """
    if len(text) > MAX_LINE_BYTES:
        raise LineError(f"{len(text)} bytes in one line, {MAX_LINE_BYTES} are allowed")
    content = _parsed(text)
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise LineError("no object with a type")
    kind = _LINES.get(content["type"])
    if kind is None:
        return None
    line = cast("Line", LINE_SCHEMAS[kind].build(content, defaults))
    if isinstance(line, ShardLine) and line.schema > SCHEMA:
        raise LineError(f"schema {line.schema} is newer than {SCHEMA}: update ciguard")
    return line
