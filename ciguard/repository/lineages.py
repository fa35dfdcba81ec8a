"""Which commits came before another: asks git in the checkout, else GitHub in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.compare.lineage import NOTHING_KNOWN, Lineage
from ciguard.errors import RemoteError
from ciguard.repository.checkout import Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

MOST: Final = 60  # commits: 20 runs are used, and one of git's processes takes 3 ms


def lineage_of(
    folder: Path,
    environ: Mapping[str, str],
    commit: str | None,
    commits: Sequence[str],
    ask: Callable[[str, str], frozenset[str]] | None = None,
) -> Lineage:
    """What can be known of which `commits` come before `commit`.

    Args:
        commits: oldest first; of very many only the newest are looked at.
        ask: gives the commits between an old one and `commit`, as GitHub lists them.
    """
    shas = list(dict.fromkeys(commits))[-MOST:]
    if commit is None or not shas:
        return NOTHING_KNOWN
    try:
        told = Repository(folder, environ).come_before(commit, shas)
    except RemoteError:  # no git, no checkout: nothing is known by it
        told = {}
    if told:
        yes = frozenset(sha for sha, before in told.items() if before)
        return Lineage(commit, yes, frozenset(told) - yes, "git")
    if ask is None:
        return NOTHING_KNOWN
    try:
        return Lineage(commit, ask(shas[0], commit) & {*shas, commit}, told_by="GitHub")
    except RemoteError:
        return NOTHING_KNOWN
