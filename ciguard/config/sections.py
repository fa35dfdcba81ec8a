"""The sections of the configuration: keys, types, defaults and descriptions."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ciguard.config.declared_memory import BYTES_BY_UNIT, parse_size
from ciguard.model import EmptyPolicy, FailCondition, GuardRail
from ciguard.run.frameworks.registry import DEFAULT
from ciguard.text import parse_seconds

MAX_EXIT_CODE: Final = 255


def seconds(value: object) -> object:
    """Convert "10m", "1h30m", "90s" or a number of seconds to a float; keep any other value."""
    if isinstance(value, str):
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value)
        return parse_seconds(value)
    return value


def size_bytes(value: object) -> object:
    """Convert "16GB", "500MiB" or a number of bytes to an int; keep any other value."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d{1,18}(?:\.\d+)?) ?([A-Za-z]*)", value)
        if match and match[2] in BYTES_BY_UNIT:
            return int(float(match[1]) * BYTES_BY_UNIT[match[2]])
        raise ValueError('expected a size like "16GB" or "500MiB"')
    return value


def share(value: object) -> object:
    """Convert "95%" to 0.95; return any other value."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?) ?%", value) if isinstance(value, str) else None
    return float(match[1]) / 100 if match else value


def size_expression(value: object) -> object:
    """Check a size, or an expression of sizes, and return it as text; keep any other value."""
    text = str(value) if type(value) is int else value
    if isinstance(text, str):
        parse_size(text)
    return text


def exit_codes(value: object) -> object:
    """Check an exit code, 8 or "8", or a range such as "1-255", and return it as text."""
    text = str(value) if type(value) is int else value
    match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", text) if isinstance(text, str) else None
    if match is None or not 0 < int(match[1]) <= int(match[2] or match[1]) <= MAX_EXIT_CODE:
        raise ValueError('expected an exit code from 1 to 255, or a range like "1-255"')
    return text


def variable_name(value: object) -> object:
    """Check the name of an environment variable; return a value that is not text."""
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("expected the name of an environment variable")
    return value


def _check_labels(value: Any) -> Any:
    """Refuse values that JSON has not, as -inf or a date: the plan could not hold them."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("expected a label, a list of labels, or a table of them") from None
    return value


Seconds = Annotated[float, BeforeValidator(seconds), Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, BeforeValidator(size_bytes), Field(ge=0)]
SizeExpression = Annotated[str, BeforeValidator(size_expression)]
Texts = tuple[str, ...]
ExitCodes = tuple[Annotated[str, BeforeValidator(exit_codes)], ...]
UnitPattern = Annotated[
    str,
    Field(min_length=1, description="pattern of tests, as in `exclude`; the first entry counts"),
]
VariableNames = tuple[Annotated[str, BeforeValidator(variable_name)], ...]


class Section(BaseModel):
    """A frozen section; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class VariantConfig(Section):
    """[suite.NAME.variant.NAME]: one way to run a suite."""

    args: Texts = Field((), description="arguments, added after those of the suite")
    env: dict[str, str] = Field(
        {}, description="environment variables, added to those of the suite"
    )


class NeedsConfig(Section):
    """[[suite.NAME.needs]]: needs of tests without measurements."""

    units: UnitPattern
    memory: SizeExpression | None = Field(
        None, description="memory of one such test, above that of its process"
    )
    gpu: SizeExpression | None = Field(
        None, description='memory of one GPU that a test needs, such as `"sharded(22GiB, 4)"`'
    )


class LimitsConfig(Section):
    """[[suite.NAME.limits]]: absolute limits by which `guard` judges tests that passed."""

    units: UnitPattern
    memory: Bytes | None = Field(
        None,
        gt=0,
        description="peak memory of a test, or of a file whose tests share one, above its start",
    )
    time: Seconds | None = Field(None, description="time of a test, which is not stopped")


class SuiteConfig(Section):
    """[suite.NAME]: tests with one framework, working folder and arguments."""

    framework: str = Field(
        DEFAULT, description="[framework](frameworks.md) that lists and runs the tests"
    )
    command: Texts = Field(
        (), description="program that runs the tests (default: the framework's own)"
    )
    list_command: Texts = Field(
        (),
        alias="list",
        description='command that prints one test per line; required if `framework = "command"`',
    )
    cwd: str = Field(".", description="working folder, relative to the root of the repository")
    args: Texts = Field((), description="arguments for listing and running the tests")
    env: dict[str, str] = Field(
        {}, description="environment variables for listing and running the tests"
    )
    files: Texts = Field(
        (),
        description=(
            "patterns that recognise test files (default: the framework's); the run is incomplete "
            "if such a file had tests on the base and now has none"
        ),
    )
    exclude: Texts = Field((), description="patterns of tests that are never run")
    results: Texts = Field(
        (), description="Result files that the command writes (JUnit, TRX, JSON, ...), from `cwd`"
    )
    failed_exit_codes: ExitCodes = Field(
        (),
        description=(
            "exit codes of the command that mean failed tests, beside 1: `[8]`, or a range such as "
            '`["1-255"]`; any other is a crash'
        ),
    )
    closes_units: bool = Field(
        False,  # a default
        description=(
            "the command writes an event `closed` when a test is over: one without it died, "
            "whatever results it has"
        ),
    )
    parallel: bool | None = Field(
        None,
        description=(
            'tests of `framework = "dotnet"`, or methods of a class of `maven`, that run side by '
            "side in their process (default: as the project says; NUnit one at a time)"
        ),
    )
    workers: Literal["auto", "tool"] = Field(
        "auto", description="`tool`: as many tests at once as it starts; `auto`: as memory holds"
    )
    timeout: Seconds | None = Field(None, description="time limit of one unit: a test, or a file")
    timeout_ratio: float | None = Field(
        None,
        ge=2,
        allow_inf_nan=False,
        description=(
            "time limit of a test as a multiple of its longest past time, never below 1m; "
            "tests without a past have no such limit"
        ),
    )
    pool: str | None = Field(None, description="pool that runs the tests (default: the first pool)")
    needs: tuple[NeedsConfig, ...] = Field(
        (), description="memory that tests are declared to need, one table each"
    )
    limits: tuple[LimitsConfig, ...] = Field(
        (), description="memory and time above which a passed test fails, one table each"
    )
    variant: dict[str, VariantConfig] = Field(
        {},
        description="variants of the suite, one table each (default: one variant without a name)",
    )


class PoolConfig(Section):
    """[pool.NAME]: a kind of runner for jobs."""

    runs_on: Annotated[Any, AfterValidator(_check_labels)] = Field(
        "ubuntu-latest",
        description="value of `runs-on` in the workflow: a label, a list of labels, or a table",
    )
    cpus: int | None = Field(
        None, ge=1, description="number of CPUs (default: known for GitHub's runners)"
    )
    memory: Bytes | None = Field(
        None, description="memory of the machine (default: known for GitHub's runners)"
    )
    reserve: Bytes = Field(
        2**30, description="memory that the runner itself needs; tests do not get it"
    )
    gpu_memory: Bytes | None = Field(
        None,
        description=(
            "memory of one GPU; a test that declares more runs in another pool (default: the pool "
            "has no GPU)"
        ),
    )
    price: float | None = Field(
        None, ge=0, description="price of a minute in USD (default: known for GitHub's runners)"
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        description=(
            "number of jobs of this pool that run at once; used to choose the number of shards, "
            "not enforced (default: no limit)"
        ),
    )
    setup: Seconds | None = Field(
        None, description="time of a job before its tests start (default: from the history)"
    )
    env: dict[str, str] = Field({}, description="environment variables of the jobs in this pool")


class PlanConfig(Section):
    """[plan]: defaults of `ciguard plan`."""

    shards: int | None = Field(
        None, ge=1, le=256, description="shards (default: by `target_wall`, else by count)"
    )
    target_wall: Seconds = Field(
        600.0, description="wall time of a shard to aim at; decides the number of shards"
    )
    limit: Seconds = Field(2700.0, description="time limit of the step that runs a shard")
    setup: Seconds = Field(
        300.0,
        description=(
            "time that a job may take besides that step, for checkout and installation; the "
            "limit of the job is `limit` plus this time"
        ),
    )
    risk: float = Field(
        0.01, gt=0, lt=1, description="accepted probability that any shard exceeds its deadline"
    )
    processes: int = Field(
        1, ge=1, le=256, description="largest number of concurrent test processes in a job"
    )
    group: Literal["none", "file", "file-strict", "fixture"] = Field(
        "file",
        description=(
            "tests that stay in one shard. `file`: tests of a file, unless balance needs a "
            "division; `file-strict`: tests of a file, always; `fixture`: only tests of files with "
            "expensive shared fixtures; `none`: each test alone"
        ),
    )
    claims: str = Field(
        "",
        description=(
            "address of a service (`ciguard serve`) that shards ask for tests during the run, so "
            "that the short tests of a late shard move to one that has time: https://HOST"
        ),
    )


class PolicyConfig(Section):
    """[policy]: retries and guard rail of a leg, and findings that fail a run."""

    fail_on: tuple[FailCondition, ...] = Field(
        ("new-failure", "timeout", "oom"), description="findings of the comparison that fail a run"
    )
    guard_rail: GuardRail = Field(
        "auto", description="action on low memory; see [supervision](../explanation/supervision.md)"
    )
    retries: int = Field(
        0,
        ge=0,
        le=9,
        description=(
            "number of retries of a failed test; a retry repeats the test and, before it, all "
            "tests that ran before it in the same process (without effect for a suite with "
            "`results`)"
        ),
    )
    probe: bool = Field(
        True, description="[extra tries](../how-to/flaky-tests.md#extra-tries) of new failures"
    )


class GuardConfig(Section):
    """[guard]: conditions of an incomplete run, and failures that are excused."""

    max_drop: float = Field(
        0.01,
        ge=0,
        le=1,
        description=(
            "share of the base's tests of a suite and variant, rounded up, that may be missing"
        ),
    )
    min_units: int | None = Field(
        None, ge=1, description="accepts a larger drop, if so many tests are planned in all"
    )
    min_executed: Annotated[float | None, BeforeValidator(share)] = Field(
        None,
        gt=0,
        le=1,
        description='share of listed tests that must run: `"95%"`; a skip is no run',
    )
    orphans: int = Field(
        0, ge=0, description="accepted number of tests in no shard (plan of `ciguard audit -o`)"
    )
    empty: EmptyPolicy = Field(
        "incomplete", description="verdict of a run or suite in which every test was skipped"
    )
    cached_results: Literal["warn", "fail"] = Field(
        "warn", description="effect of result files that are older than their job (a build cache)"
    )
    ignore_base_failures: bool = Field(
        False, description="a test that also fails on the base branch does not fail a pull request"
    )


class NewTestsConfig(Section):
    """[new_tests]: repeats of tests that a pull request adds or changes."""

    policy: Literal["report", "enforce", "off"] = Field(
        "report",
        description=(
            "effect of a repeat that fails: a warning, or a failed run; `off` repeats no test"
        ),
    )
    budget: Annotated[float, BeforeValidator(share)] = Field(
        0.05,
        gt=0,
        le=1,
        description=(
            'time for repeats in each shard, `"5%"` of the run: they end when so much more than '
            "the predicted time of the longest shard has passed"
        ),
    )
    at_most: int = Field(200, ge=1, description="tests that are repeated in a run")


class CoverageConfig(Section):
    """[coverage]: the coverage of all shards together."""

    format: Literal["", "coverage.py", "lcov", "go", "cobertura", "opencover"] = Field(
        "", description="format of the tool's files; `coverage.py`: its data files"
    )
    paths: Texts = Field(
        (), description="patterns of these files in a suite's folder (default: the tool's habit)"
    )
    suites: Texts = Field((), description="suites that collect coverage (default: all)")
    without: Texts = Field((), description="patterns of variants that collect none, as `*pypy*`")
    minimum: float | None = Field(None, ge=0, le=100, description="lowest accepted total, in %")
    diff_minimum: float | None = Field(
        None, ge=0, le=100, description="lowest accepted share of a pull request's lines, in %"
    )


class HistoryConfig(Section):
    """[history]: the store of past runs."""

    store: str = Field(
        "branch:ciguard-history",
        description="`branch:NAME`, the `https:` address of a service, or the path of a file",
    )

    @property
    def in_branch(self) -> bool:
        """Return whether the store is a branch, which a job of the workflow writes."""
        return self.store.startswith("branch:")

    @property
    def in_service(self) -> bool:
        """Return whether the store is a service, which alone writes it."""
        return self.store.startswith("https:")


class ReportConfig(Section):
    """[report]: options of `ciguard report`."""

    by: Literal["workflow", "service"] = Field(
        "workflow",
        description=(
            "who comments on pull requests: the workflow's job, or `ciguard serve`; the job judges "
            "in both cases"
        ),
    )
    footer: str = Field(
        "",
        max_length=1000,
        description=(
            "Markdown text at the end of comment, summary, check and issue; at most 1,000 "
            "characters"
        ),
    )


class MetricConfig(Section):
    """[metrics.NAME]: a number, or a text, that `ciguard compare` looks for in logs."""

    pattern: str = Field(
        "",
        description=(
            "regular expression (RE2) of a line of a log; the group `(?P<value>...)` is the "
            "number, `(?P<value_unit>...)` its unit; without a number, lines are counted. A metric "
            "that a program writes to its record needs none"
        ),
    )
    unit: str = Field(
        "",
        description="unit of the number: `B`, `KiB`, `MB`, `ms`, `s`, `hms` (`1h2m3s`), `%`, ...",
    )
    key: Texts = Field(
        (), description="groups that must be equal in two logs for the numbers to be compared"
    )
    within: str = Field(
        "",
        description=(
            "regular expression of a line that names what the values after it are of, such as a "
            "kernel; its named groups belong to the key"
        ),
    )
    better: Literal["lower", "higher", ""] = Field("", description="direction that is better")
    exact: bool = Field(
        False, description="equal programs print equal numbers: any difference is a change"
    )
    at_least: float | None = Field(
        None,
        allow_inf_nan=False,
        description=(
            "smallest number, in `unit` (else in bytes or seconds), or smallest number of lines; "
            "a smaller one is worse, and so is a run or log without any"
        ),
    )
    at_most: float | None = Field(
        None, allow_inf_nan=False, description="largest number, as `at_least`"
    )


class MetricsConfig(Section):
    """[metrics]: metrics that the history keeps; each table in it is a pattern of a log line."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, MetricConfig] = Field(init=False)

    keep: Texts = Field(
        (),
        description=(
            'names or patterns of metrics that the history keeps, such as `["step", "xla.*"]`; '
            "`compare` judges them"
        ),
    )
    conditions: VariableNames = Field(
        (),
        description=(
            "environment variables that each job writes into its record; `compare` shows those "
            "that differ first. Do not name a secret"
        ),
    )

    @property
    def patterns(self) -> dict[str, MetricConfig]:
        """Return the tables [metrics.NAME], by name."""
        return self.__pydantic_extra__


class ExperimentConfig(Section):
    """[experiment]: preparation of a checkout by `ciguard experiment --base --head`."""

    setup: str = Field(
        "",
        description=(
            "shell command that prepares the checkout of each commit, outside of the time budget"
        ),
    )
    path: Texts = Field(
        (".venv/bin", "node_modules/.bin"),
        description="folders of the checkout that come first on `PATH`, if they exist",
    )


class CulpritConfig(Section):
    """[culprit]: search for the commit that made the base branch red, by the workflow."""

    on_red: bool = Field(
        False,
        description=(
            "add jobs that search for the commit after a push to the base branch in which a test "
            "newly fails or has regressed, and that write the answer into the branch's issue"
        ),
    )
    budget: Seconds = Field(1200.0, description="time of one search")
    per_day: Seconds = Field(3600.0, description="time of all searches in 24 hours together")


class WorkflowConfig(Section):
    """[workflow]: contents of the workflow that `ciguard init` writes."""

    setup: str = Field(
        "", description="steps (YAML) that every job runs before its tests; copied unchanged"
    )
    checkpoint: Seconds | None = Field(
        None,
        description="interval at which a job uploads its record, so that a lost runner loses less",
    )
    forks: bool = Field(
        False, description="also write a workflow that comments on pull requests from forks"
    )
    confirm_suspects: bool = Field(
        False, description="add jobs that run the suspects of a pull request again on both commits"
    )
    pages: Literal["", "public"] = Field(
        "",
        description=(
            "`public`: add a job that publishes the history on GitHub Pages (`ciguard site`), "
            "which anybody may read, also those of most private repositories"
        ),
    )
