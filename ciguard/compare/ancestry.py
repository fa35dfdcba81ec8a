"""Which commits came before a candidate's base: told by git, by GitHub, or by past runs. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ciguard.compare.run_columns import Run
    from ciguard.history.runs import HistoryRun

PULL_REQUEST: Final = ("pull_request", "pull_request_target")
SHORT: Final = 7  # hexadecimal digits by which people know a commit


@dataclass(frozen=True, slots=True)
class Ancestry:
    """What somebody said of commits; of all others nothing is known.

    Attributes:
        of: the commit whose ancestors were asked for; it is one of them.
        ancestors: are known to be.
        others: are known not to be.
        told_by: "git", "GitHub"; "" where nobody was asked, or nobody could say.
    """

    of: str | None = None
    ancestors: frozenset[str] = frozenset()
    non_ancestors: frozenset[str] = frozenset()
    source: str = ""

    def is_ancestor(self, sha: str | None) -> bool | None:
        """Whether a commit came before; None where nobody knows."""
        if sha is None:
            return None
        return True if sha in self.ancestors else False if sha in self.non_ancestors else None


UNKNOWN: Final = Ancestry()


def base_commit(run: Run) -> str | None:
    """The commit whose ancestors are a run's baseline; None where its record does not tell.

    GitHub tests a pull request as the merge of its head into the base's tip: then it is the other
    parent. Where the head itself was checked out, its ancestors on the base branch are those of
    the merge base. Else it is the tested commit.
    """
    if run.is_pull_request and run.head_sha in run.parents and len(run.parents) > 1:
        return next((parent for parent in run.parents if parent != run.head_sha), None)
    if run.event in PULL_REQUEST and run.sha != run.head_sha:
        return None  # some merge, of which nobody knows the parents
    return run.sha


def with_parents(lineage: Ancestry, runs: Iterable[HistoryRun], commit: str | None) -> Ancestry:
    """Add what the history's own runs say of their parents, as far as that chain is unbroken."""
    if commit is None:
        return lineage
    parents: Mapping[str, set[str]] = defaultdict(set)
    for run in runs:
        if run.sha is not None:
            parents[run.sha].update(run.parents)
    known = {commit}
    left = [commit]
    while left:
        more = parents.get(left.pop(), set()) - known
        known |= more
        left += more
    known |= lineage.ancestors
    source = lineage.source or "the runs' own parents"
    return Ancestry(commit, frozenset(known), lineage.non_ancestors - known, source)
