"""The configuration: `ciguard.toml` or pyproject.toml ([tool.ciguard]), and CIGUARD_* variables.

sections.py has the keys. An unknown key is an error with a suggestion, and all mistakes are
reported together. The flags of a command override the configuration.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from ciguard.config.sections import (
    CoverageConfig,
    CulpritConfig,
    ExperimentConfig,
    GuardConfig,
    HistoryConfig,
    MetricConfig,
    MetricsConfig,
    NewTestsConfig,
    PlanConfig,
    PolicyConfig,
    PoolConfig,
    ReportConfig,
    Section,
    SuiteConfig,
    Texts,
    WorkflowConfig,
)
from ciguard.errors import CiguardError, UsageError, combine
from ciguard.logs.pattern import VALUE, LogPattern, literal_triggers
from ciguard.logs.pattern_table import PATTERNS, Direction, directions
from ciguard.logs.process_logs import ProcessLogs
from ciguard.logs.values import SCALES, SPANS
from ciguard.run.frameworks.globs import check_pattern
from ciguard.run.frameworks.registry import FRAMEWORKS

FILE: Final = "ciguard.toml"
FILES: Final = (FILE, "pyproject.toml")  # the first existing one counts

# The validator uses names of Python's types; these are the words for TOML and for flags.
_EXPECTED: Final = {
    "tuple_type": "expected a list",
    "dict_type": "expected a table",
    "model_type": "expected a table",
    "string_type": "expected text",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "greater_than": "expected more than {gt:g}",
    "greater_than_equal": "expected at least {ge:g}",
    "less_than": "expected less than {lt:g}",
    "less_than_equal": "expected at most {le:g}",
    "string_too_short": "expected text that is not empty",
    "literal_error": "expected {expected}",
    "finite_number": "expected a finite number",
}


class Config(Section):
    """All sections of the configuration."""

    actions: str = Field(
        "",
        description="repository of ciguard's actions, as `OWNER/ciguard@COMMIT`",
    )
    plan: PlanConfig = PlanConfig()
    policy: PolicyConfig = PolicyConfig()
    guard: GuardConfig = GuardConfig()
    new_tests: NewTestsConfig = NewTestsConfig()
    coverage: CoverageConfig = CoverageConfig()
    history: HistoryConfig = HistoryConfig()
    report: ReportConfig = ReportConfig()
    metrics: MetricsConfig = MetricsConfig()
    experiment: ExperimentConfig = ExperimentConfig()
    culprit: CulpritConfig = CulpritConfig()
    workflow: WorkflowConfig = WorkflowConfig()
    owners: dict[str, Texts] = Field(
        {},
        description="owners of files: the key is a pattern of files, the value a list of owners; "
        "these entries override CODEOWNERS",
    )
    routes: dict[str, str] = Field(
        {},
        description=(
            "where ciguard [notifies](../how-to/connect-a-service.md#tell-owners) each owner: "
            'the key is the owner, the value is `"issue"` or the name of a webhook'
        ),
    )
    suite: dict[str, SuiteConfig] = Field(default_factory=lambda: {"": SuiteConfig()})
    pool: dict[str, PoolConfig] = Field(default_factory=lambda: {"default": PoolConfig()})


# Environment variables that set a key; others are added on request.
ENVIRONMENT: Final[dict[str, tuple[str, ...]]] = {
    "CIGUARD_ACTIONS": ("actions",),
    **{f"CIGUARD_PLAN_{key.upper()}": ("plan", key) for key in PlanConfig.model_fields},
    **{f"CIGUARD_POLICY_{key.upper()}": ("policy", key) for key in PolicyConfig.model_fields},
    "CIGUARD_HISTORY_STORE": ("history", "store"),
}
# Variables with secrets. The modules that use a secret read it, and no file may contain one.
SECRETS: Final = frozenset({"CIGUARD_HISTORY_TOKEN"})
_SECTIONS: Final = ("CIGUARD_PLAN_", "CIGUARD_POLICY_", "CIGUARD_HISTORY_")


def load(folder: Path, environ: Mapping[str, str]) -> Config:
    """Read the configuration of a folder; without a file, return the defaults.

    Raises:
        UsageError: has every mistake of the file and of the environment.
    """
    return parse(_read(folder), environ)


def parse(texts: Mapping[str, bytes], environ: Mapping[str, str]) -> Config:
    """Read the configuration from contents of `FILES`, by name; missing files are omitted.

    Raises:
        UsageError: as in `load`.
    """
    source, content = _content(texts)
    known = {*ENVIRONMENT, *SECRETS}
    unknown = [name for name in environ if name.startswith(_SECTIONS) and name not in known]
    if unknown:
        raise combine([_unknown_variable(name) for name in sorted(unknown)])
    origins: dict[tuple[str, ...], str] = {}
    for name, keys in ENVIRONMENT.items():
        if environ.get(name):
            origins[keys] = name
            _set(content, keys, environ[name])
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        raise combine(list(_mistakes(error, source, origins))) from None
    return _checked(config, source)


def log_patterns(config: Config) -> tuple[LogPattern, ...]:
    bounds = config.metrics.patterns
    return (
        *(
            replace(row, at_most=bounds[row.name].at_most)
            if row.kind == "failure" and row.name in bounds
            else row
            for row in PATTERNS
        ),
        *(
            pattern
            for name, row in config.metrics.patterns.items()
            if row.pattern
            for pattern in user_patterns(name, **row.model_dump())
        ),
    )


def user_patterns(
    name: str, pattern: str, *, unit: str, within: str,
    at_least: float | None, at_most: float | None, **facts: Any,  # key, better, exact
) -> Iterator[LogPattern]:  # fmt: skip
    """Yield the row of `within`, if set, and the row of values, which `find_mistakes` accepts."""
    fields = {VALUE: unit} if VALUE in re.compile(pattern).groupindex else {}
    scale = SCALES.get(unit, (1, ""))[0]
    low, high = (bound and bound * scale for bound in (at_least, at_most))
    row = LogPattern(name, pattern, fields=fields, at_least=low, at_most=high, **facts)
    if within:  # first, because one line may contain the object and its value
        groups = tuple(re.compile(within).groupindex)
        yield (context := LogPattern(f"{name}.within", within, kind="context", key=groups))
        row = replace(row, contexts=(context.name,))
    yield row


def find_mistakes(
    pattern: str, unit: str, key: tuple[str, ...] | None
) -> Iterator[tuple[str, str, str]]:
    """Yield each mistake of a row: the key of the configuration, the mistake, and a fix.

    For the pattern of `within`, `key` is None: every group identifies values.
    """
    if not pattern:
        return
    # Imported here: a configuration without such patterns needs no RE2.
    from ciguard.logs.log_reader import compile_pattern  # noqa: PLC0415

    try:
        compile_pattern(pattern)
        groups = re.compile(pattern).groupindex
    except ValueError as error:
        yield "pattern", str(error), "no lookaround, no backreference"
        return
    except re.error as error:
        yield "pattern", f"no regular expression: {error}", "use what RE2 and Python share"
        return
    if key is None and not groups:
        yield "pattern", f"no named group in {pattern!r}", "name what differs: (?P<kernel>...)"
    elif key is not None and VALUE not in groups:
        known = {*key, *(f"{name}_text" for name in key)}
        for name in groups:
            if name not in known:
                what = f"the group {name!r} has no use, as there is no group {VALUE!r}"
                fix = f"name the number {VALUE}, add {name} to key, or write (?:...)"
                yield "pattern", what, fix
    if not literal_triggers(pattern):
        fix = "write three plain characters in a row that each line has, outside of any group"
        yield "pattern", f"no plain text in {pattern!r}, which would be slow", fix
    for name in key or ():
        if name not in groups:
            yield "key", f"no group (?P<{name}>...) in the pattern", "name groups of the pattern"
    units = (*filter(None, SCALES), *SPANS)
    if unit and unit not in units:
        yield "unit", f"no unit {unit!r}", f"there are {', '.join(units)}"


def metric_directions(config: Config) -> dict[str, Direction]:
    """Return the better direction of each metric, by the table and by the configuration."""
    found = directions(log_patterns(config))
    facts = {"better", "exact", "at_least", "at_most"}
    for name, row in config.metrics.patterns.items():
        if not row.pattern:
            stated = row.model_dump(include=facts, exclude_unset=True)
            found[name] = replace(found.get(name, Direction(None)), **stated)
    return found


def process_log_reader(config: Config) -> ProcessLogs | None:
    """Return a reader of process logs; None if the history keeps no metrics and none has a bound.

    A run with 128 shards prints gigabytes, which are read only for configured metrics.
    """
    rows = config.metrics.patterns.values()
    is_bounded = any((row.at_least, row.at_most) != (None, None) for row in rows)
    return ProcessLogs(log_patterns(config)) if config.metrics.keep or is_bounded else None


def configured_by(folder: Path) -> str:
    """Return which of `FILES` configures a folder; "" for none.

    A pyproject.toml counts if it has a table [tool.ciguard].

    Raises:
        UsageError: the file cannot be read, or is no TOML.
    """
    texts = _read(folder)
    _, content = _content(texts)
    return next((name for name in texts if name == FILE or content), "")


def _read(folder: Path) -> dict[str, bytes]:
    """Read the first existing file of `FILES`."""
    for path in (folder / name for name in FILES):
        try:
            if path.is_file():
                return {path.name: path.read_bytes()}
        except OSError as error:
            raise UsageError(str(error), where=path.name, fix="fix the file") from error
    return {}


def _content(texts: Mapping[str, bytes]) -> tuple[str, dict[str, Any]]:
    name = next((name for name in FILES if name in texts), FILE)
    try:
        content = tomllib.loads(texts.get(name, b"").decode("utf-8"))
    except (ValueError, RecursionError) as error:  # 5,000 digits are a ValueError
        raise UsageError(str(error), where=name, fix="fix the file") from error
    if name == FILE:
        return FILE, content
    tools = content.get("tool")
    table = tools.get("ciguard", {}) if isinstance(tools, dict) else {}
    return f"{name}: tool.ciguard", table


def _unknown_variable(name: str) -> CiguardError:
    close = difflib.get_close_matches(name, ENVIRONMENT, n=1)
    fix = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(ENVIRONMENT))}"
    return UsageError("sets no key of the configuration", where=f"environment: {name}", fix=fix)


def _set(content: Any, keys: tuple[str, ...], text: str) -> None:
    for key in keys[:-1]:
        content = content.setdefault(key, {}) if isinstance(content, dict) else None
    is_list = keys == ("policy", "fail_on")
    if isinstance(content, dict):  # validation refuses other values
        content[keys[-1]] = [word for word in text.split(",") if word] if is_list else text


def _mistakes(
    error: ValidationError, source: str, origins: Mapping[tuple[str, ...], str]
) -> Iterator[CiguardError]:
    for detail in error.errors():
        location = tuple(str(part) for part in detail["loc"])
        where = origins.get(location, f"{source}: {'.'.join(location)}")
        if detail["type"] == "extra_forbidden":
            yield UsageError("unknown key", where=where, fix=_suggestion(location))
        else:
            yield UsageError(describe_mistake(detail), where=where)


def _suggestion(location: tuple[str, ...]) -> str:
    """Return the most similar key as a fix; without a similar key, list all keys."""
    section: Any = Config
    parts = iter(location[:-1])
    for part in parts:
        field = section.model_fields.get(part)
        section = field.annotation if field is not None else MetricConfig  # [metrics.NAME]
        if type_arguments := get_args(section):  # sections by name, or in a list
            section = next(each for each in type_arguments[::-1] if each is not Ellipsis)
            next(parts, None)
    known = [field.alias or name for name, field in section.model_fields.items()]
    close = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}"


def _pattern_errors(patterns: Iterable[str], where: str) -> Iterator[CiguardError]:
    for pattern in patterns:
        try:
            check_pattern(pattern, where=where)
        except UsageError as error:
            yield error


def _metric_errors(config: Config, source: str) -> Iterator[CiguardError]:
    for name, metric in config.metrics.patterns.items():
        where = f"{source}: metrics.{name}"
        if not metric.pattern and (metric.unit or metric.key or metric.within):
            key = "unit" if metric.unit else "key" if metric.key else "within"
            fix = "give it a pattern; a metric of a record has its own unit and key"
            yield UsageError("of no pattern", where=f"{where}.{key}", fix=fix)
        bounds = [one for one in (metric.at_least, metric.at_most) if one is not None]
        if bounds != sorted(bounds):
            fix = "make at_most the larger one"
            yield UsageError("above at_most", where=f"{where}.at_least", fix=fix)
        for key, what, fix in (
            *find_mistakes(metric.pattern, metric.unit, metric.key),
            *(("within", what, fix) for _, what, fix in find_mistakes(metric.within, "", None)),
        ):
            yield UsageError(what, where=f"{where}.{key}", fix=fix)
    if "" in config.metrics.keep:
        fix = "name metrics, or patterns such as xla.*"
        yield UsageError("a name without a character", where=f"{source}: metrics.keep", fix=fix)


def _suite_errors(suite: SuiteConfig, config: Config, where: str) -> Iterator[CiguardError]:
    if suite.framework not in FRAMEWORKS:
        fix = f"there are {', '.join(FRAMEWORKS)}"
        what = f"no framework {suite.framework!r}"
        yield UsageError(what, where=f"{where}.framework", fix=fix)
    if suite.results and suite.framework != "command":
        what = f"framework {suite.framework} tells its results by itself"
        yield UsageError(what, where=f"{where}.results", fix="leave the key out")
    yield from _pattern_errors(suite.results, f"{where}.results")
    for key, other in (("needs", "gpu"), ("limits", "time")):
        for number, row in enumerate(getattr(suite, key)):
            if row.memory is None and getattr(row, other) is None:
                fix = f"set memory, {other} or both"
                yield UsageError("declares nothing", where=f"{where}.{key}.{number}", fix=fix)
    if suite.pool is not None and suite.pool not in config.pool:
        fix = f"use {', '.join(sorted(config.pool))}"
        yield UsageError(f"no pool {suite.pool!r}", where=f"{where}.pool", fix=fix)


def _checked(config: Config, source: str) -> Config:
    mistakes = list(_metric_errors(config, source))
    mistakes += _pattern_errors(config.coverage.paths, f"{source}: coverage.paths")
    if config.coverage.model_fields_set and not config.coverage.format:
        fix = "name that of the files that the tool writes"
        mistakes.append(UsageError("no format", where=f"{source}: coverage.format", fix=fix))
    for name in set(config.coverage.suites if "suite" in config.model_fields_set else ()):
        if name not in config.suite:
            where, fix = f"{source}: coverage.suites", f"there are {', '.join(config.suite)}"
            mistakes.append(UsageError(f"no suite {name!r}", where=where, fix=fix))
    for name, suite in config.suite.items():
        mistakes += _suite_errors(suite, config, f"{source}: suite.{name}")
    for section, entries in (("suite", config.suite), ("pool", config.pool)):
        if not entries:
            mistakes.append(UsageError(f"no {section} at all", where=source, fix="remove the key"))
    if mistakes:
        raise combine(mistakes)
    return config


def describe_mistake(detail: ErrorDetails) -> str:
    """Return the expected value and the value found, in words."""
    message = detail["msg"].removeprefix("Value error, ")
    form = _EXPECTED.get(detail["type"])
    text = form.format(**detail.get("ctx", {})) if form else message[:1].lower() + message[1:]
    return f"{text}, found {detail['input']!r:.60}"
