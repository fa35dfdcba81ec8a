"""Declared needs of tests that never ran: expressions of sizes, and the units that they apply to.

    4GiB + checkpointed(28, 150MiB, 2)
    sharded(22GiB, 4)

`checkpointed(n, bytes, k)` is activation checkpointing of n layers with k checkpoints (Chen et al.
2016, arXiv:1604.06174): the activations of k layers stay, and ceil(n/k) more are held while one
segment is computed again. `sharded(bytes, devices)` is the part of one device. Pure.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from ciguard.model.plan import excluding_pattern

BYTES_BY_UNIT: Final = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
MAX_LENGTH: Final = 200  # characters: limits the recursion
MAX_BYTES: Final = 1 << 50  # more than the memory of any machine, and exact in JSON
EXPECTED: Final = (
    "expected sizes such as 4GiB, with +, *, parentheses, checkpointed(n, bytes, k) and "
    "sharded(bytes, devices)"
)
_SIZE: Final = re.compile(r"(?<!\w)(\d+(?:\.\d+)?) ?([A-Za-z]+)", re.ASCII)


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
        ValueError: it is no expression of sizes, or above 1 PiB.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"expected at most {MAX_LENGTH} characters")
    try:
        tree = ast.parse(_SIZE.sub(_in_bytes, text).strip(), mode="eval")
    except (SyntaxError, MemoryError):  # of the latter: too many parentheses
        raise ValueError(EXPECTED) from None
    size = math.ceil(_value(tree.body))
    if size > MAX_BYTES:
        raise ValueError("more than 1 PiB")
    return size


def _in_bytes(match: re.Match[str]) -> str:
    number, unit = match.groups()
    if unit not in BYTES_BY_UNIT:
        units = ", ".join(filter(None, BYTES_BY_UNIT))
        raise ValueError(f"no unit {unit!r}; there are {units}")
    return f"{math.ceil(Fraction(number) * BYTES_BY_UNIT[unit])}"


def _value(node: ast.expr) -> Fraction:
    """Return the value of a node of an expression whose sizes are in bytes."""
    match node:
        case ast.Constant(bool()):
            raise ValueError(EXPECTED)
        case ast.Constant(int() | float() as number) if number < math.inf:
            return Fraction(number)
        case ast.BinOp(left, ast.Add(), right):
            return _value(left) + _value(right)
        case ast.BinOp(left, ast.Mult(), right):
            return _value(left) * _value(right)
        case ast.Call(ast.Name("checkpointed"), [layers, size, checkpoints], []):
            n, k = _count(layers, "n", least=0), _count(checkpoints, "k")
            return _value(size) * (min(k, n) + math.ceil(Fraction(n, k)))
        case ast.Call(ast.Name("sharded"), [size, devices], []):
            return _value(size) / _count(devices, "devices")
        case _:
            raise ValueError(EXPECTED)


def _count(node: ast.expr, name: str, least: int = 1) -> int:
    count = _value(node)
    if count.denominator != 1 or count < least:
        raise ValueError(f"expected a whole number of at least {least} for {name}")
    return int(count)
