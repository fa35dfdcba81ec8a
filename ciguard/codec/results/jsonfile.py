"""JSON result files of other programs: bytes -> objects whose errors name their position. Pure.

`head_keys` distinguishes formats by their first keys; `Counters` compares a file with its counters.
The items of one long list are decoded one by one, as all values of a file take 3 to 6 times its
size in memory. msgspec finds the end of an item without decoding it. The standard library reads
what msgspec refuses (NaN, half characters, UTF-16), or raises the error.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Final

from ciguard.codec.results.base import truncate_message
from ciguard.codec.unpack_limits import read_limited
from ciguard.errors import InputError
from ciguard.model import BAD_OUTCOMES, Outcome, Result
from ciguard.model.failure_texts import ending_of_failure

if TYPE_CHECKING:
    from msgspec import Raw


MAX_BYTES: Final = 1 << 28  # unpacked, and held in memory
MAX_S: Final = 1e9  # 31 years: a larger time was not measured
MAX_COUNT: Final = 10**12
MAX_TRIES: Final = 1000  # more are not listed one by one
_BOMS: Final = b"\xef\xbb\xbf\xff\xfe"
# The last alternative is a string that is cut at the end of the head.
_TOKEN: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}\[\]]|"', re.DOTALL)
_MAX_KEY_DEPTH: Final = 2
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_UNFINISHED_FIX: Final = "look at the log of its job: was the run stopped? Run it again"

PIECES_FROM_BYTES: Final = 1 << 20  # below, the import of msgspec takes longer than it saves


def head_keys(head: bytes) -> frozenset[str]:
    """Return the first keys of an object: `a`, `a.b` of an inner object, `a[]` of a list.

    Args:
        head: first 4 KiB; UTF-8, or UTF-16 as PowerShell writes it.
    """
    text = head.replace(b"\0", b"").lstrip(_BOMS).lstrip()
    keys: set[str] = set()
    path: list[str] = []
    key = ""
    for token in _TOKEN.finditer(text) if text.startswith(b"{") else ():
        bracket = token[0][:1]
        if token[1] is not None:
            if token[2] and len(path) <= _MAX_KEY_DEPTH and not path[-1].endswith("[]"):
                key = ".".join(filter(None, (path[-1], token[1].decode("utf-8", "replace"))))
                keys.add(key)
        elif bracket == b'"':
            break
        elif bracket in b"{[":
            path.append(f"{key}[]" if bracket == b"[" else key)
            keys.update(path[-1:] if bracket == b"[" else ())
        else:
            path.pop()
            if not path:
                break
    return frozenset(keys)


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object of a file with its path in the file, as `testResults[3].location`."""

    values: dict[str, Any]
    source: str
    path: str = ""

    def error(self, what: str, key: str = "", fix: str = "was the file edited?") -> InputError:
        path = ".".join(filter(None, (self.path, key)))
        return InputError(what, where=f"{self.source}: {path}" if path else self.source, fix=fix)

    def word(self, key: str, known: Collection[str]) -> str:
        """Return a text that must be one of `known`; raise InputError for another text."""
        word = self.text(key)
        if word not in known:
            fix = f"expected one of {', '.join(filter(None, known))}"
            raise self.error(f"{key} {word!r:.60} is not known", key, fix)
        return word

    def text(self, key: str) -> str:
        """Return a text; "" if absent or null. Half characters, invalid in UTF-8, become `?`."""
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f"expected a text, found {value!r:.40}", key)
        return value if value.isascii() else value.encode("utf-8", "replace").decode()

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; a single text is a list of one."""
        value = self.values.get(key)
        items = [value] if isinstance(value, str) else [] if value is None else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise self.error(f"expected a list of texts, found {value!r:.40}", key)
        return tuple(item.encode("utf-8", "replace").decode() for item in items)

    def seconds(self, key: str, per_second: float = 1.0) -> float | None:
        """Return a time; None if not measured: absent, null, negative or beyond `MAX_S`."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"expected a number, found {value!r:.40}", key)
        return round(value / per_second, 9) if 0 <= value <= MAX_S * per_second else None

    def count(self, key: str) -> int:
        """Return a counter or a line; 0 if absent or null."""
        value = 0 if self.values.get(key) is None else self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
            raise self.error(f"expected a count, found {value!r:.40}", key)
        return value

    def object(self, key: str) -> JsonObject:
        """Return an object; an empty one if absent or null."""
        value = self.values.get(key)
        return self._inner({} if value is None else value, key)

    def objects(self, key: str, *, required: bool = False) -> Iterator[JsonObject]:
        """Yield the objects of a list; nothing if absent or null, unless `required`."""
        value = self.values.get(key)
        if value is None and not required:
            return
        if not isinstance(value, list):
            raise self.error(f"expected a list, found {value!r:.40}", key)
        for position, item in enumerate(value):
            yield self._inner(item, f"{key}[{position}]")

    def _inner(self, value: Any, key: str) -> JsonObject:
        if not isinstance(value, dict):
            raise self.error(f"expected an object, found {value!r:.40}", key)
        return JsonObject(value, self.source, f"{self.path}.{key}" if self.path else key)


def read_object(stream: IO[bytes], source: str, long_list: str) -> JsonObject:
    """Read a file that is one object.

    Args:
        long_list: key of the list that is most of the file; its items are decoded one by one, and
            can be read only once.

    Raises:
        InputError: larger than 256 MiB, damaged, truncated (with line and column), or no object.
    """
    value = parse_json(read_limited(stream, source, MAX_BYTES), source, long_list)
    if not isinstance(value, dict):
        raise InputError(f"expected an object, found {value!r:.40}", where=source)
    return JsonObject(value, source)


def clean_message(*parts: str | None) -> str | None:
    """Join texts to a message, without the colours of a terminal."""
    return truncate_message(_COLOUR.sub("", "\n".join(filter(None, parts))))


def error_outside(name: str, message: str | None, file: str | None = None) -> Result:
    """Return the result of an error outside of tests: at import, in a hook, in a set-up."""
    ending = ending_of_failure("", message)
    return Result(name, "errored", ending=ending, message=message, name=name, file=file)


def pad_tries(messages: Sequence[str | None], count: int) -> list[str | None]:
    """Extend the messages of failed tries by None for tries that only a counter counts."""
    return [*messages[:MAX_TRIES], *[None] * (min(count, MAX_TRIES) - len(messages))]


def with_tries(final: Result, messages: Sequence[str | None]) -> Iterator[Result]:
    """Yield a failed try for each message, then the final result as the last try."""
    for number, message in enumerate(messages, 1):
        words = {"message": message, "ending": ending_of_failure("", message), "wall_s": None}
        yield replace(final, outcome="failed", try_number=number, **words)  # type: ignore[arg-type]
    yield replace(final, try_number=len(messages) + 1) if messages else final


@dataclass(slots=True)
class Counters:
    """The numbers of final results of a file by outcome, to compare with its counters."""

    found: Counter[Outcome] = field(default_factory=Counter)

    @property
    def bad(self) -> int:
        """The number of failed, errored and died results."""
        return sum(self.found[outcome] for outcome in BAD_OUTCOMES)

    def check(self, total: int, failed: int, report: JsonObject) -> None:
        """Raise InputError if the file counts more than it contains, or a test has no result."""
        pairs = (("tests", total, self.found.total()), ("failed", failed, self.bad))
        for word, counted, found in pairs:
            if counted > found:
                what = f"its counters say {counted:,} {word}, and it holds {found:,}"
                raise report.error(what, fix=_UNFINISHED_FIX)
        if self.found["died"]:
            what = f"{self.found['died']:,} of {self.found.total():,} tests have no result"
            raise report.error(what, fix=_UNFINISHED_FIX)


class _Pieces(list["Raw"]):
    """A list that decodes its items one by one; they share the bytes of the file."""

    def __init__(self, items: list[Raw], content: bytes, source: str) -> None:
        super().__init__(items)
        self._content, self._source = content, source

    def __iter__(self) -> Iterator[Any]:
        import msgspec  # noqa: PLC0415

        for item in super().__iter__():
            try:
                value = msgspec.json.decode(item)
            except (msgspec.DecodeError, ValueError, RecursionError):
                try:
                    value = json.loads(bytes(item))
                except (ValueError, RecursionError):
                    parse_json(self._content, self._source)  # raises with the position in the file
                    raise
            yield value


def parse_json(content: bytes, source: str, long_list: str = "") -> Any:
    """Parse a file.

    Args:
        long_list: key of the list to read in pieces.

    Raises:
        InputError: damaged or truncated, with line and column; also while a list is read in pieces.
    """
    if long_list and len(content) >= PIECES_FROM_BYTES:
        value = _decode_in_pieces(content, long_list, source)
        if value is not None:
            return value
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        what, where = str(error), source
        if isinstance(error, json.JSONDecodeError):
            what, where = error.msg, f"{source}:{error.lineno}:{error.colno}"
        fix = "was its writer killed?"
        raise InputError(f"malformed JSON: {what}", where=where, fix=fix) from None


def _decode_in_pieces(content: bytes, long_list: str, source: str) -> dict[str, Any] | None:
    """Return an object with the long list in pieces; None if msgspec fails or a type is wrong."""
    import msgspec  # noqa: PLC0415

    try:
        content_values: dict[str, Any] = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        for key, raw in content_values.items():
            if key != long_list:
                content_values[key] = msgspec.json.decode(raw)
            else:
                items = msgspec.json.decode(raw, type=list[msgspec.Raw])
                content_values[key] = _Pieces(items, content, source)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return content_values
