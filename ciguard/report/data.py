"""All that a report shows, as one value, and where the run can be looked at. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from ciguard.compare.transitions import Excuse
from ciguard.guard.wording import reason_text
from ciguard.model import repository_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.comparison import Comparison
    from ciguard.github.events import ActionsRun
    from ciguard.guard.github_facts import RunFacts
    from ciguard.guard.policy import PolicySource
    from ciguard.guard.verdict import Verdict
    from ciguard.model import CaseKey, Plan, Result


@dataclass(frozen=True, slots=True)
class Links:
    """The pages of one repository.

    Attributes:
        url: of the repository.
        sha: the commit that was tested, whose lines are shown; None where it is not known.
        jobs: by shard, the address of its job's page.
    """

    url: str
    run_id: int | None = None
    run_attempt: int | None = None
    sha: str | None = None
    jobs: Mapping[str, str] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """The run's page, with its summary and artifacts; "" where it is not known."""
        return self.run_page(self.run_id, self.run_attempt)

    def run_page(self, run_id: int | None, attempt: int | None = None) -> str:
        """The page of any run of this repository."""
        if run_id is None:
            return ""
        tail = f"/attempts/{attempt}" if (attempt or 1) > 1 else ""
        return f"{self.url}/actions/runs/{run_id}{tail}"

    def job(self, shard: str) -> str:
        """The page of a shard's job, "" where it is not known."""
        return self.jobs.get(shard, "")

    def line(self, file: str, line: int | None) -> str:
        """The page of a line of the tested commit."""
        if not self.sha or not file:
            return ""
        anchor = f"#L{line}" if line else ""
        return f"{self.url}/blob/{self.sha}/{quote(file, errors='replace')}{anchor}"


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """The policy, for the footer.

    Attributes:
        source: where it is from.
        commit: of the base, where it is from there.
        fail_on: findings of the comparison that fail the run.
        footer: Markdown of the same source, shown last.
    """

    source: PolicySource = "checkout"
    commit: str = ""
    fail_on: tuple[str, ...] = ()
    footer: str = ""


@dataclass(frozen=True, slots=True)
class ReportData:
    """What there is to show.

    Attributes:
        why: there is no comparison, and why.
        from_fork: plan and records are what a fork's own run says of itself.
    """

    plan: Plan
    verdict: Verdict
    comparison: Comparison | None = None
    why: str = ""
    links: Links = field(default_factory=lambda: Links(""))
    policy_info: PolicyInfo = field(default_factory=PolicyInfo)
    from_fork: bool = False

    def link_to(self, result: Result) -> str:
        """The page of the line where a test stands or fell; "" where it is not known."""
        return (
            self.links.line(
                repository_path(self.plan.suites, result.suite, result.file), result.line
            )
            if self.links.url
            else ""
        )


def excuses_of(verdict: Verdict) -> dict[CaseKey, Excuse]:
    """The failures that the guard has excused: they make nothing worse in the comparison either."""
    ignored = {
        one.result.key: Excuse("ignored", reason_text(one.reason))
        for one in verdict.failing_on_base
    }
    return ignored | {
        one.result.key: Excuse("quarantined", reason_text(one.reason))
        for one in verdict.quarantined
    }


def links_of_run(run: ActionsRun, platform: RunFacts | None) -> Links:
    """Of the run that is judged, as GitHub says; nothing of it is taken from a record."""
    subject_run = run.subject_run
    sha = run.triggering.head_sha if run.is_triggered else run.tested_sha
    return Links(
        f"{run.server_url}/{run.repository}",
        run_id=subject_run[0] if subject_run else None,
        run_attempt=subject_run[1] if subject_run else None,
        sha=sha,
        jobs=_jobs(platform),
    )


def links_for_run(page: str, run_id: int, attempt: int | None, platform: RunFacts | None) -> Links:
    """Of a run that somebody named, in the repository at `page`; its commit is not known."""
    return Links(page, run_id, attempt, jobs=_jobs(platform))


def _jobs(platform: RunFacts | None) -> Mapping[str, str]:
    legs = platform.legs if platform is not None else {}
    return {shard: facts.job.url for shard, facts in legs.items() if facts.job is not None}
