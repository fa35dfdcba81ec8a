"""What GitHub may say of the legs of a `fixtures.World`: in memory, or by the fake server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fakegithub.actions import REPOSITORY, add_job
from fakegithub.state import FakeGitHub
from guard.fixtures import World

from ciguard.codec.record.reader import read_records
from ciguard.errors import RemoteError
from ciguard.guard.github_facts import query_jobs
from ciguard.guard.prove import prove
from ciguard.guard.verdict import Finding, Leg, Verdict
from ciguard.model.jobs import Job, Step

# As GitHub, its runner and the system say it.
NEW_LIMIT = "The job has exceeded the maximum execution time of 15m0s"
OLD_LIMIT = (
    "The job running on runner GitHub Actions 3 has exceeded the maximum execution time of "
    "15 minutes."
)
SUPERSEDED = "Canceling since a higher priority waiting request for 'tests-7' exists"
BY_HAND = "The run was canceled by @octocat."
FAIL_FAST = 'The strategy configuration was canceled because "legs.01" failed'
LOST = (
    "The hosted runner: GitHub Actions 8 lost communication with the server. Anything in your "
    "workflow that terminates the runner process, starves it for CPU/Memory, or blocks its network "
    "access can cause this error."
)
SHUTDOWN = (
    "The runner has received a shutdown signal. This can happen when the runner service is "
    "stopped, or a manually started runner is canceled."
)
STEP_LIMIT = "The action 'Run the shard' has timed out after 14 minutes."
ARTIFACT_NAME = (
    "The artifact name is not valid: results/linux. Contains the following character:  "
    "Forward slash /"
)
EXIT_10 = "Process completed with exit code 10."
EXIT_137 = "Process completed with exit code 137."
EXIT_143 = "Process completed with exit code 143."
OPERATION = "The operation was canceled."
KERNEL = (
    "2026-11-21T10:04:00.1Z [  518.050606] Out of memory: Killed process 15784 (python3) "
    "total-vm:11964kB, anon-rss:4288kB, file-rss:3028kB, shmem-rss:0kB"
)
DISK = "2026-11-21T10:04:00.1Z OSError: [Errno 28] No space left on device: '/home/x'"

PRINTED = "2026-11-21T10:04:00.1Z test_enospc: No space left on device PASSED\n"

TOKEN = "ghs_TheTokenThatMustStaySecret"
BEGAN = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
STEPS = (
    ("Set up job", "success"),
    ("Check out", "success"),
    ("Run the shard", "success"),
    ("Upload", "success"),
)
KILLED = (*STEPS[:2], ("Run the shard", "cancelled"), ("Upload", "skipped"))
FAILED = (*STEPS[:2], ("Run the shard", "failure"), ("Upload", "success"))
SET_UP = (*STEPS[:1], ("Install", "failure"), ("Run the shard", "skipped"), ("Upload", "skipped"))
ACTION = "Run octo-org/ciguard/actions/run@0123abc"
SET_UP_OF_ACTION = (*SET_UP[:2], (ACTION, "skipped"))
NO_UPLOAD = (*STEPS[:3], ("Upload", "failure"))


def job(
    shard: str,
    conclusion: str | None = "success",
    *,
    attempt: int = 1,
    status: str = "completed",
    wall_s: float = 300.0,
    steps: tuple[tuple[str, str | None], ...] = STEPS,
    began: datetime | None = None,
    name: str = "",
) -> Job:
    """A job of a shard; its id is its attempt and its shard."""
    start = began or BEGAN + timedelta(hours=attempt)
    return Job(
        id=100 * attempt + int(shard),
        name=name or f"tests ({shard})",
        run_attempt=attempt,
        status=status,
        conclusion=conclusion,
        started_at=start,
        completed_at=start + timedelta(seconds=wall_s),
        steps=tuple(Step(step, number, end) for number, (step, end) in enumerate(steps, 1)),
    )


def cancelled(wall_s: float = 300.0) -> Job:
    """The job of shard 03, cancelled while its tests ran."""
    return job("03", "cancelled", wall_s=wall_s, steps=KILLED)


def failed(
    steps: tuple[tuple[str, str | None], ...] = FAILED, *, shard: str = "03", attempt: int = 1
) -> Job:
    """The job of a shard whose tests failed, or another of these steps."""
    return job(shard, "failure", steps=steps, attempt=attempt)


def serve_job(
    github: FakeGitHub, job: Job, output: Sequence[str] = (), log: str | None = None
) -> None:
    """Let the server list a job, with its annotations and its log."""
    times = [
        None if one is None else f"{one:%Y-%m-%dT%H:%M:%SZ}"
        for one in (job.started_at, job.completed_at)
    ]
    add_job(
        github,
        job.name,
        job.conclusion,
        attempt=job.run_attempt,
        status=job.status,
        steps=[(step.name, step.conclusion) for step in job.steps],
        started_at=times[0] or "",
        completed_at=times[1],
        annotations=output,
        log=log,
    )


def environ_of(folder: Path, github: FakeGitHub) -> dict[str, str]:
    """What the last job of run 7 has around it; its payload has to be written."""
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": github.address,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "7",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_SHA": "a" * 40,  # as the server says of its jobs
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/tests.yml@refs/pull/7/merge",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_OUTPUT": str(folder / "outputs"),
        "GITHUB_TOKEN": TOKEN,
        "NO_PROXY": "*",
    }


class Refusal(RemoteError):
    """GitHub's 404 for one thing, or a lasting fault."""

    def __init__(self, what: str, *, lasting: bool) -> None:
        super().__init__(what, fix="run this again later")
        self.is_lasting = lasting


@dataclass
class FakeRunApi:
    """One run as GitHub tells it; green but for what a test puts in.

    Attributes:
        special: jobs in place of a shard's green one of attempt 1, or beside it.
        said, logs: by shard; a shard without a log has 404.
        fault: every call of the named kinds meets it.
        calls: kinds, in their order.
    """

    special: tuple[Job, ...] = ()
    annotations_by_shard: dict[str, list[str]] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    fault: str = ""
    faulty: tuple[str, ...] = ("jobs", "annotations", "log")
    without: tuple[str, ...] = ()
    calls: list[str] = field(default_factory=list)

    def _called(self, kind: str) -> None:
        self.calls.append(kind)
        if self.fault and kind in self.faulty:
            raise Refusal(self.fault, lasting=True)

    def jobs(self) -> tuple[Job, ...]:
        self._called("jobs")
        taken = {(one.name, one.run_attempt) for one in self.special} | {
            (f"tests ({shard})", 1) for shard in self.without
        }
        green = [job(shard) for shard in ("01", "02", "03")]
        rest = (job("90", name="plan"), job("91", None, status="in_progress", name="ciguard"))
        stored = [one for one in green if (one.name, one.run_attempt) not in taken]
        return (*stored, *rest, *self.special)

    def annotations(self, job: Job) -> tuple[str, ...]:
        self._called("annotations")
        return tuple(self.annotations_by_shard.get(f"{job.id % 100:02}", ()))

    def log_end(self, job: Job) -> str:
        self._called("log")
        log = self.logs.get(f"{job.id % 100:02}")
        if log is None:
            raise Refusal("answered 404: Not Found", lasting=False)
        return log


@dataclass(frozen=True)
class FakeEvaluatedRun:
    source: FakeRunApi | None
    run_attempt: int | None = 1
    run_id: int = 7
    head_shas: frozenset[str] = frozenset()


def verdict_of(world: World, reported: FakeRunApi | None, attempt: int = 1) -> Verdict:
    """What comes out when GitHub is asked."""
    records = read_records(world.files().items())
    platform = query_jobs(world.plan, records, FakeEvaluatedRun(reported, attempt))
    return prove(world.plan, records, world.needs, platform=platform, policy=world.policy)


def leg(verdict: Verdict, shard: str = "03") -> Leg:
    (found,) = [one for one in verdict.legs if one.shard == shard]
    return found


def death(verdict: Verdict, shard: str = "03") -> Finding:
    """What is said of a shard that makes it incomplete; one finding."""
    (found,) = [one for one in verdict.findings if one.level == "incomplete" and one.shard == shard]
    return found
