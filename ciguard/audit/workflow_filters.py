"""The shards of a job whose matrix somebody wrote by hand, with the filter of each. Pure.

The workflow is read, never run: what a script computes is reported with its line, never guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from ciguard.audit.filters.expression import terms
from ciguard.audit.filters.languages import LANGUAGES
from ciguard.audit.shard_filters import (
    HOLE,
    NO_COMMON,
    HandMatrix,
    ShardFilter,
    is_hole,
    parse_common,
    reject_equal_names,
)
from ciguard.errors import InputError
from ciguard.workflow.matrix import combinations, texts_of
from ciguard.workflow.positions import SourceText
from ciguard.workflow.test_commands import find_test_commands, split_commands
from ciguard.workflow.yaml_values import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.filters.base import FilterLanguage
    from ciguard.audit.filters.expression import Expression
    from ciguard.workflow.matrix import Combination

_MINUTE_S: Final = 60
_EXPRESSION: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_MATRIX_PATH: Final = re.compile(r"matrix((?:\.[\w-]+|\['[^']+'\])+)")
_PART: Final = re.compile(r"\.([\w-]+)|\['([^']+)'\]")
_VARIABLE: Final = re.compile(r"\$(?:env:(\w+)|\{(?:env:)?(\w+)\}|(\w+))")
_CONTINUATION: Final = re.compile(r"`(\r?\n)")  # of a line, in PowerShell
_FIX: Final = "name the matrix key that holds the filter: --filter-key shard.filter"


class _NotConstant(Exception):
    """A text that is made while the job runs."""


@dataclass(frozen=True, slots=True)
class _TestStep:
    """The step of a job that runs tests.

    Attributes:
        words: of its script, with their expressions and variables.
        variables: of the step, the job and the workflow.
        line: of the step's script.
    """

    framework: str
    words: tuple[str, ...]
    variables: Mapping[str, str]
    line: int


def read_workflow(text: str, where: str, job: str = "", filter_key: str = "") -> HandMatrix:
    """The shards of a workflow's test job.

    Args:
        job: its id; needed where several jobs have a matrix and run tests.
        filter_key: where in the matrix a shard's filter stands, as `shard.filter`; "" to find it in
            the command.

    Raises:
        InputError: no workflow, no such job, a matrix that is computed, a filter with a mistake.
    """
    workflow = load(text, where)
    source = SourceText(text)
    name, step = _find_job(workflow, source, where, job)
    value = workflow["jobs"][name]
    place = f"{where}:{_line(source, 'jobs', name, 'strategy', 'matrix')}"
    matrix = value["strategy"]["matrix"]
    if any(_EXPRESSION.search(one) for one in _computed(matrix)):
        fix = 'give the shards as JSON: {"shards": [{"name": "a", "filter": "..."}]}'
        raise InputError("the matrix is computed while the workflow runs", where=place, fix=fix)
    language = LANGUAGES.get(step.framework)
    if language is None:
        what = f"no filters of {step.framework or 'what this step runs'} can be read"
        fix = f"the filters that can be read are those of {', '.join(LANGUAGES)}"
        raise InputError(what, where=f"{where}:{step.line}", fix=fix)
    found = combinations(matrix, place)
    lines = _entry_lines(source, name, len(found))
    template = f"${{{{ matrix.{filter_key} }}}}" if filter_key else language.find_filter(step.words)
    common, common_text = _common(template, f"{where}:{step.line}")
    reader = _Reader(value, name, step, language, template, common)
    shards = tuple(
        reader.shard(combination, where, line)
        for combination, line in zip(found, lines, strict=True)
    )
    reject_equal_names(shards, where)
    return HandMatrix(shards, common or NO_COMMON, common_text, language)


def _find_job(workflow: Any, source: SourceText, where: str, wanted: str) -> tuple[str, _TestStep]:
    """The job, and its step that runs tests.

    Raises:
        InputError: none, or several and no name.
    """
    jobs = workflow.get("jobs") if isinstance(workflow, dict) else None
    if not isinstance(jobs, dict) or not jobs:
        raise InputError("no workflow: it has no jobs", where=where)
    with_matrix = [name for name in jobs if _has_matrix(jobs[name])]
    if wanted and wanted not in with_matrix:
        named = ", ".join(with_matrix) or "none"
        what = f"no job {wanted!r} with a matrix"
        raise InputError(what, where=where, fix=f"jobs with a matrix: {named}")
    found = {
        name: step
        for name in ([wanted] if wanted else with_matrix)
        if (step := _test_step(workflow, name, source)) is not None
    }
    if len(found) != 1:
        names = ", ".join(found or with_matrix) or "none"
        what = (
            "several jobs with a matrix run tests" if found else "no job with a matrix runs tests"
        )
        fix = f"name one of them: --matrix {where}:JOB" if found else f"jobs with a matrix: {names}"
        raise InputError(f"{what}: {names}" if found else what, where=where, fix=fix)
    return next(iter(found.items()))


def _has_matrix(job: Any) -> bool:
    strategy = job.get("strategy") if isinstance(job, dict) else None
    return isinstance(strategy, dict) and strategy.get("matrix") is not None


def _test_step(workflow: Any, name: str, source: SourceText) -> _TestStep | None:
    """The last step of a job that runs tests."""
    job = workflow["jobs"][name]
    steps = job.get("steps") if isinstance(job.get("steps"), list) else ()
    for number, step in reversed(list(enumerate(steps, 1))):
        script = step.get("run") if isinstance(step, dict) else None
        framework = _framework(script) if isinstance(script, str) else None
        if framework is not None:
            texts: dict[str, str] = {}
            for level in (workflow, job, step):
                env = level.get("env")
                env = env if isinstance(env, dict) else {}
                texts |= {str(key): _text(value) for key, value in env.items()}
            line = _line(source, "jobs", name, "steps", number, "run")
            return _TestStep(framework, tuple(_words(str(script))), texts, line)
    return None


def _framework(script: str) -> str | None:
    """What runs tests in a script: as a command, or as a list of arguments for one."""
    found = find_test_commands(script)
    if found:
        return next((one.framework for one in found if one.framework in LANGUAGES), "")
    words = set(_words(script))
    return next((name for name in LANGUAGES if set(name.split()) <= words), None)


def _words(script: str) -> Iterator[str]:
    """The words of a script; elements of a list of arguments, `'a', 'b'`, are words too."""
    for words in split_commands(_CONTINUATION.sub(r"\\\1", script)):
        for word in words:
            yield word.removeprefix("@(").rstrip(",")


def _computed(matrix: Any) -> Iterator[str]:
    """The texts from which GitHub would make entries: the matrix itself, its axes, its lists."""
    values = matrix.values() if isinstance(matrix, dict) else [matrix]
    for value in values:
        yield from texts_of(value)


def _common(template: str, where: str) -> tuple[Expression | None, str]:
    """The filter around the shard's own one; None where the two cannot be told apart.

    GitHub puts text into text: `a|b` in `<filter>&c` is `a|(b&c)`. Only what stands in
    parentheses, or alone, is a part of its own.
    """
    found = list(_EXPRESSION.finditer(template))
    if len(found) != 1 or not _MATRIX_PATH.fullmatch(found[0][1]):
        return None, ""
    text = template[: found[0].start()] + HOLE + template[found[0].end() :]
    if text == HOLE:
        return NO_COMMON, ""
    if f"({HOLE})" not in text:
        return None, ""
    try:
        common = parse_common(text, where)
    except InputError:  # other expressions stand in it
        return None, ""
    return (common, text) if any(map(is_hole, terms(common))) else (None, "")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes the shards of one job."""

    job: Mapping[str, Any]
    name: str
    step: _TestStep
    language: FilterLanguage
    template: str
    common: Expression | None

    def shard(self, combination: Combination, where: str, line: int) -> ShardFilter:
        """The shard of a combination.

        Raises:
            InputError: its filter has a mistake.
        """
        values = combination.values
        name = f"{self.name} ({combination.label})" if combination.label else self.name
        if isinstance(self.job.get("name"), str):
            name = self._constant(self.job["name"], values) or name
        minutes = self._constant(self.job.get("timeout-minutes"), values)
        text, unknown, expression = "", "", None
        template = self.template
        if self.common is not None:
            template = next(found[0] for found in _EXPRESSION.finditer(template))
        try:
            text = self._resolve(template, values)
            expression = self.language.parse(text, f"{where}:{line} ({name})")
        except _NotConstant as error:
            unknown = f"line {self.step.line}: {error} is not constant; {_FIX}"
        return ShardFilter(
            name=name,
            text=text,
            expression=expression,
            project=self._project(values),
            timeout_s=_minutes_s(minutes),
            runner=self._constant(self.job.get("runs-on"), values),
            line=line,
            unknown=unknown,
        )

    def _project(self, values: Mapping[str, Any]) -> str:
        words = []
        for word in self.step.words:
            try:
                words.append(self._resolve(word, values))
            except _NotConstant:
                words.append("")
        return self.language.find_project(words)

    def _constant(self, value: Any, values: Mapping[str, Any]) -> str:
        """A scalar with its expressions evaluated; "" where that cannot be done."""
        if not isinstance(value, str | int | float):
            return ""
        try:
            return self._resolve(_text(value), values, variables=False)
        except _NotConstant:
            return ""

    def _resolve(self, text: str, values: Mapping[str, Any], *, variables: bool = True) -> str:
        """A text as the job sees it.

        Raises:
            _NotConstant: it holds more than paths of the matrix and variables of the workflow.
        """

        def expression(found: re.Match[str]) -> str:
            path = _MATRIX_PATH.fullmatch(found[1])
            if path is None:
                raise _NotConstant(f"${{{{ {found[1]} }}}}")
            value: Any = values
            for part in _PART.finditer(path[1]):
                value = value.get(part[1] or part[2]) if isinstance(value, dict) else None
            return _text(value)

        def variable(found: re.Match[str]) -> str:
            name = next(filter(None, found.groups()))
            if name not in self.step.variables:
                raise _NotConstant(found[0])
            return _EXPRESSION.sub(expression, self.step.variables[name])

        if variables:
            parts = _EXPRESSION.split(text)  # text, expression, text, ...
            text = "".join(
                f"${{{{ {part} }}}}" if place % 2 else _VARIABLE.sub(variable, part)
                for place, part in enumerate(parts)
            )
        return _EXPRESSION.sub(expression, text)


def _text(value: Any) -> str:
    return "".join(texts_of(value)) if not isinstance(value, dict | list) else ""


def _minutes_s(text: str) -> float | None:
    try:
        return float(text) * _MINUTE_S
    except ValueError:
        return None


def _line(source: SourceText, *path: str | int) -> int:
    """The line of a key, from 1."""
    entry = source.find(*path)
    return int(entry.key.start_mark.line) + 1 if entry is not None else 0


def _entry_lines(source: SourceText, job: str, count: int) -> Sequence[int]:
    """The line of each combination's entry where the matrix is one list; else the matrix' own."""
    matrix = source.find("jobs", job, "strategy", "matrix")
    node = matrix.value if matrix is not None else None
    if isinstance(node, yaml.MappingNode) and len(node.value) == 1:
        items = node.value[0][1]
        if isinstance(items, yaml.SequenceNode) and len(items.value) == count:
            return [int(item.start_mark.line) + 1 for item in items.value]
    return [_line(source, "jobs", job, "strategy", "matrix")] * count
