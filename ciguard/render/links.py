"""Links from a verdict or a comparison to pages on GitHub. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from ciguard.model import Result, Suite, repository_path


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses of the pages of one run and its repository; "" is unknown.

    Attributes:
        url: address of the repository.
        sha: the tested commit, whose lines are linked; None if it is unknown.
        jobs: by shard, the address of the page of its job.
        suites: by name, the suites of the plan, with the folders of their files.
    """

    url: str = ""
    run_id: int | None = None
    run_attempt: int | None = None
    sha: str | None = None
    jobs: Mapping[str, str] = field(default_factory=dict)
    suites: Mapping[str, Suite] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """The page of the run, with summary and artifacts."""
        return self.run_page(self.run_id, self.run_attempt)

    def run_page(self, run_id: int | None, attempt: int | None = None) -> str:
        if run_id is None or not self.url:
            return ""
        tail = f"/attempts/{attempt}" if (attempt or 1) > 1 else ""
        return f"{self.url}/actions/runs/{run_id}{tail}"

    def job(self, shard: str) -> str:
        return self.jobs.get(shard, "")

    def line(self, result: Result) -> str:
        """Return the page of the line in the tested commit where a test is or failed."""
        file = repository_path(self.suites, result.suite, result.file)
        if not self.url or not self.sha or not file:
            return ""
        anchor = f"#L{result.line}" if result.line else ""
        return f"{self.url}/blob/{self.sha}/{quote(file, errors='replace')}{anchor}"


NO_LINKS: Final = Links()
