"""Result files that a suite's program writes: found by its globs, copied into the record.

What was there before the first process, and has not been written since, is of an earlier run. No
clock is asked: a file is new when its time, size or inode is another than before. How old it is
says its event, `latest_s`. Links are never followed, neither to a file nor to a folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Dict, Final, Iterator, List, Mapping, Sequence, Set, Tuple

from ciguard.errors import InputError
from ciguard.model import EventLine, Suite, UnitKey
from ciguard.model.result_times import latest_time_s
from ciguard.run.frameworks.globs import matches, may_match_below
from ciguard.run.output.view import IN_FILES, describe_left_out
from ciguard.run.process.files import process_name

if TYPE_CHECKING:
    from ciguard.run.frameworks.base import ProcessFiles
    from ciguard.run.resume import PriorLegs, PriorResultFile

    Fingerprint = Tuple[int, int, int, int]

FOLDER: Final = "results"  # of a record
# Kinds of events.
FILE: Final = "result_file"
UNIT: Final = "in_files"
EXIT: Final = "exit_in_files"
MAX_FILES: Final = 1000  # of a record; a suite with more has one file a test
MAX_BYTES: Final = 256 << 20  # of a record: 200,000 cases with their output
MAX_ENTRIES: Final = 200_000  # files below a working folder, before it is given up
# Not all systems have them: neither a link nor a pipe that was put there in between is opened.
FLAGS: Final = ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")
PART_CHARACTERS: Final = 120
# What every file system and GitHub's artifacts take; a dot in front would hide the file from them.
_UNSAFE: Final = re.compile(rb"[^A-Za-z0-9_.,=@()\[\] +-]|^\.")


def safe_name(relative: str) -> str:
    """A path as it lies in a record: never out of its folder, never one of the record's own."""
    parts = []
    for part in relative.split("/"):
        raw = os.fsencode(part)
        name = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], raw).decode("ascii")
        if name.endswith(".jsonl"):
            name = f"{name[:-1]}%6C"
        if len(name) > PART_CHARACTERS:
            name = f"{hashlib.sha256(raw).hexdigest()[:16]}-{name[-PART_CHARACTERS + 20 :]}"
        parts.append(name)
    return "/".join(parts)


class ResultCollector:
    """The result files of a leg, of all its suites.

    Args:
        suites: by name; those without globs cost nothing.
        record: the record's folder, which is not looked into.
        earlier: what legs before this one came to.

    Attributes:
        units: those that a process ended well without a word about: their results are in files.
        failed: processes with an exit code that such a file has to explain.
        copied: how many files are in the record.
    """

    def __init__(self, suites: Mapping[str, Suite], record: str, earlier: PriorLegs) -> None:
        self._suites = suites
        self._record = record
        events = [one for one in earlier.lines if isinstance(one, EventLine)]
        keys = {
            UnitKey(one.suite, one.variant, one.unit or "") for one in events if one.kind == UNIT
        }
        self.units: Set[UnitKey] = keys & earlier.finished
        self.failed = sum(one.kind == EXIT for one in events)
        self._known_fingerprints: Dict[str, Dict[str, Fingerprint]] = {}
        self.copied = 0
        self._bytes = 0
        self._latest_s = 0.0  # of the file that was copied last
        self._limit_reached = False

    def has_result_globs(self, suite: str) -> bool:
        """Whether programs of a suite write such files."""
        return bool(self._suites[suite].results)

    def expect_result(self, key: UnitKey, process: int, now_s: float) -> EventLine:
        """The event for a unit whose result is to be looked for in files."""
        self.units.add(key)
        return EventLine(UNIT, now_s, process, *key, IN_FILES)

    def expect_explanation(self, process: int, now_s: float) -> EventLine:
        """The event for an exit code that is to be looked for in files."""
        self.failed += 1
        return EventLine(EXIT, now_s, process)

    def snapshot(self, suite: str) -> None:
        """Take note of what is there, before the first process of a suite."""
        if self._suites[suite].results and suite not in self._known_fingerprints:
            self._known_fingerprints[suite] = self._matching(suite)

    def collect_after(
        self, batch: ProcessFiles, concurrent: Sequence[ProcessFiles], now_s: float
    ) -> Tuple[List[EventLine], bool]:
        """Copy what is new since the last time, and say so; what cannot be copied as well.

        Returns:
            The events, and whether the process may have results there.

        While another one of its suite runs, that may be at the same file: then it is left to that.
        """
        if not self.has_result_globs(batch.suite):
            return [], False
        suite, variant, process = batch.suite, batch.variant, batch.process
        if any(other.suite == suite for other in concurrent):
            return [], True
        found, known = self._matching(suite), self._known_fingerprints[suite]
        self._known_fingerprints[suite] = found
        new = sorted(name for name, mark in found.items() if known.get(name) != mark)
        events = []
        problems: List[str] = []
        for name in new:
            problem = self._copy(suite, name, process)
            if problem:
                problems.append(f"{name}: {problem}")
                continue
            detail = safe_name(name)
            facts = {"latest_s": self._latest_s}
            events.append(
                EventLine(FILE, now_s, process, suite, variant, detail=detail, facts=facts)
            )
        has_copied = bool(events)
        note = describe_left_out(problems, MAX_ENTRIES if self._limit_reached else None)
        if note:
            events.append(
                EventLine("results_left_out", now_s, process, suite, variant, detail=note)
            )
        return events, has_copied

    def _matching(self, suite: str) -> Dict[str, Fingerprint]:
        """By path below the suite's folder, what tells a file from what it was before."""
        wanted = [pattern.split("/") for pattern in self._suites[suite].results]
        found: Dict[str, Fingerprint] = {}
        walk = self._walk(os.path.abspath(self._suites[suite].cwd), wanted)
        for looked_at, (parts, entry) in enumerate(walk):
            if looked_at >= MAX_ENTRIES:
                self._limit_reached = True
                break
            if any(matches(parts, one) for one in wanted):
                status = entry.stat(follow_symlinks=False)
                found["/".join(parts)] = (
                    status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
                )  # fmt: skip
        return found

    def _walk(
        self, root: str, patterns: Sequence[Sequence[str]]
    ) -> Iterator[Tuple[List[str], os.DirEntry[str]]]:
        """The regular files of folders that may lead to a match."""
        waiting: List[List[str]] = [[]]
        while waiting:
            above = waiting.pop()
            try:
                entries = sorted(os.scandir(os.path.join(root, *above)), key=lambda one: one.name)
            except OSError:
                continue  # gone, or not readable
            for entry in entries:
                parts = [*above, entry.name]
                if entry.is_dir(follow_symlinks=False):
                    if entry.path != self._record and any(
                        may_match_below(parts, one) for one in patterns
                    ):
                        waiting.append(parts)
                elif entry.is_file(follow_symlinks=False):
                    yield parts, entry

    def _copy(self, suite: str, name: str, process: int) -> str:
        """Copy one file; "" or why not. Also says when its tests ran at the latest."""
        if self.copied >= MAX_FILES:
            return f"{MAX_FILES} files are in the record"
        target = os.path.join(
            self._record, FOLDER, process_name(process), *safe_name(name).split("/")
        )
        try:
            source = os.open(
                os.path.join(os.path.abspath(self._suites[suite].cwd), *name.split("/")),
                os.O_RDONLY | sum(getattr(os, name, 0) for name in FLAGS),
            )
        except OSError as error:
            return error.strerror or str(error)
        with os.fdopen(source, "rb") as stream:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                return "is no file any more"
            content = stream.read(MAX_BYTES - self._bytes + 1)
        if len(content) > MAX_BYTES - self._bytes:
            return f"with {status.st_size} bytes it would pass {MAX_BYTES >> 20} MiB in the record"
        self.copied += 1
        self._bytes += len(content)
        own_s = latest_time_s(content, max(0, time.timezone))
        self._latest_s = min(own_s or status.st_mtime, status.st_mtime)
        return write_copy(target, content)


def copy_prior_files(copies: Sequence[PriorResultFile], record: str) -> None:
    """Copy the files of earlier legs into the record of one that goes on from them.

    What is not there any more is missing in the new record too, where a reader finds that out.

    Raises:
        InputError: a copy cannot be written.
    """
    for copy in copies:
        parts = copy.name.split("/")
        root = os.path.realpath(os.path.join(copy.folder, FOLDER, process_name(copy.process)))
        source = os.path.join(root, *parts)
        if {"", ".", ".."} & set(parts) or os.path.realpath(source) != source:
            continue  # it leads elsewhere, so no leg wrote it
        try:
            with open(source, "rb") as stream:
                content = stream.read(MAX_BYTES)
        except OSError:
            continue
        problem = write_copy(os.path.join(record, FOLDER, process_name(copy.now), *parts), content)
        if problem:
            raise InputError(problem, where=copy.name, fix="free some space for the record")


def write_copy(target: str, content: bytes) -> str:
    """Write a copy whole, or not at all; "" or why not."""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(f"{target}.part", "wb") as stream:
            stream.write(content)
        os.replace(f"{target}.part", target)
    except OSError as error:
        return f"the copy cannot be written: {error.strerror or error}"
    return ""
