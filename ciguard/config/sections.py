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
    Field(
        min_length=1,
        description="pattern of tests; if several entries match a test, the first one applies",
    ),
]
VariableNames = tuple[Annotated[str, BeforeValidator(variable_name)], ...]


class Section(BaseModel):
    """A frozen section; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class VariantConfig(Section):
    """[suite.NAME.variant.NAME]: one way to run a suite."""

    args: Texts = Field((), description="further arguments")
    env: dict[str, str] = Field({}, description="further environment variables")


class NeedsConfig(Section):
    """[[suite.NAME.needs]]: needs of tests without measurements."""

    units: UnitPattern
    memory: SizeExpression | None = Field(
        None,
        description="memory that a test needs, in addition to what its process uses before the "
        "test starts",
    )
    gpu: SizeExpression | None = Field(None, description="memory of a test on one GPU")


class LimitsConfig(Section):
    """[[suite.NAME.limits]]: absolute limits by which `guard` judges tests that passed."""

    units: UnitPattern
    memory: Bytes | None = Field(
        None,
        gt=0,
        description="largest increase of memory during a test or file",
    )
    time: Seconds | None = Field(None, description="longest time of a test")


class SuiteConfig(Section):
    """[suite.NAME]: tests with one framework, working folder and arguments."""

    framework: str = Field(DEFAULT, description="[framework](frameworks.md) of the tests")
    command: Texts = Field((), description="command that runs the tests (default: the framework's)")
    list_command: Texts = Field(
        (),
        alias="list",
        description='command that prints one test per line, for `framework = "command"`',
    )
    cwd: str = Field(".", description="working folder in the repository")
    args: Texts = Field((), description="arguments for listing and running tests, such as a folder")
    env: dict[str, str] = Field({}, description="environment variables of the tests")
    files: Texts = Field(
        (),
        description="patterns of test files (default: the framework's)",
    )
    exclude: Texts = Field((), description="patterns of tests that never run")
    results: Texts = Field(
        (), description="[result files](result-files.md) of the command, relative to `cwd`"
    )
    failed_exit_codes: ExitCodes = Field(
        (),
        description="further exit codes that mean failed tests (1 always does), such as `[8]`, or "
        '`["2-255"]` as a range',
    )
    closes_units: bool = Field(
        False,  # a default
        description="whether the command writes a [`closed` event](record.md#event-kinds) at the "
        "end of each test or file",
    )
    parallel: bool | None = Field(
        None,
        description="whether tests of `dotnet` or `maven` run in parallel",
    )
    workers: Literal["auto", "tool"] = Field(
        "auto",
        description="`auto`: run only as many tests at once as fit into memory; "
        "`tool`: let the framework decide",
    )
    timeout: Seconds | None = Field(
        None, description="time limit of a test or, in some frameworks, of a file"
    )
    timeout_ratio: float | None = Field(
        None,
        ge=2,
        allow_inf_nan=False,
        description="time limit of a test as a multiple of its longest past time",
    )
    pool: str | None = Field(
        None, description="kind of runner for the tests: the name of a `[pool.NAME]`"
    )
    needs: tuple[NeedsConfig, ...] = Field(
        (), description="[declared memory](../explanation/planning.md#declared-memory) of tests"
    )
    limits: tuple[LimitsConfig, ...] = Field(
        (),
        description="limits of memory and time; a test that exceeds one counts as failed, even if "
        "it passed",
    )
    variant: dict[str, VariantConfig] = Field(
        {},
        description="ways to run the suite",
    )


class PoolConfig(Section):
    """[pool.NAME]: a kind of runner for jobs."""

    runs_on: Annotated[Any, AfterValidator(_check_labels)] = Field(
        "ubuntu-latest",
        description=(
            "type of runner, as in `runs-on`; ciguard knows CPUs, memory and price of GitHub's "
            "runners"
        ),
    )
    cpus: int | None = Field(None, ge=1, description="number of CPUs")
    memory: Bytes | None = Field(None, description="memory of the machine")
    reserve: Bytes = Field(2**30, description="memory for the runner itself")
    gpu_memory: Bytes | None = Field(
        None,
        description="memory of one GPU",
    )
    price: float | None = Field(None, ge=0, description="price of a minute in USD")
    concurrency: int | None = Field(
        None,
        ge=1,
        description="number of jobs that can run at once, for planning only",
    )
    setup: Seconds | None = Field(
        None, description="time of a job before its tests (default: from past runs)"
    )
    env: dict[str, str] = Field({}, description="environment variables of the jobs")


class PlanConfig(Section):
    """[plan]: defaults of `ciguard plan`."""

    shards: int | None = Field(
        None, ge=1, le=256, description="number of shards (default: as `target_wall` requires)"
    )
    target_wall: Seconds = Field(600.0, description="wanted wall time of a shard")
    limit: Seconds = Field(2700.0, description="time limit of the step that runs a shard")
    setup: Seconds = Field(
        300.0,
        description="time for the other steps of the job, in addition to `limit`",
    )
    risk: float = Field(
        0.01,
        gt=0,
        lt=1,
        description="accepted probability that at least one shard reaches its deadline (90 s "
        "before its `limit`)",
    )
    processes: int = Field(
        1, ge=1, le=256, description="largest number of concurrent test processes"
    )
    group: Literal["none", "file", "file-strict", "fixture"] = Field(
        "file",
        description="[tests that stay in one shard](../how-to/suites-and-pools.md)",
    )
    claims: str = Field(
        "",
        description="address of a service that [moves tests between jobs](../how-to/move-tests.md)",
    )


class PolicyConfig(Section):
    """[policy]: retries and guard rail of a leg, and findings that fail a run."""

    fail_on: tuple[FailCondition, ...] = Field(
        ("new-failure", "timeout", "oom"),
        description="findings that fail a run when ciguard compares the run with the history",
    )
    guard_rail: GuardRail = Field(
        "auto", description="[action on low memory](../explanation/supervision.md)"
    )
    retries: int = Field(
        0,
        ge=0,
        le=9,
        description="number of [retries](../how-to/flaky-tests.md) of a failed test",
    )
    probe: bool = Field(
        True,
        description="whether new failures get [extra tries](../how-to/flaky-tests.md#extra-tries)",
    )


class GuardConfig(Section):
    """[guard]: conditions of an incomplete run, and failures that are excused."""

    max_drop: float = Field(
        0.01,
        ge=0,
        le=1,
        description="accepted drop in the number of tests compared with the base branch",
    )
    min_units: int | None = Field(
        None, ge=1, description="if at least this many tests are planned, `max_drop` has no effect"
    )
    min_executed: Annotated[float | None, BeforeValidator(share)] = Field(
        None,
        gt=0,
        le=1,
        description='smallest accepted share of tests that are not skipped, such as `"95%"`',
    )
    orphans: int = Field(
        0, ge=0, description="accepted number of listed tests that are in no shard"
    )
    empty: EmptyPolicy = Field(
        "incomplete", description="verdict of a suite in which every test was skipped"
    )
    cached_results: Literal["warn", "fail"] = Field(
        "warn",
        description="effect of result files that are older than their job",
    )
    ignore_base_failures: bool = Field(
        False,
        description="whether to ignore failures that the base branch has, too",
    )


class NewTestsConfig(Section):
    """[new_tests]: repeats of tests that a pull request adds or changes."""

    policy: Literal["report", "enforce", "off"] = Field(
        "report",
        description="ciguard [runs each new test several times]"
        "(../how-to/flaky-tests.md#new-and-changed-tests): effect of a run that fails",
    )
    budget: Annotated[float, BeforeValidator(share)] = Field(
        0.05,
        gt=0,
        le=1,
        description="time for repeats, as a share of the longest shard",
    )
    at_most: int = Field(200, ge=1, description="largest number of tests to repeat")


class CoverageConfig(Section):
    """[coverage]: the coverage of all shards together."""

    format: Literal["", "coverage.py", "lcov", "go", "cobertura", "opencover"] = Field(
        "", description="format of the coverage files"
    )
    paths: Texts = Field(
        (),
        description="patterns of the files (default: [by format](../how-to/other-frameworks.md))",
    )
    suites: Texts = Field((), description="suites that collect coverage (default: all)")
    without: Texts = Field(
        (), description="patterns of variants without coverage, such as `*pypy*`"
    )
    minimum: float | None = Field(None, ge=0, le=100, description="lowest accepted coverage, in %")
    diff_minimum: float | None = Field(
        None,
        ge=0,
        le=100,
        description="lowest accepted coverage of changed lines, in %",
    )


class HistoryConfig(Section):
    """[history]: the store of past runs."""

    store: str = Field(
        "branch:ciguard-history",
        description="[place of the history](../how-to/history.md): a branch, a service or a file",
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
        description="author of comments on pull requests: the workflow or the service",
    )
    footer: str = Field(
        "",
        max_length=1000,
        description="Markdown at the end of each report",
    )


class MetricConfig(Section):
    """[metrics.NAME]: a number, or a text, that `ciguard compare` looks for in logs."""

    pattern: str = Field(
        "",
        description=(
            "[regular expression](../how-to/compare-logs.md) (RE2) of a log line: group `value` is "
            "the number, `value_unit` its unit"
        ),
    )
    unit: str = Field(
        "",
        description="unit of the number, such as `MiB`, `ms`, `hms` or `%`",
    )
    key: Texts = Field(
        (),
        description="named groups of `pattern`; two numbers are compared only if these groups "
        "matched the same text",
    )
    within: str = Field(
        "",
        description="regular expression of a heading in the log, such as the name of a GPU kernel; "
        "a number belongs to the last heading before the number",
    )
    better: Literal["lower", "higher", ""] = Field("", description="better direction")
    exact: bool = Field(False, description="whether even the smallest difference is a change")
    at_least: float | None = Field(
        None,
        allow_inf_nan=False,
        description="lower bound; the metric is worse if a number is smaller, or missing",
    )
    at_most: float | None = Field(
        None,
        allow_inf_nan=False,
        description="upper bound; the metric is worse if a number is larger, or missing",
    )


class MetricsConfig(Section):
    """[metrics]: metrics that the history keeps; each table in it is a pattern of a log line."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, MetricConfig] = Field(init=False)

    keep: Texts = Field(
        (),
        description='metrics that the history keeps, such as `["step", "xla.*"]`',
    )
    conditions: VariableNames = Field(
        (),
        description="environment variables that each job records; do not list one with a secret",
    )

    @property
    def patterns(self) -> dict[str, MetricConfig]:
        """Return the tables [metrics.NAME], by name."""
        return self.__pydantic_extra__


class ExperimentConfig(Section):
    """[experiment]: preparation of a checkout by `ciguard experiment --base --head`."""

    setup: str = Field(
        "",
        description="shell command that [`ciguard experiment`](../how-to/experiment.md) runs first "
        "in the checkout of each commit",
    )
    path: Texts = Field(
        (".venv/bin", "node_modules/.bin"),
        description="folders of the checkout that come first on `PATH`",
    )


class CulpritConfig(Section):
    """[culprit]: search for the commit that made the base branch red, by the workflow."""

    on_red: bool = Field(
        False,
        description=(
            "whether to [search for the commit](../how-to/find-the-commit.md) that made the base "
            "worse"
        ),
    )
    budget: Seconds = Field(1200.0, description="time limit of one search")
    per_day: Seconds = Field(3600.0, description="time limit of all searches in 24 hours")


class WorkflowConfig(Section):
    """[workflow]: contents of the workflow that `ciguard init` writes."""

    setup: str = Field("", description="steps (YAML) that every job runs before its tests")
    checkpoint: Seconds | None = Field(
        None,
        description="interval at which a job [uploads its results](../how-to/long-shards.md)",
    )
    forks: bool = Field(
        False, description="whether a second workflow comments on pull requests from forks"
    )
    confirm_suspects: bool = Field(
        False,
        description=(
            "whether jobs measure [suspects](../how-to/confirm-suspects.md) (tests that may need "
            "more time or memory) again, on both the base and the pull request"
        ),
    )
    pages: Literal["", "public"] = Field(
        "",
        description="`public`: publish the history on GitHub Pages, where anybody can read it",
    )
