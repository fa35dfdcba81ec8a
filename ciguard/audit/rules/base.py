"""The values that a rule of the audit reads and finds, and the places of a workflow file. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ciguard.workflow.positions import SourceText

if TYPE_CHECKING:
    from collections.abc import Mapping

Certainty = Literal["certain", "possible"]


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """A workflow of the repository, as its default branch has it.

    Attributes:
        path: in the repository, as `.github/workflows/ci.yml`.
        text: as it is written.
        content: the value of its YAML, of any shape.
    """

    path: str
    text: str
    content: Any


@dataclass(frozen=True, slots=True)
class FoundAt:
    """Evidence of a finding: a place in a file, or a run or a job.

    Attributes:
        what: file, or name of the run or job.
        url: of its page; "" where there is none.
        line: of the file, from 1; None for a run or a job.
    """

    what: str
    url: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A finding of a rule, as values: the rule has the words.

    Attributes:
        subject: the job, matrix or check that the finding is about, as GitHub shows it.
        facts: numbers and names; the end of a key is the unit of its number (`_s`, `_usd`).
        evidence: at least one.
        caveat: the reason why the rule cannot be sure, as a key of its `CAVEATS`; "" if it is.
    """

    subject: str
    evidence: tuple[FoundAt, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    caveat: str = ""

    @property
    def certainty(self) -> Certainty:
        return "possible" if self.caveat else "certain"


def locate(
    workflow: WorkflowFile, *places: tuple[tuple[str | int, ...], str]
) -> tuple[FoundAt, ...]:
    """Return the lines of paths of keys in the file, each with a text below it or ""; sorted."""
    source = SourceText(workflow.text)
    lines = {source.line_number(*path, text=text) for path, text in places}
    return tuple(FoundAt(workflow.path, line=line) for line in sorted(lines))


def job_title(job_id: str, job: Any) -> str:
    """Return the name of a job as GitHub shows it; its id where only a run knows the name."""
    name = job.get("name") if isinstance(job, dict) else None
    return name if isinstance(name, str) and name and "${{" not in name else job_id
