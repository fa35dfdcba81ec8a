"""Names of shards: safe ones for folders, and which shard a folder, artifact or job is of.

GitHub shows a job by any text. An artifact's name may not hold some characters of it (actions/
toolkit, path-and-artifact-name-validation), and a folder's name fewer. Standard library only,
Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Callable, Final, Iterable, Mapping

if TYPE_CHECKING:
    from ciguard.model.plan import Plan

MAX_KEY: Final = 80  # characters; a path on Windows has 260
_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._]+")
# What an artifact's name may not hold, and what is usually put in its place.
_REPLACED: Final = re.compile(r'[":<>|*?\r\n\\/_-]')


def safe_keys(names: Iterable[str]) -> Mapping[str, str]:
    """By name, a key of ASCII letters, digits, ".", "-" and "_"; no two differ by case alone.

    A name that is such a key stays; of several names with one key all but the first get a number.
    """
    keys: dict[str, str] = {}
    taken: set[str] = set()
    numbers: dict[str, int] = defaultdict(lambda: 1)
    for name in sorted(dict.fromkeys(names), key=lambda name: not _is_safe(name)):
        begin = name if _is_safe(name) else safe_name(name) or "shard"
        key = begin
        while key.lower() in taken:
            numbers[begin] += 1
            key = f"{begin}-{numbers[begin]}"
        taken.add(key.lower())
        keys[name] = key
    return keys


def safe_name(name: str) -> str:
    """The name with "-" for what a key may not hold; "" where nothing is left."""
    return _UNSAFE.sub("-", name)[:MAX_KEY].strip("-.")


def _is_safe(name: str) -> bool:
    return len(name) <= MAX_KEY and _SAFE.fullmatch(name) is not None


def ends_with(name: str, end: str) -> bool:
    """Whether a job is called after `end`: `test (linux, 03)`, `Tests - 03`.

    GitHub puts the values of an entry into a name in their order, and the shard is the last.
    """
    return re.search(rf"(?:^|[^\w.]){re.escape(end)}\)?$", name) is not None


def shard_lookup(plan: Plan) -> Callable[[str], str | None]:
    """Give the key of the shard that the name of a folder, file or artifact means; None for none.

    The name is the key, or the job's name as GitHub shows it; else the key with "-" for what it may
    not hold, or the job's name with "-" or "_" for what an artifact's name may not hold; or the end
    of the name of one job alone.
    """
    keys = {shard.key for shard in plan.shards}
    jobs = {shard.key: shard.job for shard in plan.shards if shard.job}
    known: dict[str, str | None] = {}

    def find(name: str) -> str | None:
        if name in keys:
            return name
        named = [key for key, job in jobs.items() if job == name]
        if named:  # two jobs may have one name
            return named[0] if len(named) == 1 else None
        if safe_name(name) in keys:
            return safe_name(name)
        folded = _REPLACED.sub("-", name)
        shown = {key: _REPLACED.sub("-", job) for key, job in jobs.items()}
        found = [key for key, job in shown.items() if job == folded]
        found = found or [key for key, job in shown.items() if ends_with(job, folded)]
        return found[0] if len(found) == 1 else None

    def shard_of(name: str) -> str | None:
        if name not in known:
            known[name] = find(name)
        return known[name]

    return shard_of
