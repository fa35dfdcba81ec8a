"""Damage at random to the bytes of a text file of any format: flips, cuts, odd tokens, values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import yaml

_TOKEN: Final = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[A-Za-z_][\w.-]*|[0-9.]+|\s+|.', re.DOTALL)
_NUMBER: Final = re.compile(rb"[0-9]+")
_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")
DEPTH: Final = 20_000
ODD_TOKENS: Final = (
    *(b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", "\u2028".encode(), b"\t", b"\r", b"'", b'"', b"%s"),
    *(b"null", b"true", b"~", b"0", b"-1", b"1e999", b"NaN", b"-inf", "\u0663".encode()),
    *(b'""', b"[]", b"{}", b"[1]", b"2026-13-45T99:99:99Z", b"${{ x }}", b"*a", b"&a", b"!!int x"),
    *(b"[" * DEPTH, b'{"a":' * DEPTH, b"<a>" * DEPTH, b"a." * DEPTH, b"- " * DEPTH, b"(" * DEPTH),
)
ODD_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1 << 64, 1e300, "", "x", "\0", "\ud800", "a/../b", [], {}, [None], [[]]),
    *({"": None}, {"a": {"a": []}}, "x" * 70_000),
)


def _slice(dice: Random, size: int, largest: int = 1 << 20) -> slice:
    begin = dice.randrange(size + 1)
    return slice(begin, min(size, begin + dice.choice((1, 4, 40, largest))))


def _flip(dice: Random, content: bytes, _: bytes) -> bytes:
    changed = bytearray(content)
    for _unused in range(dice.choice((1, 1, 2, 8)) if changed else 0):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def _cut(dice: Random, content: bytes, _: bytes) -> bytes:
    gone = _slice(dice, len(content))
    return content[: gone.start] + content[gone.stop :]


def _repeat(dice: Random, content: bytes, _: bytes) -> bytes:
    part = _slice(dice, len(content), 400)
    return content[: part.start] + content[part] * dice.choice((2, 3, 100)) + content[part.stop :]


def _pieces(dice: Random, content: bytes, other: bytes, pattern: re.Pattern[bytes]) -> bytes:
    """Drop, double, move or replace a token or a line; the other file has some, too."""
    pieces = pattern.findall(content) or [b""]
    at, from_ = dice.randrange(len(pieces)), dice.randrange(len(pieces))
    strange = dice.choice(pattern.findall(other) or [b""])
    moved = pieces[from_]
    pieces[at], pieces[from_] = dice.choice(
        ((b"", moved), (moved, pieces[at]), (pieces[at] * 2, moved), (strange, moved))
    )
    return b"".join(pieces)


def _token(dice: Random, content: bytes, other: bytes) -> bytes:
    return _pieces(dice, content, other, _TOKEN)


def _line(dice: Random, content: bytes, other: bytes) -> bytes:
    return _pieces(dice, content, other, _LINE)


def _odd_token(dice: Random, content: bytes, _: bytes) -> bytes:
    found = [one for one in _TOKEN.finditer(content) if not one[0].isspace()]
    if not found:
        return dice.choice(ODD_TOKENS)
    token = dice.choice(found)
    return content[: token.start()] + dice.choice(ODD_TOKENS) + content[token.end() :]


def _digits(dice: Random, content: bytes, _: bytes) -> bytes:
    found = list(_NUMBER.finditer(content))
    if not found:
        return content + b"9" * 5000
    number = dice.choice(found)
    blown = number[0][:20] * dice.choice((2, 20, 5000))
    return content[: number.start()] + blown + content[number.end() :]


def _indent(dice: Random, content: bytes, _: bytes) -> bytes:
    lines = _LINE.findall(content) or [b""]
    at = dice.randrange(len(lines))
    lines[at] = dice.choice((b"  " + lines[at], b"\t" + lines[at], lines[at].lstrip(b" ")))
    return b"".join(lines)


def _line_ends(dice: Random, content: bytes, _: bytes) -> bytes:
    ends = (b"\n", b"\r\n", b"\r", b"\n\r", "\u0085".encode())
    return b"".join(line.rstrip(b"\n") + dice.choice(ends) for line in _LINE.findall(content))


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a value of JSON: what holds it, and its key or index."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    here = [(value, key) for key in keys]
    return here + [inner for _, key in here for inner in _nodes(value[key])]


def _node(dice: Random, content: bytes, other: bytes) -> bytes:
    """Give a place of JSON or YAML, or of a line of JSON, another value or none."""
    lines = _LINE.findall(content) if content.count(b"\n{") else [content]
    at = dice.randrange(len(lines))
    dump: Callable[[Any], str] = json.dumps
    try:
        try:
            value = json.loads(lines[at])
        except ValueError:
            value, dump = yaml.safe_load(lines[at]), _as_yaml
        places = _nodes(value)
    except (ValueError, RecursionError, TypeError, yaml.YAMLError):
        return _token(dice, content, other)
    if not places:
        return _token(dice, content, other)
    (holder, key), (inner, place) = dice.choice(places), dice.choice(places)
    if dice.random() < 0.2:
        del holder[key]
    else:
        copied = json.dumps(inner[place], default=str)
        holder[key] = dice.choice((json.loads(copied), dice.choice(ODD_VALUES)))
    end = b"\n" if len(lines) > 1 else b""
    lines[at] = dump(value).encode("utf-8", "surrogatepass") + end
    return b"".join(lines)


def _as_yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


_DAMAGES: Final[tuple[Callable[[Random, bytes, bytes], bytes], ...]] = (
    *(_flip, _cut, _repeat, _token, _token, _line, _odd_token, _odd_token, _digits),
    *(_indent, _line_ends, _node, _node, _node, _node),
)


def mutated(dice: Random, samples: Sequence[bytes]) -> bytes:
    """One of the samples with one to three damages; the same dice throw the same."""
    content = dice.choice(samples)
    for _ in range(dice.choice((1, 1, 2, 3))):
        content = dice.choice(_DAMAGES)(dice, content, dice.choice(samples))
    return content
