"""Result files that a suite's program writes: found by the suite's globs, copied into the record.

A file that existed before the first process and has not changed since belongs to an earlier run. A
file is new if its time, size or inode has changed, without regard to the clock. Its event has its
age, `latest_s`. Links to files or folders are never followed.
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
from ciguard.run.frameworks.globs import matches
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
MAX_FILES: Final = 1000  # in a record; a suite with more has one file a test
MAX_BYTES: Final = 256 << 20  # in a record: 200,000 cases with their output
MAX_ENTRIES: Final = 200_000  # files below a working folder, at most
# Flags that not all systems have: a link or pipe that replaced the file meanwhile is not opened.
FLAGS: Final = ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")
PART_CHARACTERS: Final = 120
# Not valid in every file system or in GitHub's artifacts; an artifact omits names that begin with a
# dot.
_UNSAFE: Final = re.compile(rb"[^A-Za-z0-9_.,=@()\[\] +-]|^\.")


def safe_name(relative: str) -> str:
    """Return the path in a record: always inside the folder, never like the record's own files."""
    parts = []
    for part in relative.split("/"):
        raw = os.fsencode(part)
        name = _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], raw).decode("ascii")
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
        record: the record's folder, which is not searched.
        earlier: the earlier legs of the shard.

    Attributes:
        units: units of completed processes without results: their results may be in files.
        failed: number of processes with an exit code that result files have to explain.
        copied: number of files in the record.
    """

    def __init__(self, suites: Mapping[str, Suite], record: str, earlier: PriorLegs) -> None:
        self._suites = suites
        self._record = record
        events = [line for line in earlier.lines if isinstance(line, EventLine)]
        keys = {event.unit_key for event in events if event.kind == UNIT}
        self.units: Set[UnitKey] = keys & earlier.finished
        self.failed = sum(event.kind == EXIT for event in events)
        self._known_fingerprints: Dict[str, Dict[str, Fingerprint]] = {}
        self.copied = 0
        self._bytes = 0
        self._latest_s = 0.0  # `latest_s` of the last copied file
        self._limit_reached = False

    def has_result_globs(self, suite: str) -> bool:
        """Return whether programs of a suite write result files."""
        return bool(self._suites[suite].results)

    def expect_result(self, key: UnitKey, process: int, now_s: float) -> EventLine:
        """Note a unit whose result must be in files; return its event."""
        self.units.add(key)
        return EventLine(UNIT, now_s, process, *key, IN_FILES)

    def expect_explanation(self, process: int, now_s: float) -> EventLine:
        """Note an exit code that files must explain; return its event."""
        self.failed += 1
        return EventLine(EXIT, now_s, process)

    def snapshot(self, suite: str) -> None:
        """Note the existing files, before the first process of a suite."""
        if self._suites[suite].results and suite not in self._known_fingerprints:
            self._known_fingerprints[suite] = self._matching(suite)

    def collect_after(
        self, batch: ProcessFiles, concurrent: Sequence[ProcessFiles], now_s: float
    ) -> Tuple[List[EventLine], bool]:
        """Copy the new files after the end of a process.

        While another process of the suite runs, nothing is copied: it may be writing the same file.

        Returns:
            Events about files, copied or not, and whether the process may have results in files.
        """
        if not self.has_result_globs(batch.suite):
            return [], False
        suite, variant, process = batch.suite, batch.variant, batch.process
        if any(other.suite == suite for other in concurrent):
            return [], True
        files, known = self._matching(suite), self._known_fingerprints[suite]
        self._known_fingerprints[suite] = files
        events = []
        problems: List[str] = []
        for name in sorted(name for name, print_ in files.items() if known.get(name) != print_):
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
        """Return the fingerprints of the matching files, by path below the suite's folder."""
        patterns = [pattern.split("/") for pattern in self._suites[suite].results]
        files: Dict[str, Fingerprint] = {}
        walk = self._walk(os.path.abspath(self._suites[suite].cwd), patterns)
        for count, (parts, entry) in enumerate(walk):
            if count >= MAX_ENTRIES:
                self._limit_reached = True
                break
            if any(matches(parts, pattern) for pattern in patterns):
                status = entry.stat(follow_symlinks=False)
                files["/".join(parts)] = (
                    status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
                )  # fmt: skip
        return files

    def _walk(
        self, root: str, patterns: Sequence[Sequence[str]]
    ) -> Iterator[Tuple[List[str], os.DirEntry[str]]]:
        """Yield the regular files in folders that may hold a match."""
        folders: List[List[str]] = [[]]
        while folders:
            folder = folders.pop()
            try:
                entries = sorted(os.scandir(os.path.join(root, *folder)), key=lambda e: e.name)
            except OSError:
                continue  # removed, or not readable
            for entry in entries:
                parts = [*folder, entry.name]
                if entry.is_dir(follow_symlinks=False):
                    may_match = any(matches(parts, pattern, below=True) for pattern in patterns)
                    if may_match and entry.path != self._record:
                        folders.append(parts)
                elif entry.is_file(follow_symlinks=False):
                    yield parts, entry

    def _copy(self, suite: str, name: str, process: int) -> str:
        """Copy one file and set `_latest_s`; return "", or why it was not copied."""
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
    """Copy the files of earlier legs into the record of the leg that resumes them.

    A file that no longer exists is missing in the new record, too, and its reader reports that.

    Raises:
        InputError: a copy cannot be written.
    """
    for copy in copies:
        parts = copy.name.split("/")
        root = os.path.realpath(os.path.join(copy.folder, FOLDER, process_name(copy.process)))
        source = os.path.join(root, *parts)
        if {"", ".", ".."} & set(parts) or os.path.realpath(source) != source:
            continue  # the path leads out of the folder, so no leg wrote it
        try:
            with open(source, "rb") as stream:
                content = stream.read(MAX_BYTES)
        except OSError:
            continue
        problem = write_copy(
            os.path.join(record, FOLDER, process_name(copy.new_process), *parts), content
        )
        if problem:
            raise InputError(problem, where=copy.name, fix="free some space for the record")


def write_copy(target: str, content: bytes) -> str:
    """Write a copy completely or not at all; return "", or why it was not written."""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(f"{target}.part", "wb") as stream:
            stream.write(content)
        os.replace(f"{target}.part", target)
    except OSError as error:
        return f"the copy cannot be written: {error.strerror or error}"
    return ""
