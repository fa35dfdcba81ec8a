"""The name of one run attempt, by GitHub's numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """A run attempt; attempts of one repository are ordered from old to new."""

    repository_id: int
    run_id: int
    run_attempt: int

    def __str__(self) -> str:
        return f"run {self.run_id}/{self.run_attempt} of repository {self.repository_id}"
