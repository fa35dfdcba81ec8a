"""YAML as GitHub's workflow parser reads it: the core schema of YAML 1.2. Pure.

PyYAML reads YAML 1.1, where `on` is true and `3:10` is a number. Here `on` is text, `3.10` the
number 3.1 and `010` the number 10, as in a workflow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_BYTES: Final = 1 << 20  # GitHub's own limit of a workflow file
MAX_VALUES: Final = 200_000  # after aliases are followed: ten lines of them can say a billion

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
    """The one document of a text.

    Raises:
        InputError: it is too large, no YAML, several documents, or grows without end by aliases.
    """
    if len(text) > MAX_BYTES:
        what = f"{len(text):,} characters, more than {MAX_BYTES:,}"
        raise InputError(what, where=where, fix="GitHub takes no workflow of that size either")
    try:
        value = yaml.load(spaced(text), CoreLoader)  # a subclass of the safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        what = f"not YAML: {_problem(error)}"
        raise InputError(what, where=where, fix="correct that line") from error
    if _count(value, {}) > MAX_VALUES:
        fix = "write out what the aliases stand for, or leave them out"
        raise InputError(f"more than {MAX_VALUES:,} values by aliases", where=where, fix=fix)
    return value


def spaced(text: str) -> str:
    """The text with spaces for tabs at the end of a line or before a comment.

    YAML and GitHub allow these tabs, PyYAML does not. Positions stay as they are.
    """
    if "\t" not in text:
        return text
    return _END_TABS.sub(lambda found: " " * len(found[0]), text)


def jobs_of(workflow: Any) -> Mapping[str, Any]:
    """The jobs of a workflow by id; none of a value of another shape."""
    jobs = workflow.get("jobs") if isinstance(workflow, dict) else None
    return jobs if isinstance(jobs, dict) else {}


def steps_of(job: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The steps of a job with their numbers, from 1; none of a value of another shape."""
    steps = job.get("steps") if isinstance(job, dict) else None
    for number, step in enumerate(steps if isinstance(steps, list) else (), 1):
        if isinstance(step, dict):
            yield number, step


def matrix_of(job: Any) -> Mapping[str, Any]:
    """The matrix of a job as a mapping; empty where it has none, or an expression makes it."""
    strategy = job.get("strategy") if isinstance(job, dict) else None
    matrix = strategy.get("matrix") if isinstance(strategy, dict) else None
    return matrix if isinstance(matrix, dict) else {}


def _problem(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{error.problem} at line {mark.line + 1}, column {mark.column + 1}"
    return str(error).partition("\n")[0] or type(error).__name__


def _count(value: Any, known: dict[int, int]) -> int:
    """How many values there are when each alias is written out; a cycle counts as too many."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        known[id(value)] = MAX_VALUES + 1  # until it is counted: whoever meets it is inside of it
        items = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count(item, known) for item in items)
    return known[id(value)]
