"""Names of shards: keys that are safe in paths, and the shard that a folder, artifact or job names.

A job's name may have any characters. Names of artifacts exclude some characters (actions/toolkit,
path-and-artifact-name-validation), and names of folders exclude more. Standard library only, Python
3.8+ (part of the program that runs a shard).
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Callable, Final, Iterable, Mapping

from ciguard.model.plan import Plan

MAX_KEY: Final = 80  # characters; a path on Windows has 260
_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._]+")
# Characters that artifact names exclude, and their usual replacements.
_REPLACED: Final = re.compile(r'[":<>|*?\r\n\\/_-]')


def safe_keys(names: Iterable[str]) -> Mapping[str, str]:
    """Return a key for each name: ASCII letters, digits, ".", "-", "_", unique without case.

    A name that is such a key stays. If several names have one key, all but the first get a number.
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
    """Replace characters that a key excludes by "-"; return "" if none remains."""
    return _UNSAFE.sub("-", name)[:MAX_KEY].strip("-.")


def _is_safe(name: str) -> bool:
    return len(name) <= MAX_KEY and _SAFE.fullmatch(name) is not None


def ends_with(name: str, end: str) -> bool:
    """Return whether a job's name ends with the word `end`: `test (linux, 03)`, `Tests - 03`.

    GitHub appends the values of a matrix entry to the name in their order; the shard is the last.
    """
    return re.search(rf"(?:^|[^\w.]){re.escape(end)}\)?$", name) is not None


def shard_lookup(plan: Plan) -> Callable[[str], str | None]:
    """Return a function from the name of a folder, file or artifact to its shard's key, or None.

    A name matches by the first of these rules: it is a key; it is a job's name as GitHub shows it;
    it is a key with excluded characters as "-"; it is a job's name with characters that artifact
    names exclude as "-" or "_"; it is the end of exactly one job's name.
    """
    keys = {shard.key for shard in plan.shards}
    jobs = {shard.key: shard.job for shard in plan.shards if shard.job}
    known: dict[str, str | None] = {}

    def find(name: str) -> str | None:
        if name in keys:
            return name
        named = [key for key, job in jobs.items() if job == name]
        if named:  # two jobs may have the same name
            return named[0] if len(named) == 1 else None
        if safe_name(name) in keys:
            return safe_name(name)
        folded = _REPLACED.sub("-", name)
        folded_jobs = {key: _REPLACED.sub("-", job) for key, job in jobs.items()}
        matches = [key for key, job in folded_jobs.items() if job == folded]
        matches = matches or [key for key, job in folded_jobs.items() if ends_with(job, folded)]
        return matches[0] if len(matches) == 1 else None

    def shard_of(name: str) -> str | None:
        if name not in known:
            known[name] = find(name)
        return known[name]

    return shard_of
