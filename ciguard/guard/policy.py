"""The policy by which a run is judged: the base's for a pull request, otherwise the run's own.

If the policy of the base cannot be read, the strictest policy applies: a run that passes it would
pass any other. A command makes the `RunContext` of folder and environment, a service of GitHub.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ciguard import console
from ciguard.codec import plan_file
from ciguard.codec import quarantine as quarantine_codec
from ciguard.codec.quarantine import Quarantine
from ciguard.config import file as configuration
from ciguard.config.sections import SuiteConfig
from ciguard.errors import CiguardError, InputError
from ciguard.github.events import ActionsRun, current_run
from ciguard.guard.verdict import Finding, Limit, Policy
from ciguard.model import FAIL_CONDITIONS, CaseKey, Plan, Suite, UnitKey
from ciguard.sources.repository_files import CheckoutFiles, RepositoryFiles

if TYPE_CHECKING:
    from ciguard.config.file import Config
    from ciguard.config.invocation import Invocation
    from ciguard.history.file import History
    from ciguard.history.query import BaseQuery, KnownFailure

NAMES: Final = (*configuration.FILES, quarantine_codec.FILE)
# Sections that could make a red run green; so could each key of a suite but the harmless ones,
# which set the time limits and the runner of its tests.
_POLICY_SECTIONS: Final = ("policy", "guard", "new_tests", "history", "coverage")
MAX_PLAN_BYTES: Final = 1 << 28  # about 210 bytes a test
_HARMLESS_SUITE_KEYS: Final = frozenset({"timeout", "timeout_ratio", "pool"})


@dataclass(frozen=True, slots=True)
class RunContext:
    """The context of a judgement.

    Attributes:
        run: the workflow run that is judged, or that judges it; None outside of GitHub Actions.
        config: that of the judged tree.
        environ: variables that set keys of the base's configuration as well.
        today: the date that decides which quarantines have ended.
        warn: shows a problem that does not prevent a verdict, as one line.
        is_remote: the run is judged from outside of the repository's own jobs.
    """

    run: ActionsRun | None
    config: Config
    files: RepositoryFiles
    environ: Mapping[str, str] = field(repr=False)
    today: date
    warn: Callable[[str], None]
    is_remote: bool = False

    @property
    def is_of_base(self) -> bool:
        """The judged run is one of the base branch itself."""
        return self.run is not None and self.run.is_of_base

    @property
    def is_from_fork(self) -> bool:
        """The judged run belongs to another repository, which controls what the run states."""
        if self.run is None:
            return False
        return self.run.is_subject_from_fork or (self.is_remote and self.run.is_fork)


def context_of(invocation: Invocation) -> RunContext:
    """Return the context of a command in its folder and environment.

    Raises:
        UsageError: the folder's own configuration has mistakes.
        InputError: variables or payload of GitHub Actions are malformed.
    """
    run = current_run(invocation.environ)
    return RunContext(
        run,
        invocation.config(),
        CheckoutFiles(invocation.folder, invocation.environ, run),
        invocation.environ,
        datetime.now(UTC).date(),
        lambda text: console.err(f"warning: {text}"),
    )


@dataclass(frozen=True, slots=True)
class _PolicyFiles:
    config: Config
    quarantine: Quarantine
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Questions:
    """Further questions to the history, besides known failures; without one it is not read.

    Attributes:
        suites: suites whose number of units on the base is asked; None: not asked.
        orphans: tests in no shard; if they are too many, their last shards are asked.
        with_cases: units that may hold several cases, whose cases on the base are asked.
    """

    suites: Mapping[str, Suite] | None = None
    orphans: Sequence[UnitKey] = ()
    with_cases: Collection[UnitKey] = ()


def effective_policy(
    context: RunContext,
    ignore_base_failures: bool,
    history: Callable[[], History | None],
    *,
    questions: Questions | None = None,
    plan_path: str = "",
) -> Policy:
    """Return the policy of a run; outside of GitHub Actions, that of the folder.

    Args:
        ignore_base_failures: set by the command line; the configuration may set it as well.
        history: reads the past runs, which are at `past_runs_location`, on demand.
        questions: further questions to the past runs.
        plan_path: path of the plan below the folder if it may be a file of the repository: the
            version of the base lists tests that a proposal may not lose.
    """
    run = context.run
    own = _PolicyFiles(context.config, _own_quarantine(context))
    findings = [
        *(Finding("quarantine", facts={"problem": each}) for each in own.quarantine.problems),
        *_ending_entries(context, own.quarantine),
    ]
    applied = own
    asked = questions if questions is not None else Questions()
    if run is not None and run.is_unmerged:
        try:
            applied = _base(context, run)
        except CiguardError as error:
            unread = Finding("policy_unread", facts={"error": error.what, "advice": error.fix})
            lowest = context.config.coverage
            strict = Policy(
                max_drop=0.0,
                # Shares are the proposal's own: few suites execute all tests, or cover all code.
                min_executed=context.config.guard.min_executed,
                coverage_minima=(lowest.minimum, lowest.diff_minimum),
                coverage_suites=lowest.suites,
                limits=_limits(context.config),
                new_tests="enforce",
                findings=(*findings, unread),
                fail_on=FAIL_CONDITIONS,
                source="strictest",
            )
            return _with_answers(strict, asked, run, history)
    if run is not None and applied is not own:
        findings += _fixed_on_base(applied, own)
        if changes := list(_changes(applied, own)):
            event = "merge_group" if run.pull_request is None else "pull_request"
            findings.append(Finding("policy_changed", facts={"event": event, "keys": changes}))
    base_plan, problems = _base_plan(context, applied.commit, plan_path)
    findings += problems
    known: Mapping[CaseKey, KnownFailure] = {}
    if ignore_base_failures or applied.config.guard.ignore_base_failures:
        known, problems = _base_failures(run, history())
        findings += problems
    config = applied.config
    policy = Policy(
        max_drop=config.guard.max_drop,
        min_units=config.guard.min_units,
        min_executed=config.guard.min_executed,
        coverage_minima=(config.coverage.minimum, config.coverage.diff_minimum),
        coverage_suites=config.coverage.suites,
        orphans=config.guard.orphans,
        empty=config.guard.empty,
        cached_results=config.guard.cached_results,
        base_plan=base_plan,
        quarantine=applied.quarantine.entries,
        limits=_limits(config),
        base_failures=known,
        new_tests=config.new_tests.policy,
        findings=tuple(findings),
        fail_on=config.policy.fail_on,
        source="base" if applied.commit else "checkout",
        commit=applied.commit,
        footer=config.report.footer,
        comment_by=config.report.by,
        owners=tuple(config.owners.items()),
    )
    return _with_answers(policy, asked, run, history)


def _limits(config: Config) -> dict[str, tuple[Limit, ...]]:
    """Return the limits of tests, by suite with any."""
    return {
        name: tuple(Limit(row.units, row.memory, row.time) for row in suite.limits)
        for name, suite in config.suite.items()
        if suite.limits
    }


def _with_answers(
    policy: Policy, questions: Questions, run: ActionsRun | None, load: Callable[[], History | None]
) -> Policy:
    """Return the policy with the answers of the history, which is read only for a question."""
    suites = questions.suites if run is not None else None
    orphans = questions.orphans if len(questions.orphans) > policy.orphans else ()
    units = questions.with_cases
    history = load() if suites is not None or orphans or units else None
    if history is None:
        return policy
    # Imported on demand: numpy takes as long as the judgement of 20,000 units.
    from ciguard.history import query  # noqa: PLC0415

    base = base_query(run)
    known = query.base_unit_count(history, base, suites) if suites is not None else None
    return replace(
        policy,
        base_units=(known.planned, known.source) if known is not None else None,
        last_shards=query.last_shards(history, orphans) if orphans else {},
        base_cases=query.stable_cases(history, base, units) if units else {},
    )


def quarantine_of(context: RunContext) -> Quarantine:
    """Return the quarantine of a run; empty if that of the base cannot be read."""
    if context.run is None or not context.run.is_unmerged:
        return _own_quarantine(context)
    try:
        return _base(context, context.run).quarantine
    except CiguardError:
        return Quarantine()


def _own_quarantine(context: RunContext) -> Quarantine:
    return _quarantine(context.files.own((quarantine_codec.FILE,)), context)


def _ending_entries(context: RunContext, quarantine: Quarantine) -> Iterator[Finding]:
    """Warn of expired entries and, in runs of the base, of entries that soon expire."""
    branch = (context.run.base_branch if context.run is not None else None) or "the base branch"
    grace = quarantine_codec.GRACE
    for entry in quarantine.entries:
        days = (context.today - entry.until).days
        facts: dict[str, object] = {"entry": entry.name, "until": f"{entry.until}"}
        if days > 0:
            fails = f"{entry.until + grace + timedelta(days=1)}"
            facts |= {"days": days, "branch": branch, "fails": fails}
        if days > (-grace.days if context.is_of_base else 0):
            yield Finding("quarantine_ends", facts=facts)


def _base(context: RunContext, run: ActionsRun) -> _PolicyFiles:
    """Read the files of the base commit.

    Raises:
        CiguardError: the commit is unknown or unreadable, or its configuration has mistakes.
    """
    merged = context.files.base_of_merge(run.tested_sha, run.head_sha) if run.pull_request else None
    commit = merged or run.base_sha
    if commit is None:
        fix = "give the payload that GitHub wrote to $GITHUB_EVENT_PATH, unchanged"
        raise InputError("the event names no base commit", where="GITHUB_EVENT_PATH", fix=fix)
    texts = context.files.at(commit, NAMES)
    config = configuration.parse(texts, context.environ)
    return _PolicyFiles(config, _quarantine(texts, context), commit)


def _base_plan(context: RunContext, commit: str, path: str) -> tuple[Plan | None, list[Finding]]:
    """Return the plan of the base commit, and a finding if it could not be read."""
    if not commit or not path:
        return None, []
    try:
        content = context.files.at(commit, (path,), MAX_PLAN_BYTES).get(path)
        source = f"{commit[:10]}:{path}"
        return (plan_file.decode(content, source) if content is not None else None), []
    except CiguardError as error:
        return None, [Finding("base_plan_unread", facts={"error": error.what})]


def past_runs_location(context: RunContext, named: str | None) -> str:
    """Return the location of the past runs; the base configures it for an unmerged run.

    Otherwise a proposal could choose its baseline, and the receiver of the token.

    Args:
        named: location on the command line; None for the configured one.

    Raises:
        CiguardError: the base cannot be read, or the proposal changes the file of the history.
    """
    run = context.run
    if run is None or not run.is_unmerged:
        return context.config.history.store if named is None else named
    try:
        base = _base(context, run)
    except CiguardError:
        if named is None:
            raise
        return named  # the strictest policy applies
    store = base.config.history.store if named is None else named
    is_file = not store.startswith("branch:") and "://" not in store
    if is_file and run.tested_sha and context.files.is_edited(store, base.commit, run.tested_sha):
        raise InputError("this change edits the history that would judge it", where=store)
    return store


def _quarantine(texts: Mapping[str, bytes], context: RunContext) -> Quarantine:
    if quarantine_codec.FILE not in texts:
        return Quarantine()
    content = texts[quarantine_codec.FILE]
    try:
        return quarantine_codec.decode(content, context.today, is_base=context.is_of_base)
    except InputError as error:
        return Quarantine(problems=(f"{error.where}: {error.what}",))


def _fixed_on_base(base: _PolicyFiles, own: _PolicyFiles) -> Iterator[Finding]:
    """Warn of mistakes that only the base has, so that a change which repairs them may merge."""
    for problem in base.quarantine.problems:
        if problem not in own.quarantine.problems:
            facts = {"place": "base", "problem": problem}
            yield Finding("quarantine", facts=facts, stated_level="warning")


def _changes(base: _PolicyFiles, own: _PolicyFiles) -> Iterator[str]:
    """Return the keys whose values differ between the base's policy and the proposed one."""
    before, now = base.quarantine, own.quarantine
    if set(before.entries) != set(now.entries) or before.problems != now.problems:
        yield quarantine_codec.FILE
    for section in _POLICY_SECTIONS:
        old, new = getattr(base.config, section), getattr(own.config, section)
        for name in type(old).model_fields:
            if getattr(old, name) != getattr(new, name):
                yield f"{section}.{name}"
    for suite in sorted(base.config.suite.keys() - own.config.suite.keys()):
        if base.config.suite[suite].limits:
            yield f"suite.{suite}.limits"
    for suite in sorted(base.config.suite.keys() & own.config.suite.keys()):
        old, new = base.config.suite[suite], own.config.suite[suite]
        for name, info in SuiteConfig.model_fields.items():
            if name not in _HARMLESS_SUITE_KEYS and getattr(old, name) != getattr(new, name):
                key = info.alias or name
                yield f"suite.{suite}.{key}" if suite else f"suite.{key}"


def base_query(run: ActionsRun | None) -> BaseQuery:
    """Return the query for the past runs of a run's base."""
    from ciguard.history.query import BaseQuery  # noqa: PLC0415

    if run is None:
        return BaseQuery()
    subject_run = run.subject_run
    return BaseQuery(
        run.base_branch, run.subject_workflow or None, subject_run[0] if subject_run else None
    )


def _base_failures(
    run: ActionsRun | None, history: History | None
) -> tuple[Mapping[CaseKey, KnownFailure], list[Finding]]:
    """Return the failures of the base, and a finding if the base has no run to compare with."""
    if run is not None and not run.is_subject_unmerged:
        return {}, []  # a run of the base: its failures count
    if history is not None:
        from ciguard.history.query import known_failures  # noqa: PLC0415

        known, newest = known_failures(history, base_query(run))
        if newest is not None:
            return known, []
    return {}, [Finding("no_base_run")]
