"""The context and policy by which a run is judged: a proposal by its base's, the rest by its own.

A command makes the context of its folder and environment, a service of GitHub's facts of the run.
Where the base's cannot be read the strictest one holds, which no policy of the base could be harder
than; what passes under it would have passed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

from ciguard import console
from ciguard.codec import plan_file
from ciguard.codec import quarantine as quarantine_codec
from ciguard.codec.quarantine import Quarantine
from ciguard.config import file as configuration
from ciguard.config.sections import SuiteConfig
from ciguard.errors import CiguardError, InputError
from ciguard.github.events import ActionsRun, current_run
from ciguard.guard.verdict import Finding, Policy
from ciguard.model import FAIL_CONDITIONS, CaseKey, Plan, Suite, UnitKey
from ciguard.sources.repository_files import CheckoutFiles, RepositoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ciguard.config.file import Config
    from ciguard.config.invocation import Invocation
    from ciguard.history.file import History
    from ciguard.history.query import BaseQuery, KnownFailure

NAMES: Final = (*configuration.FILES, quarantine_codec.FILE)
# What of the configuration could make a red run green: all of these sections; and of suites that
# both have all but these keys, which say how long a test may take, and where.
_POLICY_SECTIONS: Final = ("policy", "guard", "history")
MAX_PLAN_BYTES: Final = 1 << 28  # about 210 bytes a test
_HARMLESS_SUITE_KEYS: Final = frozenset({"timeout", "timeout_ratio", "pool"})


@dataclass(frozen=True, slots=True)
class RunContext:
    """The context of a judgement.

    Attributes:
        run: the workflow run that is judged, or that judges it; None outside of GitHub Actions.
        config: of the tree that is judged.
        environ: variables that set keys of the base's configuration as well.
        today: on which quarantines end.
        warn: is handed what keeps no verdict away, as one line.
        is_remote: it is judged from outside of the repository's own jobs.
    """

    run: ActionsRun | None
    config: Config
    files: RepositoryFiles
    environ: Mapping[str, str] = field(repr=False)
    today: date
    warn: Callable[[str], None]
    is_remote: bool = False

    @property
    def is_from_fork(self) -> bool:
        """The judged run is another repository's own claim."""
        if self.run is None:
            return False
        return self.run.is_subject_from_fork or (self.is_remote and self.run.is_fork)


def context_of(invocation: Invocation) -> RunContext:
    """Return the context of the command.

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
    """The questions to past runs beside known failures; runs are read only for a question.

    Attributes:
        suites: of the plan, for the units of the base: a plan that says nothing of them would hide
            how many are gone.
        orphans: of the plan; if they are too many, for their shards.
        with_cases: units that may hold several cases, for those of the base.
    """

    suites: Mapping[str, Suite] | None = None
    orphans: Sequence[UnitKey] = ()
    with_cases: Collection[UnitKey] = ()


def effective_policy(
    context: RunContext,
    ignore_base_failures: bool,
    history: Callable[[str], History | None],
    *,
    location: str | None = None,
    questions: Questions | None = None,
    plan_path: str = "",
) -> Policy:
    """Read what holds for a run; outside of GitHub Actions, the folder's own.

    Args:
        ignore_base_failures: the command line asks for it; the configuration may as well.
        history: gives the past runs that lie at a place, on demand.
        location: where that is, as the command line says; None leaves it to the configuration, of a
            proposal to that of its base.
        questions: what else the past runs are asked.
        plan_path: of the plan below the folder, where it may be a file of the repository: that of
            the base says which tests a proposal may not lose.
    """
    run = context.run
    own = _PolicyFiles(context.config, _own_quarantine(context))
    found = [
        Finding("quarantine", facts={"problem": problem}) for problem in own.quarantine.problems
    ]
    law = own
    strict: Policy | None = None
    if run is not None and run.is_unmerged:
        try:
            law = _base(context, run)
        except CiguardError as error:
            strict = _strictest(error, found)
    where = location if location is not None else law.config.history.store
    edited = law is not own and run is not None and _changes_history_file(context, run, law, where)
    past = (lambda _: None) if edited else history
    asked = questions if questions is not None else Questions()
    if strict is not None:
        return _with_answers(strict, asked, run, lambda: past(where))
    if run is not None and law is not own:
        found += _fixed_on_base(law, own)
        changes = [*_changes(law, own), *([where] if edited else ())]
        if changes:
            event = "merge_group" if run.pull_request is None else "pull_request"
            facts = {"event": event, "keys": changes}
            found.append(Finding("policy_changed", facts=facts))
    base_plan, problems = _base_plan(context, law.commit, plan_path)
    found += problems
    known: Mapping[CaseKey, KnownFailure] = {}
    if ignore_base_failures or law.config.guard.ignore_base_failures:
        known, findings = _base_failures(run, past(where))
        found += findings
    config = law.config
    policy = Policy(
        max_drop=config.guard.max_drop,
        min_units=config.guard.min_units,
        orphans=config.guard.orphans,
        empty=config.guard.empty,
        cached_results=config.guard.cached_results,
        base_plan=base_plan,
        quarantine=law.quarantine.entries,
        base_failures=known,
        findings=tuple(found),
        fail_on=config.policy.fail_on,
        source="base" if law.commit else "checkout",
        commit=law.commit,
        footer=config.report.footer,
        comment_by=config.report.by,
    )
    return _with_answers(policy, asked, run, lambda: past(where))


def _with_answers(
    policy: Policy,
    questions: Questions,
    run: ActionsRun | None,
    past: Callable[[], History | None],
) -> Policy:
    """Return the policy with the answers of past runs, which are read only for a question."""
    suites = questions.suites if run is not None else None
    orphans = questions.orphans if len(questions.orphans) > policy.orphans else ()
    units = questions.with_cases
    history = past() if suites is not None or orphans or units else None
    if history is None:
        return policy
    # It imports numpy, which takes as long as to prove 20,000 units: on demand.
    from ciguard.history import query  # noqa: PLC0415

    base = _base_query(run)
    known = query.base_unit_count(history, base, suites) if suites is not None else None
    return replace(
        policy,
        base_units=(known.planned, known.source) if known is not None else None,
        last_shards=query.last_shards(history, orphans) if orphans else {},
        base_cases=query.stable_cases(history, base, units) if units else {},
    )


def quarantine_of(context: RunContext) -> Quarantine:
    """The quarantine that holds for a run; nothing where the base's cannot be read."""
    if context.run is None or not context.run.is_unmerged:
        return _own_quarantine(context)
    try:
        return _base(context, context.run).quarantine
    except CiguardError:
        return Quarantine()


def _strictest(error: CiguardError, findings: list[Finding]) -> Policy:
    """No quarantine, no failure ignored, no unit fewer; each finding of the comparison fails."""
    facts = {"error": error.what, "advice": error.fix}
    finding = Finding("policy_unread", facts=facts)
    return Policy(
        max_drop=0.0, findings=(*findings, finding), fail_on=FAIL_CONDITIONS, source="strictest"
    )


def _own_quarantine(context: RunContext) -> Quarantine:
    return _quarantine(context.files.own((quarantine_codec.FILE,)), context.today)


def _base(context: RunContext, run: ActionsRun) -> _PolicyFiles:
    """Read the files of the base commit.

    Raises:
        CiguardError: the commit is not known or not to be had, or its configuration has mistakes.
    """
    merged = context.files.base_of_merge(run.tested_sha, run.head_sha) if run.pull_request else None
    commit = merged or run.base_sha
    if commit is None:
        fix = "give the payload that GitHub wrote to $GITHUB_EVENT_PATH, unchanged"
        raise InputError("the event names no base commit", where="GITHUB_EVENT_PATH", fix=fix)
    texts = context.files.at(commit, NAMES)
    config = configuration.parse(texts, context.environ)
    return _PolicyFiles(config, _quarantine(texts, context.today), commit)


def _base_plan(context: RunContext, commit: str, path: str) -> tuple[Plan | None, list[Finding]]:
    """The plan as the base commit has it, and why it could not be read."""
    if not commit or not path:
        return None, []
    try:
        content = context.files.by_git(commit, path, MAX_PLAN_BYTES)
        where = f"{commit[:10]}:{path}"
        return (plan_file.decode(content, where) if content is not None else None), []
    except CiguardError as error:
        return None, [Finding("base_plan_unread", facts={"error": error.what})]


def _changes_history_file(
    context: RunContext, run: ActionsRun, law: _PolicyFiles, where: str
) -> bool:
    """Return whether a proposal changes the file of past runs: it would judge itself by it."""
    if where.startswith("branch:") or "://" in where or run.tested_sha is None:
        return False
    return context.files.is_edited(where, law.commit, run.tested_sha)


def _quarantine(texts: Mapping[str, bytes], today: date) -> Quarantine:
    if quarantine_codec.FILE not in texts:
        return Quarantine()
    try:
        return quarantine_codec.decode(texts[quarantine_codec.FILE], today)
    except InputError as error:
        return Quarantine(problems=(f"{error.where}: {error.what}",))


def _fixed_on_base(base: _PolicyFiles, own: _PolicyFiles) -> Iterator[Finding]:
    """Find the mistakes of the base alone: a change that repairs them must be able to merge."""
    for what in base.quarantine.problems:
        if what not in own.quarantine.problems:
            facts = {"place": "base", "problem": what}
            yield Finding("quarantine", facts=facts, stated_level="warning")


def _changes(base: _PolicyFiles, own: _PolicyFiles) -> Iterator[str]:
    """Keys that differ between the base's law and what is proposed."""
    before, now = base.quarantine, own.quarantine
    if quarantine_codec.is_changed(before.entries, now.entries) or before.problems != now.problems:
        yield quarantine_codec.FILE
    for section in _POLICY_SECTIONS:
        was, is_ = getattr(base.config, section), getattr(own.config, section)
        for name in type(was).model_fields:
            if getattr(was, name) != getattr(is_, name):
                yield f"{section}.{name}"
    for suite in sorted(base.config.suite.keys() & own.config.suite.keys()):
        was, is_ = base.config.suite[suite], own.config.suite[suite]
        for name, info in SuiteConfig.model_fields.items():
            if name not in _HARMLESS_SUITE_KEYS and getattr(was, name) != getattr(is_, name):
                key = info.alias or name
                yield f"suite.{suite}.{key}" if suite else f"suite.{key}"


def _base_query(run: ActionsRun | None) -> BaseQuery:
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
    """Return the failures of the base, and a finding where none can be ignored."""
    if run is not None and not run.is_subject_unmerged:
        return {}, []  # on the base itself, its own failures count
    if history is not None:
        from ciguard.history.query import known_failures  # noqa: PLC0415

        known, newest = known_failures(history, _base_query(run))
        if newest is not None:
            return known, []
    return {}, [Finding("no_base_run")]
