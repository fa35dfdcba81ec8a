"""Declared needs of tests that never ran: expressions of sizes, and the units that they apply to.

    4GiB + checkpointed(28, 150MiB, 2)
    sharded(22GiB, 4)

`checkpointed(n, bytes, k)` is activation checkpointing of n layers with k checkpoints (Chen et al.
2016, arXiv:1604.06174): the activations of k layers stay, and ceil(n/k) more are held while one
segment is computed again. `sharded(bytes, devices)` is the part of one device. Pure.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from operator import add, mul
from typing import TYPE_CHECKING, Final

from ciguard.model.plan import excluding_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

BYTES_BY_UNIT: Final = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
MAX_LENGTH: Final = 200  # characters: limits the recursion of the parser
MAX_BYTES: Final = 1 << 50  # more than the memory of any machine, and exact in JSON
NUMBER_DIGITS: Final = 15
_TOKEN: Final = re.compile(r"\s*(?:(\d+(?:\.\d+)?)(?: ?([A-Za-z]+))?|([A-Za-z_]+)|(\S))")
_FUNCTIONS: Final = {"checkpointed": ("n", "bytes", "k"), "sharded": ("bytes", "devices")}


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that units of a pattern need: `memory` above that of their process; `gpu` of a GPU."""

    units: str
    memory: int | None = None
    gpu: int | None = None


def match_needs(
    units: Iterable[tuple[str, str, str]], needs: Mapping[str, Iterable[Need]]
) -> dict[int, Need]:
    """Return by position the first need of its suite that matches a unit, as `exclude` does.

    Args:
        units: suite, variant and id of each.
        needs: by suite.
    """
    by_suite = {suite: tuple(entries) for suite, entries in needs.items()}
    matches = {}
    for position, (suite, _, unit) in enumerate(units if any(by_suite.values()) else ()):
        entries = by_suite.get(suite, ())
        need = next((each for each in entries if excluding_pattern(unit, (each.units,))), None)
        if need is not None:
            matches[position] = need
    return matches


def parse_size(text: str) -> int:
    """Return the bytes of an expression, rounded up; of one device, if sharded.

    Raises:
        ValueError: with the mistake and its character, from 1.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"expected at most {MAX_LENGTH} characters")
    size = math.ceil(_Parser(text).parse().bytes)
    if size > MAX_BYTES:
        raise ValueError("more than 1 PiB")
    return size


@dataclass(frozen=True, slots=True)
class _Value:
    """An intermediate value; `is_size`: it has a unit and is not a count."""

    bytes: Fraction
    is_size: bool

    def combine(self, other: _Value, operator: Callable[[Fraction, Fraction], Fraction]) -> _Value:
        """Return the sum or product of two values."""
        return _Value(operator(self.bytes, other.bytes), self.is_size or other.is_size)


class _Parser:
    """Recursive descent parser: sums of products of numbers, sizes, calls and parentheses."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_TOKEN.finditer(text))
        self._place = 0
        self._end = len(text) + 1

    def parse(self) -> _Value:
        value = self._sum()
        if self._next():
            raise self._expected("+, * or the end")
        return value

    def _next(self) -> str:
        """Return the next token without its unit; "" at the end."""
        if self._place == len(self._tokens):
            return ""
        token = self._tokens[self._place]
        return token[1] or token[3] or token[4]

    def _at(self) -> int:
        """Return the position of the next token's first character, from 1."""
        if self._place == len(self._tokens):
            return self._end
        token = self._tokens[self._place]
        return 1 + next(token.start(group) for group in (1, 3, 4) if token[group])

    def _expected(self, what: str) -> ValueError:
        found = repr(self._next()) if self._next() else "the end"
        return _mistake(self._at(), f"expected {what}, not {found}")

    def _take(self, sign: str) -> bool:
        if self._next() != sign:
            return False
        self._place += 1
        return True

    def _require(self, sign: str) -> None:
        if not self._take(sign):
            raise self._expected(repr(sign))

    def _sum(self) -> _Value:
        left = self._product()
        while self._take("+"):
            left = left.combine(self._product(), add)
        return left

    def _product(self) -> _Value:
        left = self._factor()
        while (at := self._at()) and self._take("*"):
            right = self._factor()
            if left.is_size and right.is_size:
                raise _mistake(at, "a size times a size")
            left = left.combine(right, mul)
        return left

    def _factor(self) -> _Value:
        if self._take("("):
            value = self._sum()
            self._require(")")
            return value
        name, at = self._next(), self._at()
        if name in _FUNCTIONS:
            self._place += 1
            return self._call(name)
        if name[:1].isdigit():
            return self._number(at)
        if name[:1].isalpha():
            raise _mistake(at, f"no function {name!r}; there are {' and '.join(_FUNCTIONS)}")
        raise self._expected("a size, a number or a function")

    def _number(self, at: int) -> _Value:
        token = self._tokens[self._place]
        digits, unit = token[1], token[2] or ""
        if len(digits) > NUMBER_DIGITS:
            raise _mistake(at, f"a number of more than {NUMBER_DIGITS} digits")
        if unit not in BYTES_BY_UNIT:
            units = ", ".join(filter(None, BYTES_BY_UNIT))
            raise _mistake(1 + token.start(2), f"no unit {unit!r}; there are {units}")
        self._place += 1
        return _Value(Fraction(digits) * BYTES_BY_UNIT[unit], is_size=bool(unit))

    def _call(self, name: str) -> _Value:
        self._require("(")
        arguments: dict[str, _Value] = {}
        positions: dict[str, int] = {}
        for argument in _FUNCTIONS[name]:
            if arguments:
                self._require(",")
            positions[argument] = self._at()
            arguments[argument] = self._sum()
        self._require(")")
        counts = {
            argument: _count(value, argument, positions[argument], least=int(argument != "n"))
            for argument, value in arguments.items()
            if argument != "bytes"
        }
        return _CALLS[name](arguments["bytes"], counts)


def _count(value: _Value, name: str, at: int, least: int) -> int:
    if value.is_size or value.bytes.denominator != 1 or value.bytes < least:
        raise _mistake(at, f"expected a whole number of at least {least} for {name}")
    return int(value.bytes)


def _checkpointed(layer: _Value, counts: Mapping[str, int]) -> _Value:
    layers, checkpoints = counts["n"], counts["k"]
    held = min(checkpoints, layers) + math.ceil(Fraction(layers, checkpoints))
    return _Value(layer.bytes * held, is_size=True)


def _sharded(whole: _Value, counts: Mapping[str, int]) -> _Value:
    return _Value(whole.bytes / counts["devices"], is_size=True)


_CALLS: Final[dict[str, Callable[[_Value, Mapping[str, int]], _Value]]] = {
    "checkpointed": _checkpointed,
    "sharded": _sharded,
}


def _mistake(at: int, what: str) -> ValueError:
    return ValueError(f"at character {at}: {what}")
