"""What is known around two runs, besides what they wrote down. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ciguard.compare.ancestry import UNKNOWN, Ancestry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.test_changes import Excuse
    from ciguard.model import CaseKey
    from ciguard.model.jobs import Job


@dataclass(frozen=True, slots=True)
class Context:
    """Each has a value for "nobody said".

    Attributes:
        branch: the base's.
        lineage: which commits came before the candidate's base.
        prices: of a minute, by pool, in USD.
        jobs_before, jobs_after: of the base and the candidate, as GitHub knows them.
        excused: failures of the candidate that do not count.
    """

    branch: str | None = None
    lineage: Ancestry = UNKNOWN
    prices: Mapping[str, float] = field(default_factory=dict)
    jobs_before: tuple[Job, ...] = ()
    jobs_after: tuple[Job, ...] = ()
    excused: Mapping[CaseKey, Excuse] = field(default_factory=dict)


NO_CONTEXT: Final = Context()
