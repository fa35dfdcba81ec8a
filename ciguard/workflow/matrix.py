"""The combinations of a job's matrix, as GitHub makes them, and `${{ matrix.a.b }}`. Pure.

The product of the axes, the last one fastest, without the combinations that `exclude` matches. Then
an entry of `include` extends every combination whose axes it matches, or is a new combination if it
matches none. Values match as `==` of GitHub's expressions compares them. Source: MatrixBuilder of
the workflow parser in actions/runner, and its documentation of `jobs.<job_id>.strategy.matrix`.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ciguard.errors import InputError
from ciguard.workflow.yaml_values import load

SHARD_PATH: Final = "matrix.ciguard"  # the key that the plan adds to a moved job's combinations
SHARD: Final = f"${{{{ {SHARD_PATH} }}}}"
MAX_JOBS: Final = 256  # of a matrix, per workflow run
_WHERE: Final = "matrix"
_LISTS: Final = frozenset({"include", "exclude"})
EXPRESSION: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
MATRIX_PATH: Final = re.compile(r"matrix((?:\.[\w-]+|\['[^']+'\])+)")
_PART: Final = re.compile(r"\.([\w-]+)|\['([^']+)'\]")
_JOB_INDEX: Final = "strategy.job-index"


@dataclass(frozen=True, slots=True)
class Combination:
    """One job of the matrix.

    Attributes:
        values: the `matrix` context: the axes in their order, then the included keys.
        label: as GitHub shows it in the job's name, without brackets; unique in the matrix.
    """

    values: Mapping[str, Any]
    label: str


def read_matrix(text: str, where: str = _WHERE) -> tuple[Combination, ...]:
    """Return the combinations of a matrix as YAML or JSON; one without values for an empty text.

    Raises:
        InputError: GitHub would refuse the matrix, two combinations are equal, or more than 256.
    """
    if not text.strip():
        return (Combination({}, ""),)
    return combinations(load(text, where), where)


def take_axis(text: str, name: str, where: str = _WHERE) -> tuple[str, int]:
    """Remove an axis; return the matrix as JSON, or "" without an axis, and the axis' value count.

    Raises:
        InputError: there is no such axis, or entries of include or exclude name it.
    """
    matrix = load(text, where)
    axis = _find(matrix, name) if isinstance(matrix, Mapping) and name not in _LISTS else None
    values = matrix[axis] if axis is not None else None
    if not isinstance(values, list) or not values:
        fix = "name an axis with its values"
        raise InputError(f"no axis {name!r} to take", where=where, fix=fix)
    for kind in sorted(_LISTS):
        if any(_find(_entry(item, where, kind), name) for item in _list(matrix, kind, where)):
            what = f"{kind} names {name!r}: its values are not alike"
            raise InputError(what, where=where, fix="leave the axis in, or leave the entries out")
    remaining = {key: value for key, value in matrix.items() if key != axis}
    return json.dumps(remaining) if remaining else "", len(values)


def combinations(matrix: Any, where: str = _WHERE) -> tuple[Combination, ...]:
    """Return the combinations of a matrix. O(product of the axes x entries of the two lists).

    Raises:
        InputError: as `read_matrix`.
    """
    axes, excluded, included = _read_parts(matrix, where)
    product_size = math.prod(map(len, axes.values())) if axes else 0
    if product_size > MAX_JOBS * MAX_JOBS:  # before the product is enumerated
        _reject_count(product_size, where)
    value_pairs = _combine(axes, excluded, included)
    if len(value_pairs) > MAX_JOBS:
        _reject_count(len(value_pairs), where)
    if not value_pairs:
        raise InputError("no combination is left", where=where, fix="exclude less")
    return _label_combinations(value_pairs, where)


def _read_parts(
    matrix: Any, where: str
) -> tuple[dict[str, list[Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the axes, and the entries of `exclude` and `include`."""
    if not isinstance(matrix, Mapping):
        fix = "write the mapping that stands below `matrix:` in the job"
        raise InputError(f"a matrix is a mapping, not {_kind(matrix)}", where=where, fix=fix)
    axes = {str(name): value for name, value in matrix.items() if name not in _LISTS}
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            kind = "it is empty" if values == [] else _kind(values)
            what = f"axis {name!r} is no list of values: {kind}"
            raise InputError(what, where=where, fix=f"write {name}: [value, ...]")
    excluded = [_entry(item, where, "exclude") for item in _list(matrix, "exclude", where)]
    for name in itertools.chain.from_iterable(excluded):
        if _find(axes, name) is None:
            fix = f"the axes are: {', '.join(axes) or 'none'}"
            raise InputError(f"exclude names {name!r}, which is no axis", where=where, fix=fix)
    included = [_entry(item, where, "include") for item in _list(matrix, "include", where)]
    return axes, excluded, included


def _combine(
    axes: Mapping[str, list[Any]],
    excluded: Sequence[Mapping[str, Any]],
    included: Sequence[Mapping[str, Any]],
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return (values, values that GitHub shows in the job's name) of each combination."""
    filters = [
        {name: value for name, value in entry.items() if _find(axes, name) is not None}
        for entry in included
    ]
    matched = [False] * len(included)
    combined = []
    for picked in itertools.product(*axes.values()) if axes else ():
        axis_values = dict(zip(axes, picked, strict=True))
        if any(_matches(axis_values, entry) for entry in excluded):
            continue
        values = dict(axis_values)
        for position, entry in enumerate(included):
            if not _matches(axis_values, filters[position]):
                continue
            matched[position] = True
            for name, value in entry.items():
                if name not in filters[position]:
                    values[_find(values, name) or name] = value
        combined.append((values, axis_values))
    for position, entry in enumerate(included):
        if not matched[position]:
            extra = {name: value for name, value in entry.items() if name not in filters[position]}
            values = {**filters[position], **extra}
            combined.append((values, values))
    return combined


def _label_combinations(
    value_pairs: list[tuple[dict[str, Any], dict[str, Any]]], where: str
) -> tuple[Combination, ...]:
    """Label each combination by the values that GitHub shows; equal labels by all values."""
    shown = [_label(axis_values) for _, axis_values in value_pairs]
    counts = Counter(shown)
    labels = [
        label if counts[label] == 1 and label else _label(values)
        for label, (values, _) in zip(shown, value_pairs, strict=True)
    ]
    for label, count in Counter(labels).items():
        if count > 1:
            fix = "leave out all but one, or give each a different value"
            what = f"{count} combinations have the same values: {label or 'no text at all'}"
            raise InputError(what, where=where, fix=fix)
    return tuple(
        Combination(values, label) for (values, _), label in zip(value_pairs, labels, strict=True)
    )


def _label(values: Mapping[str, Any]) -> str:
    return ", ".join(text for text in texts_of(values) if text)


def texts_of(value: Any) -> Iterator[str]:
    """Yield every scalar in a value as GitHub writes it in a job's name, in order; no null."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, float):
        yield format(value, ".15g")
    elif value is not None:
        yield str(value)


def _matches(value: Any, wanted: Any) -> bool:
    """Return whether each scalar of `wanted`, at any depth, equals the scalar at the same path."""
    if isinstance(wanted, Mapping):
        return all(_matches(_get(value, name), item) for name, item in wanted.items())
    if isinstance(wanted, list):
        items = value if isinstance(value, list) else []
        return all(
            _matches(items[index] if index < len(items) else None, item)
            for index, item in enumerate(wanted)
        )
    return _equal(value, wanted)


def _equal(left: Any, right: Any) -> bool:
    """Compare as `==` of GitHub's expressions: text without case, different types as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return left.upper() == right.upper()
    if left is None and right is None:
        return True
    return _as_number(left) == _as_number(right)  # NaN equals nothing


def _as_number(value: Any) -> float:
    try:
        return float(value or 0.0)
    except (TypeError, ValueError):
        return math.nan


def _get(values: Any, name: str) -> Any:
    if not isinstance(values, Mapping):
        return None
    key = _find(values, name)
    return None if key is None else values[key]


def _find(values: Mapping[str, Any], name: str) -> str | None:
    """Return the key as spelled in `values`: GitHub's keys have no case."""
    if name in values:
        return name
    return next((key for key in values if str(key).upper() == name.upper()), None)


def _list(matrix: Mapping[str, Any], name: str, where: str) -> list[Any]:
    entries = matrix.get(name) or []
    if not isinstance(entries, list):
        fix = f"write {name}: with one entry a line, each behind '- '"
        raise InputError(f"{name} is no list: {_kind(entries)}", where=where, fix=fix)
    return entries


def _entry(item: Any, where: str, name: str) -> dict[str, Any]:
    if not isinstance(item, Mapping) or not item:
        what = f"an entry of {name} is no mapping with values: {_kind(item)}"
        raise InputError(what, where=where, fix=f"write key: value in each entry of {name}")
    return {str(key): value for key, value in item.items()}


def _reject_count(count: int, where: str) -> None:
    what = f"{count:,} combinations; GitHub runs at most {MAX_JOBS} jobs of a matrix"
    raise InputError(what, where=where, fix="exclude some, or divide the job")


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", type(None): "nothing"}
    return names.get(type(value), "a number" if not isinstance(value, bool) else "true or false")


def fill(text: str, values: Mapping[str, Any], job_index: int | None = None) -> str:
    """Fill the values of a combination into a text; other expressions stay.

    Args:
        job_index: position of the combination in the matrix, from 0, as `strategy.job-index`.
    """

    def value_of(expression: re.Match[str]) -> str:
        if expression[1] == _JOB_INDEX and job_index is not None:
            return str(job_index)
        path = MATRIX_PATH.fullmatch(expression[1])
        if path is None:
            return expression[0]
        value: Any = values
        for part in _PART.finditer(path[1]):
            value = value.get(part[1] or part[2]) if isinstance(value, dict) else None
        return text_of(value)

    return EXPRESSION.sub(value_of, text)


def fill_constant(value: Any, values: Mapping[str, Any], job_index: int | None = None) -> str:
    """Evaluate the expressions of a scalar; "" if an expression needs more than the matrix."""
    text = fill(text_of(value), values, job_index)
    return "" if EXPRESSION.search(text) else text


def text_of(value: Any) -> str:
    """Return a scalar as GitHub writes it into a text; "" for a list or mapping."""
    return "".join(texts_of(value)) if not isinstance(value, dict | list) else ""
