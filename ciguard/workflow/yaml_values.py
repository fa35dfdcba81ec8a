"""YAML as GitHub's workflow parser reads it, the core schema of YAML 1.2, and a workflow's parts.

PyYAML reads YAML 1.1, where `on` is true and `3:10` is a number. Here `on` is text, `3.10` the
number 3.1 and `010` the number 10, as in a workflow. The functions `..._of` accept a value of any
shape. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from ciguard.errors import InputError

MAX_BYTES: Final = 1 << 20  # GitHub's own limit of a workflow file
MAX_VALUES: Final = 200_000  # with aliases expanded: ten lines of aliases can make a billion values

_NULL: Final = "tag:yaml.org,2002:null"
_BOOL: Final = "tag:yaml.org,2002:bool"
_INT: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"
_END_TABS: Final = re.compile(r"(?<![ \t])[ \t]+(?=#|\r?$)", re.MULTILINE)  # linear
_INT_PREFIXES: Final = {"0o": 8, "0x": 16}


# Not the parser in C, although it takes a tenth of the time: deep nesting overflows its stack.
class CoreLoader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2's core schema, and no merge keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is there twice, as GitHub does, without regard to case."""
        keys: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name.lower() in keys:
                problem = f"the key {name} is there twice"
                raise yaml.constructor.ConstructorError(
                    problem=problem, problem_mark=key.start_mark
                )
            keys.add(name.lower())
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _integer(loader: CoreLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text[2:], _INT_PREFIXES[text[:2]]) if text[:2] in _INT_PREFIXES else int(text)


def _number(loader: CoreLoader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node))


def _boolean(loader: CoreLoader, node: yaml.ScalarNode) -> bool:
    return loader.construct_scalar(node).lower() == "true"


CoreLoader.add_implicit_resolver(_NULL, re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
CoreLoader.add_implicit_resolver(
    _BOOL, re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
CoreLoader.add_implicit_resolver(
    _INT, re.compile(r"^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
CoreLoader.add_implicit_resolver(
    _FLOAT,  # no JSON can hold more, nor .inf and .nan: text
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]{1,200}(\.[0-9]*)?)([eE][-+]?[0-9]{1,2})?$"),
    list("-+.0123456789"),
)
CoreLoader.add_constructor(_INT, _integer)
CoreLoader.add_constructor(_FLOAT, _number)
CoreLoader.add_constructor(_BOOL, _boolean)


def load(text: str, where: str) -> Any:
    """Parse the only document of a text.

    Raises:
        InputError: too large, no YAML, several documents, a repeated key, many values by aliases.
    """
    if len(text) > MAX_BYTES:
        what = f"{len(text):,} characters, more than {MAX_BYTES:,}"
        raise InputError(what, where=where, fix="GitHub takes no workflow of that size either")
    try:
        value = yaml.load(replace_tabs(text), CoreLoader)  # a subclass of the safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        what = f"not YAML: {_problem(error)}"
        raise InputError(what, where=where, fix="correct that line") from error
    if _count(value, {}) > MAX_VALUES:
        fix = "write out what the aliases stand for, or leave them out"
        raise InputError(f"more than {MAX_VALUES:,} values by aliases", where=where, fix=fix)
    return value


def replace_tabs(text: str) -> str:
    """Replace tabs at the end of a line or before a comment by spaces, keeping all positions.

    YAML and GitHub allow these tabs, PyYAML does not.
    """
    if "\t" not in text:
        return text
    return _END_TABS.sub(lambda match: " " * len(match[0]), text)


def get(value: Any, key: str) -> Any:
    """Return the value of a key of a mapping; None for a value of another shape."""
    return value.get(key) if isinstance(value, dict) else None


def jobs_of(workflow: Any) -> Mapping[str, Any]:
    jobs = get(workflow, "jobs")
    return jobs if isinstance(jobs, dict) else {}


def steps_of(job: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number, step) of a job, from 1."""
    steps = get(job, "steps")
    for number, step in enumerate(steps if isinstance(steps, list) else (), 1):
        if isinstance(step, dict):
            yield number, step


def matrix_of(job: Any) -> Mapping[str, Any]:
    """Return the matrix of a job; empty without a matrix, or if an expression computes it."""
    matrix = get(get(job, "strategy"), "matrix")
    return matrix if isinstance(matrix, dict) else {}


def needs_of(job: Any) -> list[str]:
    """Return the ids of the jobs that a job needs directly."""
    needs = get(job, "needs")
    return [str(need) for need in (needs if isinstance(needs, list) else [needs]) if need]


def dependents_of(workflow: Any, job: str) -> list[str]:
    """Return the jobs that need a job, directly or not, in the order of the file."""
    jobs, found = jobs_of(workflow), {job}
    for _ in jobs:
        found |= {name for name, value in jobs.items() if found.intersection(needs_of(value))}
    return [name for name in jobs if name in found and name != job]


def triggers_of(workflow: Any) -> dict[str, Any]:
    """Return the events that start a workflow, with their filters."""
    events = get(workflow, "on")
    if isinstance(events, dict):
        return {str(name): filters for name, filters in events.items()}
    names = events if isinstance(events, list) else [events]
    return {str(name): None for name in names if name}


def run_defaults_of(workflow: Any, job: Any) -> dict[str, Any]:
    """Return `defaults.run` of a job; keys without a value there are those of the workflow."""
    merged: dict[str, Any] = {}
    for owner in (workflow, job):
        if isinstance(run := get(get(owner, "defaults"), "run"), dict):
            merged |= {key: value for key, value in run.items() if value is not None}
    return merged


def _problem(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{error.problem} at line {mark.line + 1}, column {mark.column + 1}"
    return str(error).partition("\n")[0] or type(error).__name__


def _count(value: Any, counts: dict[int, int]) -> int:
    """Count the values with all aliases expanded; a cycle counts as too many."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in counts:
        counts[id(value)] = MAX_VALUES + 1  # for an alias inside of the value: a cycle
        items = value.values() if isinstance(value, dict) else value
        counts[id(value)] = 1 + sum(_count(item, counts) for item in items)
    return counts[id(value)]
