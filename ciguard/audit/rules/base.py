"""Values that a rule of the audit reads and finds, and the lines of a workflow file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal

from ciguard.workflow.positions import SourceText
from ciguard.workflow.result_upload import ResultUpload, find_result_uploads, written_files
from ciguard.workflow.test_commands import FoundStep, Tasks, find_test_steps
from ciguard.workflow.yaml_values import get, jobs_of, steps_of

COMMENTING: Final = re.compile(r"[\w-]+/ciguard|\$/")  # action of the job that comments
Certainty = Literal["certain", "possible"]


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """A workflow file of the default branch.

    Attributes:
        path: in the repository, as `.github/workflows/ci.yml`.
        text: the YAML as written.
        content: the value of the YAML, of any shape.
        tasks: of the repository, that its steps call; none if not read.
    """

    path: str
    text: str
    content: Any
    tasks: Tasks = field(default_factory=dict)

    def test_steps(self) -> tuple[FoundStep, ...]:
        """Find the steps that run tests, in the order of the file."""
        return find_test_steps(self.content, self.tasks)

    def jobs(self) -> dict[str, Any]:
        """Return the jobs by id; YAML reads some ids as numbers."""
        return {str(name): job for name, job in jobs_of(self.content).items()}

    def steps(self) -> list[dict[str, Any]]:
        """Return the steps of all jobs, in the order of the file."""
        return [step for job in self.jobs().values() for _, step in steps_of(job)]

    def test_jobs(self) -> dict[str, list[FoundStep]]:
        found: dict[str, list[FoundStep]] = {}
        for step in self.test_steps():
            found.setdefault(step.job, []).append(step)
        return found

    def result_uploads(self) -> Iterator[tuple[str, ResultUpload]]:
        """Yield (test job, upload) of test results; of a job, those that are certain if any is."""
        for name, steps in self.test_jobs().items():
            job = self.jobs()[name]
            uploads = [*find_result_uploads(job, written_files(*steps, job=job))]
            certain = [upload for upload in uploads if upload.is_certain]
            yield from ((name, upload) for upload in certain or uploads)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence of a finding: a line of a file, a run or a job.

    Attributes:
        what: file, or name of the run or job.
        url: page of the run or job; "" if there is none.
        line: of the file, from 1; None for a run or a job.
    """

    what: str
    url: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A finding of a rule as values; `sentence` of the rule words them.

    Attributes:
        subject: the job, matrix or check that the finding is about, as GitHub shows it.
        facts: numbers and names; the end of a key is the unit of the number (`_s`).
        evidence: at least one.
        caveat: the reason why the finding is uncertain, as a key of the rule's `CAVEATS`; or "".
    """

    subject: str
    evidence: tuple[Evidence, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    caveat: str = ""

    @property
    def certainty(self) -> Certainty:
        return "possible" if self.caveat else "certain"


def locate(
    workflow: WorkflowFile, *targets: tuple[tuple[str | int, ...], str]
) -> tuple[Evidence, ...]:
    """Return the lines of (path of keys, text below the key or "") in the file; sorted."""
    source = _source(workflow.text)
    lines = {source.line_number(*path, text=text) for path, text in targets}
    return tuple(Evidence(workflow.path, line=line) for line in sorted(lines))


# Parsing takes a tenth of a second for 600 lines, and each rule asks.
_source: Final = lru_cache(maxsize=64)(SourceText)


def job_title(job_id: str, job: Any) -> str:
    """Return the name of a job as GitHub shows it; the id if an expression makes the name."""
    name = get(job, "name")
    return name if isinstance(name, str) and name and "${{" not in name else job_id
