"""Shards of a matrix written by hand, each with the filter that selects its tests. Pure.

The matrix is read from a workflow file or from JSON; no command is run. A filter that is not
constant, such as the output of a script, is rejected with its line (`_reject_variables`).
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import yaml

from ciguard.audit.filters import vstest
from ciguard.audit.filters.base import LANGUAGES, Evaluator, FilterLanguage
from ciguard.audit.filters.expression import Expression, Or, Selection, Term
from ciguard.codec.results.jsonfile import JsonObject, parse_json
from ciguard.codec.unpack_limits import read_limited
from ciguard.errors import InputError
from ciguard.workflow.check_names import has_matrix
from ciguard.workflow.conditions import bare_condition, evaluate
from ciguard.workflow.matrix import (
    EXPRESSION,
    MATRIX_PATH,
    Combination,
    combinations,
    fill,
    fill_constant,
    text_of,
    texts_of,
)
from ciguard.workflow.positions import SourceText
from ciguard.workflow.result_upload import find_result_upload
from ciguard.workflow.test_commands import expand_lists, split_commands, test_command
from ciguard.workflow.yaml_values import get, jobs_of, load, steps_of

MAX_BYTES: Final = 10 << 20  # of a matrix
MAX_SHARDS: Final = 10_000
PLACEHOLDER: Final = "<shard filter>"  # of a shard's own filter in the common filter
_NAME: Final = "ciguard-shard-filter"  # the placeholder as a word of each filter language
SEPARATOR: Final = "; "  # of the filters of a shard's commands
_MINUTE_S: Final = 60
_VARIABLE: Final = re.compile(r"\$(?:env:(\w+)|\{(?:env:)?(\w+)\}|(\w+))")
# A command's output; the scanner of words ends one without quotes at its parenthesis.
_SUBSTITUTION: Final = re.compile(r"\$\(.*|^\$$", re.DOTALL)
_REDIRECTION: Final = re.compile(r"[0-9&]?[<>]")
_AS_JSON: Final = 'give the shards as JSON: {"shards": [{"name": "a", "filter": "..."}]}'
_FIX: Final = "name the matrix key that holds the filter: --filter-key shard.filter"


@dataclass(frozen=True, slots=True)
class ShardFilter:
    """A shard with its filter.

    Attributes:
        name: as GitHub shows the job.
        text: the shard's own filter, as written; "" if the shard has none.
        expression: of `text`; None if it is not known, for the reason in `unknown`.
        project: folder of the tests; "" for all.
        artifact: name of the artifact with the test results; "" if not known.
        line: of the workflow.
    """

    name: str
    text: str
    expression: Expression | None
    project: str = ""
    timeout_s: float | None = None
    runner: str = ""
    artifact: str = ""
    line: int | None = None
    unknown: str = ""

    def written(self, term: Term) -> str:
        return self.text[term.start : term.end]


@dataclass(frozen=True, slots=True)
class HandMatrix:
    """Shards, and the filter that all of them share.

    Attributes:
        common: the shared filter, with a placeholder for the shard's own filter.
        common_text: the shared filter as written.
        job: id of the job that has the matrix; "" for shards that are given as JSON.
    """

    shards: tuple[ShardFilter, ...]
    common: Expression
    common_text: str = ""
    language: FilterLanguage = vstest
    job: str = ""


def is_placeholder(term: Term) -> bool:
    """Return whether a term of the common filter is the placeholder of the shard's own filter."""
    return bool(term.condition == _PLACEHOLDER_CONDITION)


_PLACEHOLDER_CONDITION: Final = vstest.Condition(vstest.FULL_NAME, contains=True, value=_NAME)
NO_COMMON: Final = Term(_PLACEHOLDER_CONDITION, 0, 0)


def wrap(common: Expression, own: Selection, evaluator: Evaluator) -> Selection:
    """Return the tests that the common filter selects if a shard's own filter selects `own`."""
    return evaluator.select(
        common, lambda term: own if is_placeholder(term) else evaluator.term(term)
    )


def read_json(stream: IO[bytes], source: str) -> HandMatrix:
    """Read a matrix from JSON: `{"global_filter": "(<shard filter>)&B!=c", "shards": [{"name",
    "filter", "project", "timeout_minutes", "runner"}]}`; a shard requires only its name.

    Raises:
        InputError: not such JSON, no shard, two of one name, or a filter that cannot be read.
    """
    content = parse_json(read_limited(stream, source, MAX_BYTES), source)
    matrix = JsonObject(content if isinstance(content, dict) else {"shards": content}, source)
    items = list(matrix.objects("shards"))
    if not items or len(items) > MAX_SHARDS:
        fix = 'write {"shards": [{"name": "fast", "filter": "FullyQualifiedName~Fast"}]}'
        raise InputError("no list of shards", where=source, fix=fix)
    shards = tuple(map(_shard, items))
    reject_equal_names(shards, source)
    common_text = matrix.text("global_filter")
    return HandMatrix(shards, parse_common(common_text, f"{source}: global_filter"), common_text)


def parse_common(text: str, where: str) -> Expression:
    """Parse the filter that all shards share, with one `<shard filter>` for a shard's own filter.

    Raises:
        InputError: not exactly one placeholder, or no filter.
    """
    if not text:
        return NO_COMMON
    if text.count(PLACEHOLDER) != 1:
        raise InputError(f"{PLACEHOLDER} does not occur once in it", where=where)
    return vstest.parse(text.replace(PLACEHOLDER, _NAME), where)


def reject_equal_names(shards: tuple[ShardFilter, ...], where: str) -> None:
    """Raise InputError if two shards have the same name: a report could not distinguish them."""
    for name, count in Counter(shard.name for shard in shards).items():
        if count > 1:
            fix = "give each shard a different name"
            raise InputError(f"{count} shards are named {name!r:.120}", where=where, fix=fix)


def _shard(item: JsonObject) -> ShardFilter:
    name, text = item.text("name"), item.text("filter")
    if not name:
        raise item.error("a shard has no name", fix="give each shard a name")
    minutes = item.values.get("timeout_minutes")
    if minutes is not None and item.seconds("timeout_minutes") is None:
        raise item.error(f"out of range: {minutes!r:.60}", "timeout_minutes")
    return ShardFilter(
        name=name,
        text=text,
        expression=vstest.parse(text, f"{item.source}: {item.path} ({name})"),
        project=item.text("project"),
        timeout_s=None if minutes is None else minutes * _MINUTE_S,
        runner=item.text("runner"),
    )


class _NotConstant(Exception):
    """A text that the job computes while it runs; the message names it, and a fix."""


@dataclass(frozen=True, slots=True)
class _TestStep:
    """A step of a job that runs tests.

    Attributes:
        script: as written, with expressions and variables.
        condition: "" for none.
        variables: environment of the step, the job and the workflow.
        line: of the script.
    """

    framework: str
    script: str
    condition: str
    variables: Mapping[str, str]
    line: int


def read_workflow(text: str, where: str, job: str = "", filter_key: str = "") -> HandMatrix:
    """Read the shards of a workflow's test job.

    Args:
        job: id of the job; required if several jobs have a matrix and run tests.
        filter_key: matrix key of a shard's filter, as `shard.filter`; "" to find the filter in the
            command.

    Raises:
        InputError: no workflow, no such job, a matrix that is computed, a filter with a mistake.
    """
    workflow = load(text, where)
    source = SourceText(text)
    name, steps = _find_job(workflow, source, where, job)
    value = workflow["jobs"][name]
    matrix_line = f"{where}:{source.line_number('jobs', name, 'strategy', 'matrix')}"
    matrix = value["strategy"]["matrix"]
    # GitHub would compute entries from a text that is the matrix, an axis or a list.
    axes = matrix.values() if isinstance(matrix, dict) else [matrix]
    if any(EXPRESSION.search(text) for axis in axes for text in texts_of(axis)):
        what = "the matrix is computed while the workflow runs"
        raise InputError(what, where=matrix_line, fix=_AS_JSON)
    framework = next((step.framework for step in reversed(steps) if step.framework), "")
    if not framework:
        fix = f"the filters that can be read are those of {', '.join(LANGUAGES)}"
        what = "no filters of what this step runs can be read"
        raise InputError(what, where=f"{where}:{steps[-1].line}", fix=fix)
    language = LANGUAGES[framework]
    steps = [step for step in steps if step.framework == framework]
    entries = combinations(matrix, matrix_line)
    lines = _entry_lines(source, name, len(entries))
    template = f"${{{{ matrix.{filter_key} }}}}" if filter_key else ""
    common: Expression = NO_COMMON
    common_text = ""
    commands = [words for step in steps for words in _command_words(framework, step.script)]
    if not filter_key and language is vstest and len(commands) == 1:
        # Only VSTest nests a filter in a filter.
        command_filter = vstest.find_filter(commands[0])
        at_step = f"{where}:{steps[0].line}"
        template, common, common_text = _split_filter(command_filter, at_step)
    upload = find_result_upload(value)
    artifact = upload.artifact if upload is not None else ""
    reader = _Reader(value, name, steps, language, template, artifact)
    shards = tuple(
        reader.shard(combination, index, where, line)
        for index, (combination, line) in enumerate(zip(entries, lines, strict=True))
    )
    reject_equal_names(shards, where)
    return HandMatrix(shards, common, common_text, language, name)


def _find_job(
    workflow: Any, source: SourceText, where: str, wanted: str
) -> tuple[str, list[_TestStep]]:
    """Return the id of the test job, and its steps that run tests.

    Raises:
        InputError: no such job, or several of them and no id in `wanted`.
    """
    jobs = jobs_of(workflow)
    if not jobs:
        raise InputError("no workflow: it has no jobs", where=where)
    with_matrix = [name for name in jobs if has_matrix(jobs[name])]
    if wanted and wanted not in with_matrix:
        what = f"no job {wanted!r} with a matrix"
        fix = f"jobs with a matrix: {', '.join(with_matrix) or 'none'}"
        raise InputError(what, where=where, fix=fix)
    test_jobs = {
        name: steps
        for name in ([wanted] if wanted else with_matrix)
        if (steps := list(_test_steps(workflow, name, source)))
    }
    if not test_jobs:
        what = f"no job with a matrix runs tests; jobs with a matrix: {', '.join(with_matrix)}"
        raise InputError(what if with_matrix else "no job has a matrix", where=where, fix=_AS_JSON)
    if len(test_jobs) > 1:
        what = f"several jobs with a matrix run tests: {', '.join(test_jobs)}"
        raise InputError(what, where=where, fix=f"name one of them: --matrix {where}:JOB")
    return next(iter(test_jobs.items()))


def _test_steps(workflow: Any, name: str, source: SourceText) -> Iterator[_TestStep]:
    """Yield the steps of a job that run tests, in their order."""
    job = workflow["jobs"][name]
    for number, step in steps_of(job):
        script = step.get("run")
        framework = _framework(script) if isinstance(script, str) else None
        if framework is not None:
            variables: dict[str, str] = {}
            for level in (workflow, job, step):
                env = get(level, "env")
                env = env if isinstance(env, dict) else {}
                variables |= {str(key): text_of(value) for key, value in env.items()}
            line = source.line_number("jobs", name, "steps", number, "run")
            condition = bare_condition(text_of(step.get("if", "")))
            yield _TestStep(framework, str(script), condition, variables, line)


def _framework(script: str) -> str | None:
    """Return the framework of a script; "" for an unknown one, None if no test runs."""
    frameworks = [framework for framework, _ in _commands(script)]
    return next(filter(None, frameworks), "" if frameworks else None)


def _command_words(framework: str, script: str) -> Iterator[list[str]]:
    """Yield the words of the commands that run this framework, without redirections."""
    for name, words in _commands(script):
        if name == framework:
            end = next((at for at, word in enumerate(words) if _REDIRECTION.match(word)), None)
            yield words[:end]


def _commands(script: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (framework, words) of the commands that run tests; "" for one without known filters."""
    for words in split_commands(expand_lists(script)):
        if (command := test_command(words)) is not None:
            yield command.framework if command.framework in LANGUAGES else "", words


def _split_filter(command_filter: str, where: str) -> tuple[str, Expression, str]:
    """Split the filter of a command into the shard's own part and the common filter around it.

    GitHub inserts text into text: `a|b` in `<filter>&c` becomes `a|(b&c)`. So only a part in
    parentheses is a filter of its own; without such a part, all results are empty.
    """
    expressions = list(EXPRESSION.finditer(command_filter))
    if len(expressions) == 1 and MATRIX_PATH.fullmatch(expressions[0][1]):
        start, end = expressions[0].span()
        text = command_filter[:start] + PLACEHOLDER + command_filter[end:]
        if f"({PLACEHOLDER})" in text:
            # The common filter may hold other variables, and is no filter then.
            with contextlib.suppress(InputError):
                return expressions[0][0], parse_common(text, where), text
    return "", NO_COMMON, ""


@dataclass(frozen=True, slots=True)
class _Reader:
    job: Mapping[str, Any]
    name: str
    steps: Sequence[_TestStep]
    language: FilterLanguage
    template: str
    artifact: str

    def shard(self, combination: Combination, index: int, where: str, line: int) -> ShardFilter:
        """Return the shard of the combination at position `index` of the matrix.

        Raises:
            InputError: the filter has a mistake.
        """
        values = combination.values
        title = self.job.get("name")
        name = fill_constant(title, values, index) or self.name
        if combination.label and (name == self.name or not EXPRESSION.search(str(title))):
            name = f"{name} ({combination.label})"
        unknown, project, expression = "", "", None
        texts: list[str] = []
        projects: list[str] = []
        line_of_step = self.steps[0].line
        try:
            for step in self.steps:
                line_of_step = step.line
                if len(self.steps) > 1 and not _is_run(step.condition, values):
                    continue
                # As GitHub does, fill in the values before the shell divides the script into words.
                for words in _command_words(step.framework, _fill_in(step, step.script, values)):
                    own = _fill_in(step, self.template, values)
                    texts.append(own or self.language.find_filter(words))
                    projects.append(vstest.find_project(words) if self.language is vstest else "")
                    project = projects[0]
                    _reject_variables(texts[-1], _FIX)
                    _reject_variables(projects[-1], _AS_JSON)
            if len({*projects}) > 1:
                raise _NotConstant(f"its commands test several projects; {_AS_JSON}")
            expression = self._union(texts, f"{where}:{line} ({name})")
        except _NotConstant as error:
            unknown = f"line {line_of_step}: {error}"
        text = SEPARATOR.join(texts)
        minutes = fill_constant(self.job.get("timeout-minutes"), values)
        return ShardFilter(
            name=name,
            text=text,
            expression=expression,
            project=project,
            timeout_s=float(minutes) * _MINUTE_S if re.fullmatch(r"\d+(\.\d+)?", minutes) else None,
            runner=fill_constant(self.job.get("runs-on"), values),
            artifact=fill_constant(self.artifact, values, index),
            line=line,
            unknown=unknown,
        )

    def _union(self, texts: Sequence[str], where: str) -> Expression:
        """Parse filters, each at its position in the text of the shard: any may select a test."""
        expressions = []
        start = 0
        for text in texts:
            expressions.append(self.language.parse(" " * start + text, where))
            start += len(text) + len(SEPARATOR)
        return expressions[0] if len(expressions) == 1 else Or(tuple(expressions))


def _fill_in(step: _TestStep, text: str, values: Mapping[str, Any]) -> str:
    """Fill the values of the matrix and the variables of the workflow into a text."""

    def variable(match: re.Match[str]) -> str:
        name = next(filter(None, match.groups()))
        return step.variables.get(name, match[0])

    parts = EXPRESSION.split(text)  # text, expression, text, ...
    parts[::2] = [_VARIABLE.sub(variable, part) for part in parts[::2]]
    parts[1::2] = [f"${{{{ {part} }}}}" for part in parts[1::2]]
    return fill("".join(parts), values)


def _is_run(condition: str, values: Mapping[str, Any]) -> bool:
    """Return whether a step runs in a push or a pull request in which no step before it fails."""

    def literal(match: re.Match[str]) -> str:
        text = fill(f"${{{{ {match[0]} }}}}", values)
        return text if text in ("true", "false") else f"'{text}'"

    filled = MATRIX_PATH.sub(literal, condition)
    runs = {evaluate(filled, event) for event in ("push", "pull_request")}
    if None in runs and True not in runs:
        raise _NotConstant(f"only a run knows whether the step runs: if: {condition:.60}")
    return True in runs


def _reject_variables(text: str, fix: str) -> None:
    """Raise _NotConstant for a filter with an expression, a variable or the output of a command."""
    match = EXPRESSION.search(text) or _VARIABLE.search(text) or _SUBSTITUTION.search(text)
    if match is not None:
        raise _NotConstant(f"{match[0]} is not constant; {fix}")


def _entry_lines(source: SourceText, job: str, count: int) -> Sequence[int]:
    """Return the line of each combination: of its entry in the list, or of the whole matrix."""
    matrix = source.find("jobs", job, "strategy", "matrix")
    node = matrix.value if matrix is not None else None
    if isinstance(node, yaml.MappingNode) and len(node.value) == 1:
        items = node.value[0][1]
        if isinstance(items, yaml.SequenceNode) and len(items.value) == count:
            return [int(item.start_mark.line) + 1 for item in items.value]
    return [source.line_number("jobs", job, "strategy", "matrix")] * count
