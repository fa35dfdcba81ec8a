"""The shards of a job with a matrix written by hand, with the filter of each. Pure.

The workflow is read, never run: what a script computes is reported with its line, never guessed.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from ciguard.audit.filters import vstest
from ciguard.audit.filters.languages import LANGUAGES
from ciguard.audit.shard_filters import (
    HOLE,
    NO_COMMON,
    HandMatrix,
    ShardFilter,
    parse_common,
    reject_equal_names,
)
from ciguard.errors import InputError
from ciguard.workflow.check_names import has_matrix
from ciguard.workflow.expressions import EXPRESSION, MATRIX_PATH, fill, fill_constant, text_of
from ciguard.workflow.guard_job import find_result_upload
from ciguard.workflow.matrix import Combination, combinations, texts_of
from ciguard.workflow.positions import SourceText
from ciguard.workflow.test_commands import split_commands, test_command
from ciguard.workflow.yaml_values import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.filters.base import FilterLanguage
    from ciguard.audit.filters.expression import Expression

_MINUTE_S: Final = 60
_VARIABLE: Final = re.compile(r"\$(?:env:(\w+)|\{(?:env:)?(\w+)\}|(\w+))")
# A command's output; the scanner of words ends one without quotes at its parenthesis.
_SUBSTITUTION: Final = re.compile(r"\$\(.*|^\$$", re.DOTALL)
_CONTINUATION: Final = re.compile(r"`(\r?\n)")  # of a line, in PowerShell
_REDIRECTION: Final = re.compile(r"[0-9&]?[<>]")
_AS_JSON: Final = 'give the shards as JSON: {"shards": [{"name": "a", "filter": "..."}]}'
_FIX: Final = "name the matrix key that holds the filter: --filter-key shard.filter"


class _NotConstant(Exception):
    """A text that is made while the job runs."""


@dataclass(frozen=True, slots=True)
class _TestStep:
    """The step of a job that runs tests.

    Attributes:
        script: with its expressions and variables.
        variables: of the step, the job and the workflow.
        line: of the script.
    """

    framework: str
    script: str
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
    if any(EXPRESSION.search(one) for one in _computed(matrix)):
        what = "the matrix is computed while the workflow runs"
        raise InputError(what, where=place, fix=_AS_JSON)
    language = LANGUAGES.get(step.framework)
    if language is None:
        what = f"no filters of {step.framework or 'what this step runs'} can be read"
        fix = f"the filters that can be read are those of {', '.join(LANGUAGES)}"
        raise InputError(what, where=f"{where}:{step.line}", fix=fix)
    found = combinations(matrix, place)
    lines = _entry_lines(source, name, len(found))
    template = f"${{{{ matrix.{filter_key} }}}}" if filter_key else ""
    common: Expression = NO_COMMON
    common_text = ""
    if not filter_key and language is vstest:  # no other puts a filter into a filter
        written = vstest.find_filter(_command_words(step.framework, step.script))
        template, common, common_text = _common(written, f"{where}:{step.line}")
    upload = find_result_upload(value)
    artifact = upload.artifact if upload is not None else ""
    reader = _Reader(value, name, step, language, template, artifact)
    shards = tuple(
        reader.shard(combination, index, where, line)
        for index, (combination, line) in enumerate(zip(found, lines, strict=True))
    )
    reject_equal_names(shards, where)
    return HandMatrix(shards, common, common_text, language)


def _find_job(workflow: Any, source: SourceText, where: str, wanted: str) -> tuple[str, _TestStep]:
    """The job, and its step that runs tests.

    Raises:
        InputError: none, or several and no name.
    """
    jobs = workflow.get("jobs") if isinstance(workflow, dict) else None
    if not isinstance(jobs, dict) or not jobs:
        raise InputError("no workflow: it has no jobs", where=where)
    with_matrix = [name for name in jobs if has_matrix(jobs[name])]
    if wanted and wanted not in with_matrix:
        named = ", ".join(with_matrix) or "none"
        what = f"no job {wanted!r} with a matrix"
        raise InputError(what, where=where, fix=f"jobs with a matrix: {named}")
    found = {
        name: step
        for name in ([wanted] if wanted else with_matrix)
        if (step := _test_step(workflow, name, source)) is not None
    }
    if not found:
        what = f"no job with a matrix runs tests; jobs with a matrix: {', '.join(with_matrix)}"
        raise InputError(what if with_matrix else "no job has a matrix", where=where, fix=_AS_JSON)
    if len(found) > 1:
        what = f"several jobs with a matrix run tests: {', '.join(found)}"
        raise InputError(what, where=where, fix=f"name one of them: --matrix {where}:JOB")
    return next(iter(found.items()))


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
                texts |= {str(key): text_of(value) for key, value in env.items()}
            line = _line(source, "jobs", name, "steps", number, "run")
            return _TestStep(framework, str(script), texts, line)
    return None


def _framework(script: str) -> str | None:
    """Return the framework of a script; "" for an unknown one, None where no test runs."""
    found = [framework for framework, _ in _commands(script)]
    return next((one for one in found if one), found[0] if found else None)


def _command_words(framework: str, script: str) -> list[str]:
    """The words of the first command that runs this framework, without redirections."""
    words = next((words for name, words in _commands(script) if name == framework), [])
    end = next((at for at, word in enumerate(words) if _REDIRECTION.match(word)), len(words))
    return words[:end]


def _commands(script: str) -> Iterator[tuple[str, list[str]]]:
    """The commands that run tests, each with its framework: "" for one without known filters.

    Elements of a list of arguments, `'test', '--filter', 'A'`, are words of one command.
    """
    script = _CONTINUATION.sub(r"\\\1", script)
    every: list[str] = []
    is_list = True
    for words in split_commands(script):
        every += [word.removeprefix("@(").rstrip(",") for word in words]
        if any(word.startswith("--gtest_filter") for word in words):
            yield "gtest", words
            is_list = False
        elif (command := test_command(words)) is not None:
            yield command.framework if command.framework in LANGUAGES else "", words
            is_list = False
    if is_list:
        named = [name for name in LANGUAGES if {*name.split()} <= {*every}]
        yield from ((name, every) for name in named[:1])


def _computed(matrix: Any) -> Iterator[str]:
    """The texts from which GitHub would make entries: the matrix itself, its axes, its lists."""
    values = matrix.values() if isinstance(matrix, dict) else [matrix]
    for value in values:
        yield from texts_of(value)


def _common(written: str, where: str) -> tuple[str, Expression, str]:
    """The shard's own part of a filter, and the filter around it; "" where no two can be told.

    GitHub puts text into text: `a|b` in `<filter>&c` is `a|(b&c)`. Only what stands in
    parentheses, or alone, is a part of its own.
    """
    found = list(EXPRESSION.finditer(written))
    if len(found) == 1 and MATRIX_PATH.fullmatch(found[0][1]):
        text = written[: found[0].start()] + HOLE + written[found[0].end() :]
        if f"({HOLE})" in text:
            # Other variables may stand in it.
            with contextlib.suppress(InputError):
                return found[0][0], parse_common(text, where), text
    return "", NO_COMMON, ""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes the shards of one job."""

    job: Mapping[str, Any]
    name: str
    step: _TestStep
    language: FilterLanguage
    template: str
    artifact: str

    def shard(self, combination: Combination, index: int, where: str, line: int) -> ShardFilter:
        """The shard of a combination, of which `index` are before it.

        Raises:
            InputError: its filter has a mistake.
        """
        values = combination.values
        name = f"{self.name} ({combination.label})" if combination.label else self.name
        name = fill_constant(self.job.get("name"), values, index) or name
        text, unknown, project, expression = "", "", "", None
        # Filled in before the shell divides it into words, as GitHub does.
        words = _command_words(self.step.framework, self._filled(self.step.script, values))
        try:
            text = self._filled(self.template, values) or self.language.find_filter(words)
            _reject_variables(text, _FIX)
            project = vstest.find_project(words) if self.language is vstest else ""
            _reject_variables(project, _AS_JSON)
            expression = self.language.parse(text, f"{where}:{line} ({name})")
        except _NotConstant as error:
            unknown = f"line {self.step.line}: {error}"
        return ShardFilter(
            name=name,
            text=text,
            expression=expression,
            project=project,
            timeout_s=_minutes_s(fill_constant(self.job.get("timeout-minutes"), values)),
            runner=fill_constant(self.job.get("runs-on"), values),
            artifact=fill_constant(self.artifact, values, index),
            line=line,
            unknown=unknown,
        )

    def _filled(self, text: str, values: Mapping[str, Any]) -> str:
        """A script with what the matrix and the variables of the workflow say."""

        def variable(found: re.Match[str]) -> str:
            name = next(filter(None, found.groups()))
            return self.step.variables.get(name, found[0])

        parts = EXPRESSION.split(text)  # text, expression, text, ...
        parts[::2] = [_VARIABLE.sub(variable, part) for part in parts[::2]]
        parts[1::2] = [f"${{{{ {part} }}}}" for part in parts[1::2]]
        return fill("".join(parts), values)


def _reject_variables(text: str, fix: str) -> None:
    """Refuse what the job makes while it runs.

    Raises:
        _NotConstant: names it, and what to do.
    """
    found = EXPRESSION.search(text) or _VARIABLE.search(text) or _SUBSTITUTION.search(text)
    if found is not None:
        raise _NotConstant(f"{found[0]} is not constant; {fix}")


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
