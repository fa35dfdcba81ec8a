"""The history file: results of past runs as columns of numbers, and their encoding in bytes.

    ciguard-history 2 <sha256 of the rest, hex>\n
    <one line of JSON: numbers of keys and values, and name, sizes and form of each section>\n
    <the sections>

A key names a case: suite, variant, unit and case. A value is the result of one case in one run. The
values of a key are its series, and `series_starts` are the positions of the series' first values.
Times are stored in whole microseconds and sizes in whole bytes, so that decimals are read back
unchanged. Equal histories give equal bytes for any order of adding their runs (with the same build
of zlib, as another build may compress to other bytes). Pure.

A reader skips unknown sections, and unknown keys of runs, legs and metrics. A program that adds a
run to such a file drops them. An unknown word of a code column becomes that of `UNKNOWN_WORD`; an
unknown outcome is refused, because it may be a failure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from operator import attrgetter, lt
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.columns import LARGEST, CorruptData, Integers, Reader, Writer
from ciguard.codec.record.lines import LineError
from ciguard.codec.results.base import ExternalName
from ciguard.errors import InputError
from ciguard.history.metric_series import MetricSeries, series_of_json
from ciguard.history.runs import HistoryRun, runs_as_json, runs_of_json
from ciguard.model import ENDINGS, MEASURED_BY, OUTCOMES, STANDINGS, CaseKey, Result

HISTORY_SCHEMA: Final = 2
# Values of a key: enough for a baseline. Older values were measured on an older program.
VALUES_PER_KEY: Final = 20
MAX_KEYS: Final = 5_000_000
MAX_HEAD_BYTES: Final = 1 << 16  # of each line before the sections
FILE_NAME: Final = "history.ciguard"

SECONDS: Final = ("wall_s", "cpu_s", "setup_s")
BOUNDS: Final = ("peak_lower_bytes", "peak_upper_bytes")
BYTES: Final = ("peak_delta_bytes", *BOUNDS, "retained_bytes", "gpu_peak_bytes")
MEASURES: Final = (*SECONDS, *BYTES)
CODES: Final = ("outcome", "ending", "measured_by", "standing", "try_number")
POSITION_COLUMNS: Final = ("key", "run", "leg")
# Counts of the values before the last `VALUES_PER_KEY` of a key: all, skipped, failed; time of the
# first run; time and id of the last run in which the case passed. Times are whole seconds since the
# epoch. 0 is none, or unknown.
OLDER: Final = (
    *("older_values", "older_skipped", "older_failures"),
    *("older_first_at", "older_passed_at", "older_passed_run"),
)
_Small = TypeVar("_Small", np.int32, np.uint8)
_PER_SECOND: Final = 1_000_000
_REFUSED_CODE: Final = 255  # for an unknown word that must not be replaced
_MAGIC: Final = b"ciguard-history "
_ONE_SERIES: Final = np.zeros(1, np.int64)  # a column whose neighbours are alike
# The columns of `CODES` that represent words: a code is the index of its word. "" is unknown, such
# as the outcome of a test in a file of durations.
CODE_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "outcome": ("", *OUTCOMES),
    "ending": ("", *ENDINGS),
    "measured_by": ("", *MEASURED_BY),
    "standing": ("", *STANDINGS),
}
CODE: Final[Mapping[str, Mapping[str | None, int]]] = {
    name: {word or None: code for code, word in enumerate(words)}
    for name, words in CODE_NAMES.items()
}
# Substitutes for words outside of `CODE_NAMES`. An unknown ending may be one that cuts the value.
UNKNOWN_WORD: Final = {"ending": "unknown", "measured_by": "", "standing": ""}


class DamagedHistory(InputError):
    """A history file that was cut, changed, or made by another program."""


class NotAHistory(DamagedHistory):
    """A file that does not begin like a history file, and may be of any other kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """One row for each case in each run, as columns of equal length, sorted by (`key`, `run`).

    `key` and `run` are indices into the history's keys and runs; `leg` is an index into the legs of
    this run. Outcome, ending, `measured_by` and `standing` are indices into `CODE_NAMES`. Measures
    are float64, NaN if not measured (never 0); sizes are whole numbers.
    """

    key: NDArray[np.int32]
    run: NDArray[np.int32]
    leg: NDArray[np.int32]
    outcome: NDArray[np.uint8]
    ending: NDArray[np.uint8]
    measured_by: NDArray[np.uint8]
    standing: NDArray[np.uint8]
    try_number: NDArray[np.uint8]  # 255 stands for 255 and more
    wall_s: NDArray[np.float64]
    cpu_s: NDArray[np.float64]
    setup_s: NDArray[np.float64]
    peak_delta_bytes: NDArray[np.float64]
    peak_lower_bytes: NDArray[np.float64]
    peak_upper_bytes: NDArray[np.float64]
    retained_bytes: NDArray[np.float64]
    gpu_peak_bytes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.key)

    def columns(self) -> dict[str, NDArray[Any]]:
        return {column.name: getattr(self, column.name) for column in fields(self)}

    def rows(self, part: slice) -> Values:
        """Return a range of rows, without a copy."""
        return Values(**{name: column[part] for name, column in self.columns().items()})


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Past runs with their results. Two histories are equal if their `encode`d bytes are.

    `runs` are sorted by `HistoryRun.order`, `keys` as tuples; every key has a value.
    `external_names` contains only keys that came from files of other programs. `metrics` are sorted
    by `MetricSeries.identity`. `older` has a row for each of `OLDER` and a column for each key; it
    is None if no key lost a value.
    """

    values: Values
    runs: tuple[HistoryRun, ...] = ()
    keys: tuple[CaseKey, ...] = ()
    external_names: Mapping[CaseKey, ExternalName] = field(default_factory=dict)
    metrics: tuple[MetricSeries, ...] = ()
    older: Integers | None = None

    @property
    def run_positions(self) -> dict[int, int]:
        """Return the index of each run, by its id."""
        return {run.run_id: position for position, run in enumerate(self.runs)}


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """The bytes in a store, None before the first write, and the version that a write replaces."""

    content: bytes | None
    version: str = ""


def unmeasured(count: int) -> NDArray[np.float64]:
    """Return a column of NaN that takes no memory."""
    return np.broadcast_to(np.float64(np.nan), (count,))


def is_unmeasured(column: NDArray[Any]) -> bool:
    """Return whether a column was made by `unmeasured`: a repeated NaN that takes no memory.

    The stride alone does not decide, because other columns of one repeated value are stored alike.
    """
    return column.strides == (0,) and bool(np.isnan(column[:1]).all())


def numbers_of(name: str, results: Sequence[Result]) -> list[float | None]:
    """Return an attribute of each result; bounds of a peak as bounds of the delta, if known."""
    numbers = list(map(attrgetter(name), results))
    if name not in BOUNDS or not has_any(numbers):
        return numbers
    return [_bound(name, result) for result in results]


def has_any(numbers: list[float | None]) -> bool:
    return numbers.count(None) < len(numbers)


def _bound(name: str, result: Result) -> float | None:
    size, before = getattr(result, name), result.rss_before_bytes
    # A lower bound that concurrent units share is no bound of a single unit.
    is_shared = name == "peak_lower_bytes" and (result.concurrent or 1) > 1
    return None if size is None or before is None or is_shared else max(0, size - before)


def of_columns(columns: Mapping[str, NDArray[Any]]) -> Values:
    """Make rows of columns by name; missing measures and standings are unknown."""
    count = len(columns["key"])
    unknown = {"standing": np.broadcast_to(np.uint8(0), (count,))}
    return Values(**unknown | {name: unmeasured(count) for name in MEASURES} | dict(columns))


def no_values() -> Values:
    """Return columns without rows."""
    positions = {name: np.zeros(0, np.int32) for name in POSITION_COLUMNS}
    return of_columns({**positions, **{name: np.zeros(0, np.uint8) for name in CODES}})


def empty() -> History:
    """Return the history before the first run."""
    return History(no_values())


def _put_measure(
    writer: Writer, name: str, column: NDArray[np.float64], series_starts: Integers
) -> None:
    scale = _PER_SECOND if name in SECONDS else 1
    measured = ~np.isnan(column)
    if not measured.any():
        return
    numbers = column
    if not measured.all():
        writer.flags(f"{name}.measured", measured)
        # Each unmeasured row repeats the last measured value. The writer stores differences, so
        # that neither this row nor the next one takes bytes.
        last_measured = np.maximum.accumulate(np.where(measured, np.arange(len(column)), 0))
        numbers = np.nan_to_num(column[last_measured], nan=0.0)
    writer.integers(name, np.rint(numbers * scale).astype(np.int64), series_starts)


def _put_keys(writer: Writer, history: History) -> None:
    suite_key_of_case = [key[:2] for key in history.keys]
    suite_keys = sorted(set(suite_key_of_case))
    positions = {suite_key: position for position, suite_key in enumerate(suite_keys)}
    writer.blob("suite_keys", _json(suite_keys))
    indices = map(positions.__getitem__, suite_key_of_case)
    writer.integers("suite_key", np.fromiter(indices, np.int64, len(history.keys)))
    writer.texts("unit", [key.unit for key in history.keys])
    writer.optional_texts("case", [None if key[3] == key[2] else key[3] for key in history.keys])
    if history.external_names:
        names = [history.external_names.get(key, ExternalName()) for key in history.keys]
        for part, texts in zip(ExternalName._fields, zip(*names, strict=True), strict=True):
            writer.optional_texts(part, texts)


def _json(content: Any) -> bytes:
    # ASCII, because an id may contain a lone surrogate, which UTF-8 cannot encode.
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


def encode(history: History) -> bytes:
    """Encode a history file, O(values): 0.6 s for 2,000,000 values of 100,000 keys.

    Raises:
        InputError: there are more keys than a reader accepts.
    """
    if len(history.keys) > MAX_KEYS:
        what = f"{len(history.keys)} cases, at most {MAX_KEYS} are kept"
        raise InputError(what, where="history", fix="look for ids that change from run to run")
    writer = Writer()
    values = history.values
    writer.blob("runs", _json(runs_as_json(history.runs)))
    if history.metrics:
        writer.blob("metrics", _json(list(map(asdict, history.metrics))))
    _put_keys(writer, history)
    counts = np.bincount(values.key, minlength=len(history.keys)).astype(np.int64)
    series_starts = np.cumsum(counts) - counts
    writer.integers("count", counts)
    for name in ("run", "leg", *CODES):
        writer.integers(name, getattr(values, name).astype(np.int64), series_starts)
    for name in MEASURES:
        _put_measure(writer, name, getattr(values, name), series_starts)
    if history.older is not None:
        for name, numbers in zip(OLDER, history.older, strict=True):
            writer.integers(name, numbers, _ONE_SERIES)
    head = {
        "keys": len(history.keys),
        "values": len(values),
        "words": {name: words[1:] for name, words in CODE_NAMES.items()},
        "sections": writer.index,
    }
    rest = _json(head) + b"\n" + b"".join(writer.body)
    return b"%s%d %s\n%s" % (
        _MAGIC,
        HISTORY_SCHEMA,
        hashlib.sha256(rest).hexdigest().encode(),
        rest,
    )


def _size(head: Any, name: str, largest: int) -> int:
    value = head.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise CorruptData(f"{name} is {value!r:.40}, at most {largest} are allowed")
    return value


def _sections(head: Any, body: memoryview) -> Reader:
    index = head.get("sections")
    if not isinstance(index, list):
        raise CorruptData("no list of sections")
    sections: dict[str, tuple[Mapping[str, Any], memoryview]] = {}
    start = 0
    for entry in index:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise CorruptData("a section without a name")
        size = _size({"bytes": 0, **entry}, "bytes", len(body) - start)
        sections[entry["name"]] = (entry, body[start : start + size])
        start += size
    if start != len(body):
        raise CorruptData(f"{len(body) - start} bytes that belong to no section")
    return Reader(sections)


def _keys(reader: Reader, count: int) -> tuple[CaseKey, ...]:
    suite_keys = reader.json("suite_keys")
    if not isinstance(suite_keys, list) or not all(
        isinstance(suite_key, list) and [type(text) for text in suite_key] == [str, str]
        for suite_key in suite_keys
    ):
        raise CorruptData("suite_keys is no list of suites and variants")
    suite_key = reader.integers("suite_key", count)
    _check_range("suite_key", suite_key, 0, len(suite_keys))
    units = reader.texts("unit", count)
    cases = reader.optional_texts("case", count)
    suites = [suite_keys[position][0] for position in suite_key.tolist()]
    variants = [suite_keys[position][1] for position in suite_key.tolist()]
    cases = [unit if case is None else case for unit, case in zip(units, cases, strict=True)]
    keys = tuple(map(CaseKey._make, zip(suites, variants, units, cases, strict=True)))
    if not all(map(lt, keys, islice(keys, 1, None))):
        raise CorruptData("keys out of order, or a key twice")
    return keys


def _external_names(reader: Reader, keys: Sequence[CaseKey]) -> dict[CaseKey, ExternalName]:
    if "classname" not in reader.sections:
        return {}
    columns = [reader.optional_texts(name, len(keys)) for name in ExternalName._fields]
    names = map(ExternalName._make, zip(*columns, strict=True))
    return {key: name for key, name in zip(keys, names, strict=True) if name != ExternalName()}


def _check_range(
    name: str, values: NDArray[Any], minimum: int, end: int | NDArray[np.int32]
) -> None:
    if values.size and (int(values.min()) < minimum or (values >= end).any()):
        raise CorruptData(f"section {name}: a value is out of range")


def _read_numbers(  # noqa: PLR0917
    reader: Reader, name: str, count: int, series_starts: Integers, end: int, type_: type[_Small]
) -> NDArray[_Small]:
    """Read a column of numbers n, 0 <= n < `end`, and store them as `type_`."""

    def checked(numbers: Integers) -> NDArray[_Small]:
        _check_range(name, numbers, 0, end)
        return numbers.astype(type_)

    return reader.column(name, count, series_starts, checked)


def _codes(
    reader: Reader, name: str, count: int, series_starts: Integers, head: Any
) -> NDArray[np.uint8]:
    if name not in CODE_NAMES:
        return _read_numbers(reader, name, count, series_starts, 256, np.uint8)
    if name in UNKNOWN_WORD and name not in reader.sections:
        return np.broadcast_to(np.uint8(0), (count,))
    # Codes are indices into the file's list of words, because another version may insert a word.
    stored_words = head.get("words")
    words = stored_words.get(name) if isinstance(stored_words, dict) else None
    if not isinstance(words, list):
        raise CorruptData(f"words of {name} that are not known: {words!r:.80}")
    code_of = {word: code for code, word in enumerate(CODE_NAMES[name])}
    unknown = code_of[UNKNOWN_WORD[name]] if name in UNKNOWN_WORD else _REFUSED_CODE
    known = np.array([0, *(code_of.get(str(word), unknown) for word in words)], np.uint8)

    def own_codes(numbers: Integers) -> NDArray[np.uint8]:
        _check_range(name, numbers, 0, len(known))
        codes: NDArray[np.uint8] = known[numbers]
        if (codes == _REFUSED_CODE).any():  # an unknown word without values is accepted
            raise CorruptData(f"words of {name} that are not known: {words!r:.80}")
        return codes

    return reader.column(name, count, series_starts, own_codes)


def _measure(reader: Reader, name: str, count: int, series_starts: Integers) -> NDArray[np.float64]:
    if name not in reader.sections:
        return unmeasured(count)
    scale = _PER_SECOND if name in SECONDS else 1

    def scaled(numbers: Integers) -> NDArray[np.float64]:
        if name != "retained_bytes":
            _check_range(name, numbers, 0, LARGEST + 1)
        return numbers / scale

    column = reader.column(name, count, series_starts, scaled)
    if f"{name}.measured" in reader.sections:
        measured = reader.flags(f"{name}.measured", count)
        column = np.where(measured, column, np.nan)
    return column


def _values(
    reader: Reader, head: Any, count: int, key_count: int, runs: tuple[HistoryRun, ...]
) -> Values:
    counts = reader.integers("count", key_count)
    _check_range("count", counts, 1, VALUES_PER_KEY + 1)
    if int(counts.sum()) != count:
        raise CorruptData("counts and values do not agree")
    series_starts = np.cumsum(counts) - counts
    run = _read_numbers(reader, "run", count, series_starts, len(runs), np.int32)
    rises = np.diff(run) > 0
    rises[series_starts[1:] - 1] = True
    if not rises.all():
        raise CorruptData("runs of a key out of order")
    leg_counts = np.array([len(history_run.legs) for history_run in runs], np.int32)
    most_legs = int(leg_counts.max(initial=0))
    leg = _read_numbers(reader, "leg", count, series_starts, most_legs, np.int32)
    _check_range("leg", leg, 0, leg_counts[run])
    return of_columns(
        {
            "key": np.repeat(np.arange(key_count, dtype=np.int32), counts),
            "run": run,
            "leg": leg,
            **{name: _codes(reader, name, count, series_starts, head) for name in CODES},
            **{name: _measure(reader, name, count, series_starts) for name in MEASURES},
        }
    )


def _decode(body: memoryview) -> History:
    line = bytes(body[:MAX_HEAD_BYTES]).partition(b"\n")[0]
    head = json.loads(line)
    if not isinstance(head, dict):
        raise CorruptData("no head")
    key_count = _size(head, "keys", MAX_KEYS)
    value_count = _size(head, "values", key_count * VALUES_PER_KEY)
    reader = _sections(head, body[len(line) + 1 :])
    history = History(no_values(), runs_of_json(reader.json("runs")))
    if "metrics" in reader.sections:
        metrics = series_of_json(reader.json("metrics"), history.run_positions)
        history = replace(history, metrics=metrics)
    keys = _keys(reader, key_count)
    if not keys:
        return history
    values = _values(reader, head, value_count, key_count, history.runs)
    if OLDER[0] in reader.sections:
        older = np.array([reader.integers(name, key_count, _ONE_SERIES) for name in OLDER])
        _check_range(OLDER[0], older[:-1], 0, LARGEST + 1)
        history = replace(history, older=older)
    return replace(history, values=values, keys=keys, external_names=_external_names(reader, keys))


def decode(content: bytes, source: str) -> History:
    """Read a history file.

    Raises:
        NotAHistory: the bytes do not begin like a history file.
        DamagedHistory: the file was cut, changed or made by another program.
        InputError: the file is of another schema.
    """
    line = content[:MAX_HEAD_BYTES].partition(b"\n")[0]
    words = line.split(b" ")
    if not content.startswith(_MAGIC) or len(words) != 3 or not words[1].isdigit():  # noqa: PLR2004
        what = "no history file" if content else "no history file: it is empty"
        raise NotAHistory(what, where=source, fix="name a file that ciguard wrote")
    own = b"%d" % HISTORY_SCHEMA
    if words[1] != own:
        is_newer = (len(words[1]), words[1]) > (len(own), own)
        fix = "use the version of ciguard that wrote it, or a newer one"
        newer = "a newer ciguard wrote it: " if is_newer else ""
        what = f"{newer}schema {words[1].decode()[:20]} is not {HISTORY_SCHEMA}"
        raise InputError(what, where=source, fix=fix)
    damaged = "fetch it again, or start a new one: later runs fill it"
    rest = memoryview(content)[len(line) + 1 :]  # no copy: a file may have 100 MB
    if words[2] != hashlib.sha256(rest).hexdigest().encode():
        raise DamagedHistory("the file was cut or changed", where=source, fix=damaged)
    try:
        return _decode(rest)
    except (CorruptData, LineError, ValueError, RecursionError) as error:
        raise DamagedHistory(f"damaged history: {error}", where=source, fix=damaged) from None
