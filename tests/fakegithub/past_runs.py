"""Past runs on the fake GitHub: a repository whose runs are written in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from fakegithub.actions import add_job, add_run

if TYPE_CHECKING:
    import subprocess

    from fakegithub.state import FakeGitHub

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
WORKFLOW = """
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    timeout-minutes: 45
    steps:
      - uses: actions/checkout@v7
      - name: Test
        run: pytest
      - {if: always(), uses: actions/upload-artifact@v7, with: {name: junit, path: junit.xml}}
"""
SUPERSEDED = "Canceling since a higher priority waiting request for ci-refs/pull/7/merge exists"
AT_LIMIT = "The job has exceeded the maximum execution time of 45m0s"
BY_PERSON = "The run was canceled by @octocat."
LOST = (
    "The hosted runner: GitHub Actions 12 lost communication with the server. Anything in your "
    "workflow that terminates the runner process, starves it for CPU/Memory, or blocks its network "
    "access can cause this error."
)


@dataclass
class PastRuns:
    """Adds runs to the fake GitHub, each an hour older than the one before."""

    server: FakeGitHub
    newest: datetime = NOW
    numbers: list[int] = field(default_factory=list)

    def workflow(self, text: str = WORKFLOW, name: str = "tests.yml") -> None:
        """Put a workflow file on the default branch."""
        self.server.files[f".github/workflows/{name}", "main"] = text.encode()

    def run(self, conclusion: str = "success", **facts: Any) -> int:
        """Add a run that is older than all before; its number."""
        number = 900 - len(self.numbers)
        created = self.newest - timedelta(hours=len(self.numbers))
        ended = created + timedelta(minutes=facts.pop("minutes", 10.0))
        self.numbers.append(number)
        add_run(
            self.server,
            number,
            **{
                "conclusion": conclusion,
                "created_at": stamp(created),
                "run_started_at": stamp(created),
                "updated_at": stamp(ended),
                "html_url": f"https://github.com/octo-org/shop/actions/runs/{number}",
                **facts,
            },
        )
        # The list of all has the newest first.
        self.server.runs.append(self.server.runs.pop(0))
        return number

    def job(
        self,
        run: int,
        name: str = "test",
        conclusion: str = "success",
        *,
        minutes: float = 5.0,
        steps: Sequence[tuple[str, str | None]] | None = None,
        **facts: Any,
    ) -> int:
        """Add a job to a run; a job that was skipped has no step."""
        began = self.newest - timedelta(hours=self.numbers.index(run))
        shown = (("Set up job", "success"), ("Test", conclusion))
        if steps is None:
            steps = () if conclusion == "skipped" else shown
        return add_job(
            self.server,
            name,
            conclusion,
            run=run,
            steps=steps,
            started_at=stamp(began),
            completed_at=stamp(began + timedelta(minutes=minutes)),
            **facts,
        )

    def green(self, count: int, *, minutes: float = 5.0, name: str = "test") -> None:
        """Add runs with one job, which succeeded."""
        for _ in range(count):
            self.job(self.run(), name, minutes=minutes)


class Audit(Protocol):
    """`ciguard audit` of the repository, with more words."""

    def __call__(
        self, *words: str, expect: int = 0, **environ: str
    ) -> subprocess.CompletedProcess[str]: ...


class Findings(Protocol):
    """What one rule finds, as the JSON has it."""

    def __call__(self, rule: str) -> list[dict[str, Any]]: ...


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
