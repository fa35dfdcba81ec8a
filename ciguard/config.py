"""`ciguard.toml` or `[tool.ciguard]` of pyproject.toml, then CIGUARD_* of the environment.

Unknown keys are errors with a suggestion, and all mistakes are told together. A command's flags
come on top of what is read here.
"""

from __future__ import annotations

import difflib
import tomllib
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ciguard.config_mistakes import describe_mistake
from ciguard.config_values import Bytes, ExitCodes, Seconds, SizeExpression, Texts
from ciguard.errors import CiguardError, UsageError, combine
from ciguard.model import FailCondition, GuardRail
from ciguard.run.frameworks.globs import check_pattern
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


FILE: Final = "ciguard.toml"
FILES: Final = (FILE, "pyproject.toml")  # the first that is there counts


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class VariantConfig(_Section):
    """[suite.NAME.variant.NAME]: one way to run a suite."""

    args: Texts = Field((), description="arguments, added after those of the suite")
    env: dict[str, str] = Field(
        {}, description="environment variables, added to those of the suite"
    )


class NeedsConfig(_Section):
    """[[suite.NAME.needs]]: what tests without measurements need."""

    units: str = Field(
        min_length=1, description="pattern of tests, as in `exclude`; the first entry counts"
    )
    memory: SizeExpression | None = Field(
        None, description="memory of one such test, above that of its process"
    )
    gpu: SizeExpression | None = Field(
        None,
        description='memory of one GPU that a test needs, such as `"sharded(22GiB, 4)"`',
    )


class SuiteConfig(_Section):
    """[suite.NAME]: tests with one framework, working folder and arguments."""

    framework: str = Field(
        DEFAULT, description=f"framework that lists and runs the tests: {' or '.join(FRAMEWORKS)}"
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
        (),
        description="Result files that the command writes (JUnit, TRX, JSON, ...), from `cwd`",
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
    timeout: Seconds | None = Field(None, description="time limit of one test")
    timeout_ratio: float | None = Field(
        None,
        ge=2,
        description=(
            "time limit of a test as a multiple of its longest past time, never below 1m; "
            "tests without a past have no such limit"
        ),
    )
    pool: str | None = Field(None, description="pool that runs the tests (default: the first pool)")
    needs: tuple[NeedsConfig, ...] = Field(
        (), description="memory that tests are declared to need, one table each"
    )
    variant: dict[str, VariantConfig] = Field(
        {},
        description="variants of the suite, one table each (default: one variant without a name)",
    )


class PoolConfig(_Section):
    """[pool.NAME]: where legs run."""

    runs_on: Any = Field(
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


class PlanConfig(_Section):
    """[plan]: defaults of `ciguard plan`."""

    shards: int | None = Field(
        None, ge=1, le=256, description="shards (default: by `target_wall`; 1 without timings)"
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


class PolicyConfig(_Section):
    """[policy]: what a leg may do, and what fails a run."""

    fail_on: tuple[FailCondition, ...] = Field(
        ("new-failure", "timeout", "oom"), description="findings of the comparison that fail a run"
    )
    guard_rail: GuardRail = Field(
        "auto",
        description="action on low memory; see [supervision](../explanation/supervision.md)",
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


class GuardConfig(_Section):
    """[guard]: what makes a run incomplete, and what does not fail it."""

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
    orphans: int = Field(
        0, ge=0, description="accepted number of tests in no shard (plan of `ciguard audit -o`)"
    )
    ignore_base_failures: bool = Field(
        False, description="a test that also fails on the base branch does not fail a pull request"
    )


class HistoryConfig(_Section):
    """[history]: where past runs are kept."""

    store: str = Field("branch:ciguard-history", description="`branch:NAME`, or the path of a file")

    @property
    def in_branch(self) -> bool:
        """Whether the next machine reads what one writes there: a file is on one disk."""
        return self.store.startswith("branch:")


class ReportConfig(_Section):
    """[report]: what `ciguard report` shows."""

    footer: str = Field(
        "",
        max_length=1000,
        description=(
            "Markdown text at the end of comment, summary, check and issue; at most 1,000 "
            "characters"
        ),
    )


class ExperimentConfig(_Section):
    """[experiment]: how `ciguard experiment --base --head` makes a checkout ready."""

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


class InitConfig(_Section):
    """[init]: what `ciguard init --into` needs to know."""

    actions: str = Field(
        "",
        description=(
            "repository of ciguard's actions, as `OWNER/ciguard@COMMIT`; a comment such as "
            "` # v0.2.0` may follow; `$/` in that repository itself (default: where the running "
            "ciguard was installed from)"
        ),
    )


class WorkflowConfig(_Section):
    """[workflow]: what `ciguard init` writes."""

    setup: str = Field(
        "", description="steps (YAML) that every job runs before its tests; copied unchanged"
    )
    python: str = Field("3.12", description="Python version of the plan job and the report job")
    checkpoint: Seconds | None = Field(
        None,
        description="interval at which a job uploads its record, so that a lost runner loses less",
    )
    artifacts: Literal[3, 4] | None = Field(
        None,
        description=(
            "version of the artifact actions; 3 on GitHub Enterprise Server (default: chosen "
            "by the host of `origin`)"
        ),
    )
    forks: bool = Field(
        False, description="also write a workflow that comments on pull requests from forks"
    )
    confirm_suspects: bool = Field(
        False, description="add jobs that run the suspects of a pull request again on both commits"
    )


class Config(_Section):
    """The whole file."""

    install: str = Field(
        "",
        description=(
            "pip requirement that installs ciguard in a workflow, such as "
            "`git+https://HOST/OWNER/REPOSITORY@COMMIT`; not a relative path"
        ),
    )
    plan: PlanConfig = PlanConfig()
    policy: PolicyConfig = PolicyConfig()
    guard: GuardConfig = GuardConfig()
    history: HistoryConfig = HistoryConfig()
    report: ReportConfig = ReportConfig()
    experiment: ExperimentConfig = ExperimentConfig()
    init: InitConfig = InitConfig()
    workflow: WorkflowConfig = WorkflowConfig()
    suite: dict[str, SuiteConfig] = Field(default_factory=lambda: {"": SuiteConfig()})
    pool: dict[str, PoolConfig] = Field(default_factory=lambda: {"default": PoolConfig()})


# Environment variables that set a key; more on request of somebody who needs them.
ENVIRONMENT: Final[dict[str, tuple[str, ...]]] = {
    "CIGUARD_INSTALL": ("install",),
    **{f"CIGUARD_PLAN_{key.upper()}": ("plan", key) for key in PlanConfig.model_fields},
    **{f"CIGUARD_POLICY_{key.upper()}": ("policy", key) for key in PolicyConfig.model_fields},
    "CIGUARD_HISTORY_STORE": ("history", "store"),
}
_SECTIONS: Final = ("CIGUARD_PLAN_", "CIGUARD_POLICY_", "CIGUARD_HISTORY_")


def load(folder: Path, environ: Mapping[str, str]) -> Config:
    """Read the configuration of a folder; without a file, the defaults.

    Raises:
        UsageError: every mistake of the file and of the environment, each with where and a fix.
    """
    return parse(_read(folder), environ)


def parse(texts: Mapping[str, bytes], environ: Mapping[str, str]) -> Config:
    """Read the configuration out of `FILES` by name; what is not there is left out.

    Raises:
        UsageError: as `load`.
    """
    source, content = _content(texts)
    unknown = [name for name in environ if name.startswith(_SECTIONS) and name not in ENVIRONMENT]
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


def configured_by(folder: Path) -> str:
    """Which of `FILES` configures a folder; "" where none does.

    A pyproject.toml does with a table [tool.ciguard].

    Raises:
        UsageError: it cannot be read, or is no TOML.
    """
    texts = _read(folder)
    _, content = _content(texts)
    return next((name for name in texts if name == FILE or content), "")


def _read(folder: Path) -> dict[str, bytes]:
    """The first of `FILES` that is there."""
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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(str(error), where=name, fix="fix the file") from error
    if name == FILE:
        return FILE, content
    return f"{name}: tool.ciguard", content.get("tool", {}).get("ciguard", {})


def _unknown_variable(name: str) -> CiguardError:
    close = difflib.get_close_matches(name, ENVIRONMENT, n=1)
    fix = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(ENVIRONMENT))}"
    return UsageError("sets no key of the configuration", where=f"environment: {name}", fix=fix)


def _set(content: dict[str, Any], keys: tuple[str, ...], text: str) -> None:
    for key in keys[:-1]:
        content = content.setdefault(key, {})
    listed = keys == ("policy", "fail_on")
    content[keys[-1]] = [word for word in text.split(",") if word] if listed else text


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
    """The key that was probably meant; else all that there are."""
    section: Any = Config
    parts = iter(location[:-1])
    for part in parts:
        section = section.model_fields[part].annotation
        if named := get_args(section):  # sections by a name of the user's, or in a list
            section = next(one for one in named[::-1] if one is not Ellipsis)
            next(parts, None)
    known = [field.alias or name for name, field in section.model_fields.items()]
    close = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}"


def _result_pattern_errors(suite: SuiteConfig, where: str) -> Iterator[CiguardError]:
    if suite.results and suite.framework != "command":
        what = f"framework {suite.framework} tells its results by itself"
        yield UsageError(what, where=where, fix="leave the key out")
    for pattern in suite.results:
        try:
            check_pattern(pattern, where=where)
        except UsageError as error:
            yield error


def _needs_errors(suite: SuiteConfig, where: str) -> Iterator[CiguardError]:
    for number, entry in enumerate(suite.needs):
        if entry.memory is None and entry.gpu is None:
            fix = "set memory, gpu or both"
            yield UsageError("declares nothing", where=f"{where}.{number}", fix=fix)


def _checked(config: Config, source: str) -> Config:
    mistakes: list[CiguardError] = []
    for name, suite in config.suite.items():
        if suite.framework not in FRAMEWORKS:
            where = f"{source}: suite.{name}.framework"
            fix = f"there are {', '.join(FRAMEWORKS)}"
            mistakes.append(UsageError(f"no framework {suite.framework!r}", where=where, fix=fix))
        mistakes += _result_pattern_errors(suite, f"{source}: suite.{name}.results")
        mistakes += _needs_errors(suite, f"{source}: suite.{name}.needs")
        if suite.pool is not None and suite.pool not in config.pool:
            known = ", ".join(sorted(config.pool))
            where = f"{source}: suite.{name}.pool"
            mistakes.append(UsageError(f"no pool {suite.pool!r}", where=where, fix=f"use {known}"))
    for section, entries in (("suite", config.suite), ("pool", config.pool)):
        if not entries:
            mistakes.append(UsageError(f"no {section} at all", where=source, fix="remove the key"))
    if mistakes:
        raise combine(mistakes)
    return config
