"""Which commits came before another: asks git where it is there, else GitHub in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.compare.baseline_selection import UNKNOWN, Ancestry
from ciguard.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_COMMITS: Final = 60  # commits: 20 runs are used, and one of git's processes takes 3 ms


def ancestry_of(
    commit: str | None,
    commits: Sequence[str],
    by_git: Callable[[str, Sequence[str]], Mapping[str, bool]],
    query: Callable[[str, str], frozenset[str]] | None = None,
) -> Ancestry:
    """What can be known of which `commits` come before `commit`.

    Args:
        commits: oldest first; of very many only the newest are looked at.
        by_git: says of each commit whether it is an ancestor; nothing of those not known.
        query: gives the commits between an old one and `commit`, as GitHub lists them.
    """
    shas = list(dict.fromkeys(commits))[-MAX_COMMITS:]
    if commit is None or not shas:
        return UNKNOWN
    known = by_git(commit, shas)
    if known:
        yes = frozenset(sha for sha, before in known.items() if before)
        return Ancestry(commit, yes, frozenset(known) - yes, "git")
    try:
        listed = query(shas[0], commit) if query is not None else frozenset()
    except RemoteError:
        return UNKNOWN
    return Ancestry(commit, listed & {*shas, commit}, source="github") if listed else UNKNOWN
