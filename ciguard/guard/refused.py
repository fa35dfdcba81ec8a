"""Files of records that were not read: what they say is not known, and might be a failure. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAMED: Final = 20  # one by one; a million refused files are no million findings
_FIX: Final = "look at what the job uploaded: no leg of ciguard writes that"


def check_unread_files(problems: Sequence[str]) -> tuple[Finding, ...]:
    """What the guard says of them.

    Args:
        problems: each as "where: why", in any order.
    """
    found = [
        Finding("incomplete", "unread_file", f"{problem:.400}; it was not read", fix=_FIX)
        for problem in sorted(problems)[:MAX_NAMED]
    ]
    if len(problems) > MAX_NAMED:
        what = f"{len(problems) - MAX_NAMED:,} more files or artifacts were not read"
        found.append(Finding("incomplete", "unread_file", what, fix=_FIX))
    return tuple(found)
