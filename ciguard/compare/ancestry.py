"""Which commits came before another: asks git in the checkout, else GitHub in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.compare.baseline_selection import UNKNOWN, Ancestry
from ciguard.errors import RemoteError
from ciguard.git.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

MAX_COMMITS: Final = 60  # commits: 20 runs are used, and one of git's processes takes 3 ms


def ancestry_of(
    folder: Path,
    environ: Mapping[str, str],
    commit: str | None,
    commits: Sequence[str],
    query: Callable[[str, str], frozenset[str]] | None = None,
) -> Ancestry:
    """What can be known of which `commits` come before `commit`.

    Args:
        commits: oldest first; of very many only the newest are looked at.
        query: gives the commits between an old one and `commit`, as GitHub lists them.
    """
    shas = list(dict.fromkeys(commits))[-MAX_COMMITS:]
    if commit is None or not shas:
        return UNKNOWN
    try:
        known = Checkout(folder, environ).ancestors_among(commit, shas)
    except RemoteError:  # no git, no checkout: nothing is known by it
        known = {}
    if known:
        yes = frozenset(sha for sha, before in known.items() if before)
        return Ancestry(commit, yes, frozenset(known) - yes, "git")
    if query is None:
        return UNKNOWN
    try:
        return Ancestry(commit, query(shas[0], commit) & {*shas, commit}, source="github")
    except RemoteError:
        return UNKNOWN
