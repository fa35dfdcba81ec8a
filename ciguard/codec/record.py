"""A record: JSON Lines <-> the line values of `model.py`. The one reader and the one writer.

A record is appended to by programs that get killed, and comes from machines nobody trusts, so the
reader accepts a file cut at any byte, skips types and keys it does not know, and turns every line
that is not what it should be into one entry of `Record.damage`; it raises nothing. Pure; standard
library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from dataclasses import MISSING, dataclass, fields, replace
from typing import (
    Any,
    Callable,
    Final,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    cast,
)

from ciguard.model import (
    ENDINGS,
    MEASURED_BY,
    OUTCOMES,
    SCHEMA,
    DefaultsLine,
    EndLine,
    EventLine,
    Line,
    MetricLine,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    Runner,
    SampleLine,
    ShardLine,
    StartLine,
)

MAX_LINE_BYTES: Final = 1 << 20  # a message is cut at 4 KiB when written: longer is an attack
MAX_INTEGER: Final = 1 << 62  # what every column of the history can hold
MAX_DAMAGE: Final = 20  # places named in one file; a file of garbage is one finding, not a million
_WORD_FOR: Final[dict[str, str]] = {"try_number": "try"}


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


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise LineError(f"expected a list of texts, found {value!r:.40}")
    return tuple(_text(item) for item in value)


def _text_by_text(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise LineError(f"expected an object, found {value!r:.40}")
    return {_text(key): _text(item) for key, item in value.items()}


def _integer_by_text(value: Any) -> Mapping[str, int]:
    if not isinstance(value, dict):
        raise LineError(f"expected an object, found {value!r:.40}")
    return {_text(key): _integer(item) for key, item in value.items()}


def _one_of(words: tuple[str, ...]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in words:
            raise LineError(f"expected one of {', '.join(words)}; found {value!r:.40}")
        return cast("str", value)

    return check


def flag(value: Any) -> bool:
    """Check a truth value. Raises LineError."""
    if not isinstance(value, bool):
        raise LineError(f"expected true or false, found {value!r:.40}")
    return value


CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "str": _text,
    "str | None": _text,
    "int": _integer,
    "int | None": _integer,
    "float": _number,
    "float | None": _number,
    "bool | None": flag,
    "tuple[str, ...]": _texts,
    "Mapping[str, str]": _text_by_text,
    "Mapping[str, int]": _integer_by_text,
    "Outcome": _one_of(OUTCOMES),
    "Ending": _one_of(ENDINGS),
    "MeasuredBy | None": _one_of(MEASURED_BY),
}


class _Field(NamedTuple):
    name: str
    word: str
    check: Callable[[Any], Any]
    exact: Any  # a value of this very type needs no check but its range; None: always check
    words: frozenset[str] | None  # a text of these needs none either
    not_negative: bool


_EXACT: Final[dict[str, Any]] = {
    "str": str,
    "str | None": str,
    "int": int,
    "int | None": int,
    "float": float,
    "float | None": float,
    "Outcome": str,
    "Ending": str,
    "MeasuredBy | None": str,
}
_WORDS: Final[dict[str, frozenset[str]]] = {
    "Outcome": frozenset(OUTCOMES),
    "Ending": frozenset(ENDINGS),
    "MeasuredBy | None": frozenset(MEASURED_BY),
}


class Shape:
    """How one dataclass of `model.py` stands in JSON.

    Args:
        kind: the dataclass.
        checks: annotation as written in model.py -> what reads a value of that type or raises
            LineError. A field of a type that is not there fails here, on import, so that somebody
            decides how it is read.
    """

    def __init__(self, kind: Callable[..., Any], checks: Mapping[str, Callable[[Any], Any]]):
        self.kind = kind
        self.fields = tuple(
            _Field(
                name=field.name,
                word=_WORD_FOR.get(field.name, field.name),
                check=checks[cast("str", field.type)],
                exact=_EXACT.get(cast("str", field.type)),
                words=_WORDS.get(cast("str", field.type)),
                # Only what a test leaves behind may be less than nothing.
                not_negative=field.name.endswith(("_s", "_bytes"))
                and field.name != "retained_bytes"
                and not cast("str", field.type).startswith("Mapping"),
            )
            for field in fields(cast("Any", kind))
        )
        self._by_word = {field.word: field for field in self.fields}
        self._required = frozenset(
            field.name
            for field in fields(cast("Any", kind))
            if field.default is MISSING and field.default_factory is MISSING
        )

    def build(self, content: Any) -> Any:
        """The value that a JSON object says; unknown keys are skipped, null is an absent key.

        Raises:
            LineError: with the path to the key that is missing or wrong.
        """
        if not isinstance(content, dict):
            raise LineError(f"expected an object, found {content!r:.40}")
        values: dict[str, Any] = {}
        for word, item in content.items():
            field = self._by_word.get(word)
            if field is None or item is None:
                continue
            # Half of the time of reading a record is spent here: what is as it should be (NaN is
            # not, by the comparison) pays for no call.
            exact = field.exact
            if type(item) is exact and (
                0 <= item <= MAX_INTEGER
                if exact is not str
                else field.words is None or item in field.words
            ):
                values[field.name] = item
            else:
                values[field.name] = _checked(field, item)
        if not self._required <= values.keys():
            raise LineError(f"{min(self._required - values.keys())} is missing")
        return self.kind(**values)


def _checked(field: _Field, item: Any) -> Any:
    try:
        item = field.check(item)
    except LineError as error:
        raise LineError(f"{field.word}: {error}") from None
    if field.not_negative and item < 0:
        raise LineError(f"{field.word}: expected a number >= 0, found {item!r}")
    return item


_RUNNER: Final = Shape(Runner, CHECKS)
CHECKS["Runner"] = _RUNNER.build

_LINES: Final[dict[str, Callable[..., Line]]] = {
    "shard": ShardLine,
    "defaults": DefaultsLine,
    "process": ProcessLine,
    "start": StartLine,
    "result": Result,
    "sample": SampleLine,
    "metric": MetricLine,
    "event": EventLine,
    "process_end": ProcessEndLine,
    "end": EndLine,
}
_WORD_OF: Final[dict[Any, str]] = {kind: word for word, kind in _LINES.items()}
_SHAPES: Final[dict[Any, Shape]] = {
    Runner: _RUNNER,
    **{kind: Shape(kind, CHECKS) for kind in _LINES.values()},
}


def _as_json(value: Any) -> dict[str, Any]:
    """The fields that say something: what was not measured is left out, never null or 0."""
    found: dict[str, Any] = {}
    for field in _SHAPES[type(value)].fields:
        item = getattr(value, field.name)
        if item is None or (isinstance(item, (tuple, dict)) and not item):
            continue
        found[field.word] = _as_json(item) if isinstance(item, Runner) else item
    return found


def encode(line: Line) -> bytes:
    """One line of a record, with its end of line, in ASCII (an id may hold a lone surrogate)."""
    content = {"type": _WORD_OF[type(line)], **_as_json(line)}
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _refuse_constant(text: str) -> float:
    raise LineError(f"{text} is not a number that can be measured")


# Made once: json.loads would make one for each line that it is given a parse_constant for.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def decode(text: bytes) -> Line | None:
    """Read one line without its end; None for a type that this schema does not know.

    Raises:
        LineError: it is no JSON object with a type, or a value is not what its key says.
    """
    if len(text) > MAX_LINE_BYTES:
        raise LineError(f"{len(text)} bytes in one line, {MAX_LINE_BYTES} are allowed")
    try:
        content = _DECODER.decode(text.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, LineError):
            raise
        raise LineError("no JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise LineError("no object with a type")
    kind = _LINES.get(content["type"])
    if kind is None:
        return None
    line = cast("Line", _SHAPES[kind].build(content))
    if isinstance(line, ShardLine) and line.schema > SCHEMA:
        raise LineError(f"schema {line.schema} is newer than {SCHEMA}: update ciguard")
    return line


# --- Files -> records ----------------------------------------------------------------------------

# (plan id, shard, run id, run attempt, folder); the folder only where a leg knew nothing else.
_Identity = Tuple[str, str, Optional[int], Optional[int], str]


class _File(NamedTuple):
    """A file's lines, each with the leg that was named above it (None: no leg yet)."""

    source: str
    folder: str
    lines: list[tuple[_Identity | None, Line]]
    legs: list[_Identity]
    damage: list[str]


def _decoded(source: str, content: bytes, damage: list[str]) -> Iterator[Line]:
    """Decode a file; what cannot be read is named in `damage`, and reading goes on behind it."""
    if not content:
        damage.append(f"{source}: empty")
    wrong = 0
    # Programs on Windows begin a file with a byte order mark; the first line says whose it is.
    pieces = content[len(BOM_UTF8) * content.startswith(BOM_UTF8) :].split(b"\n")
    for number, piece in enumerate(pieces, 1):
        if not piece.strip():
            continue
        try:
            line = decode(piece)
        except LineError as error:
            wrong += 1
            if wrong <= MAX_DAMAGE:
                what = "cut" if number == len(pieces) else str(error)
                damage.append(f"{source}:{number}: {what}")
            continue
        if line is not None:
            yield line
    if wrong > MAX_DAMAGE:
        damage.append(f"{source}: {wrong - MAX_DAMAGE} more lines that cannot be read")


def with_defaults(line: Line, defaults: DefaultsLine) -> Line:
    """Fill what a program left out because the first line of its file says it."""
    if not isinstance(line, (StartLine, Result, EventLine)):
        return line
    changes: dict[str, Any] = {}
    if isinstance(line, Result) and not line.case:
        changes["case"] = line.unit
    if not line.suite and defaults.suite:
        changes["suite"] = defaults.suite
    if not line.variant and defaults.variant:
        changes["variant"] = defaults.variant
    if line.process is None and defaults.process is not None:
        changes["process"] = defaults.process
    return replace(line, **changes) if changes else line


def _identity(line: Any, folder: str) -> _Identity:
    named = (line.plan_id, line.shard, line.run_id, line.run_attempt)
    return (*named, folder if named == ("", "", None, None) else "")


def _read_file(source: str, content: bytes) -> _File:
    file = _File(source, source.rpartition("/")[0], [], [], [])
    leg: _Identity | None = None
    defaults = DefaultsLine()
    for line in _decoded(source, content, file.damage):
        if isinstance(line, (ShardLine, DefaultsLine)):
            leg = _identity(line, file.folder)
            file.legs.append(leg)
            defaults = line if isinstance(line, DefaultsLine) else DefaultsLine()
        if not isinstance(line, DefaultsLine):
            file.lines.append((leg, with_defaults(line, defaults)))
    return file


def _owners(files: list[_File]) -> Iterator[tuple[_File, _Identity | None]]:
    """Say for each file whose its unnamed lines and its damage are.

    The first leg that the file names; else the only one that its folder names; else the only one
    named at all; else nobody's.
    """
    in_folder: dict[str, list[_Identity]] = {}
    for file in files:
        in_folder.setdefault(file.folder, []).extend(file.legs)
    everywhere = {leg for legs in in_folder.values() for leg in legs}
    for file in files:
        near = set(in_folder[file.folder])
        if file.legs:
            yield file, file.legs[0]
        elif len(near) == 1:
            yield file, near.pop()
        elif not near and len(everywhere) == 1:
            yield file, next(iter(everywhere))
        else:
            yield file, None


@dataclass
class _Gathering:
    """The lines of one leg while its files are read."""

    source: str
    lines: list[Line]
    damage: list[str]

    def record(self) -> Record:
        by_kind: dict[Any, list[Any]] = {kind: [] for kind in _WORD_OF}
        for line in self.lines:
            by_kind[type(line)].append(line)
        headers = by_kind[ShardLine]
        if len(set(map(repr, headers))) > 1:
            self.damage.append(f"{self.source}: {len(headers)} shard lines that differ")
        return Record(
            source=self.source,
            header=headers[0] if headers else None,
            processes=tuple(by_kind[ProcessLine]),
            starts=tuple(by_kind[StartLine]),
            results=tuple(by_kind[Result]),
            samples=tuple(by_kind[SampleLine]),
            metrics=tuple(by_kind[MetricLine]),
            events=tuple(by_kind[EventLine]),
            process_ends=tuple(by_kind[ProcessEndLine]),
            end=by_kind[EndLine][-1] if by_kind[EndLine] else None,
            damage=tuple(self.damage),
        )


def read_records(files: Iterable[tuple[str, bytes]]) -> tuple[Record, ...]:
    """Join files into the records of the legs that wrote them.

    A line belongs to the last `shard` or `defaults` line above it in its file, else where `_owners`
    says. Folder and file names say nothing about a leg's identity.

    Args:
        files: (path with "/" as separator, content), in any order.

    Returns:
        Records sorted by identity, then source; lines in the order of sorted paths.
    """
    legs: dict[Any, _Gathering] = {}

    def leg_of(identity: _Identity | None, file: _File) -> _Gathering:
        # What nobody claims stays together by folder: one record without a header each.
        key = identity if identity is not None else file.folder
        return legs.setdefault(key, _Gathering(file.source, [], []))

    parsed = [_read_file(source, content) for source, content in sorted(files)]
    for file, owner in _owners(parsed):
        leg_of(owner, file).damage.extend(file.damage)
        for identity, line in file.lines:
            leg_of(identity or owner, file).lines.append(line)
    records = [gathering.record() for gathering in legs.values()]
    return tuple(sorted(records, key=_by_identity))


def _by_identity(record: Record) -> tuple[str, str, int, int, str]:
    header = record.header or ShardLine()
    return (
        header.plan_id,
        header.shard,
        header.run_id or 0,
        header.run_attempt or 0,
        record.source,
    )
