"""Files of results and of coverage that a suite's program writes, copied into the record.

They are found by the suite's globs. A file that existed before the first process and has not
changed since belongs to an earlier run. A file is new if its time, size or inode has changed,
without regard to the clock. A result file's event has its age, `latest_s`. Links
are never followed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from dataclasses import replace
from typing import Final, Iterator, Mapping, Sequence, Tuple

from ciguard.errors import InputError
from ciguard.model import EventLine, Suite, UnitKey
from ciguard.model.result_times import latest_time_s
from ciguard.run.frameworks.base import ProcessFiles
from ciguard.run.frameworks.globs import matches
from ciguard.run.output.view import IN_FILES, describe_left_out
from ciguard.run.process.files import process_name
from ciguard.run.resume import PriorFile, PriorLegs

Fingerprint = Tuple[int, int, int, int]

# Kinds of events.
FILE: Final = "result_file"
COVERAGE: Final = "coverage"
DATA_FILES: Final = "coverage.py"  # the format of coverage.py's own files
FOLDERS: Final = {FILE: "results", COVERAGE: "coverage"}  # of a record
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


def copy_path(record: str, kind: str, process: int, name: str) -> str:
    """Return the path of a copy; "" names the data that a plugin has written into the record."""
    if not name:
        return os.path.join(record, f"{process_name(process)}.coverage")
    return os.path.join(record, FOLDERS[kind], process_name(process), *name.split("/"))


class ResultCollector:
    """The files of results and of coverage of a leg, of all its suites.

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
        self.units: set[UnitKey] = keys & earlier.finished
        self.failed = sum(event.kind == EXIT for event in events)
        self._known_files: dict[str, dict[str, tuple[str, Fingerprint]]] = {}
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
        if self._globs(suite) and suite not in self._known_files:
            self._known_files[suite] = self._matching(suite)

    def collect_after(
        self,
        batch: ProcessFiles,
        concurrent: Sequence[ProcessFiles],
        now_s: float,
        *,
        runs_first: bool = False,
    ) -> tuple[list[EventLine], bool]:
        """Copy the new files after the end of a process.

        While another process of the suite runs, nothing is copied: it may be writing the same file.

        Args:
            runs_first: the process had units that had not run before.

        Returns:
            Events about files, copied or not, and whether the process may have results in files.
        """
        suite, process = batch.suite, batch.process
        is_waiting = any(other.suite == suite for other in concurrent)
        new = [] if is_waiting else self._new_files(suite)
        running = {suite, *(other.suite for other in concurrent)}
        for other in self._known_files.keys() - running:  # a file of this suite is none of theirs
            if self._suites[other].cwd == self._suites[suite].cwd:
                self._known_files[other] = self._matching(other)
        line = EventLine(FILE, now_s, process, suite, batch.variant)
        results, problems = [], []
        for name in (name for kind, name in new if kind == FILE):
            problem = self._copy(FILE, suite, name, process)
            if problem:
                problems.append(f"{name}: {problem}")
                continue
            facts = {"latest_s": self._latest_s}
            results.append(replace(line, detail=safe_name(name), facts=facts))
        may_have_results = bool(results) or (is_waiting and self.has_result_globs(suite))
        why_none = "ran beside a process that may have replaced its coverage" if is_waiting else ""
        coverage = [name for kind, name in new if kind == COVERAGE]
        events = [*results, *self._take_coverage(line, coverage, why_none, runs_first=runs_first)]
        note = describe_left_out(problems, MAX_ENTRIES if self._limit_reached else None)
        if note:
            events.append(replace(line, kind="results_left_out", detail=note))
        return events, may_have_results

    def _take_coverage(
        self, line: EventLine, names: Sequence[str], why_none: str, *, runs_first: bool
    ) -> list[EventLine]:
        """Copy the new coverage files of a process; return an event for each, or for none."""
        coverage = self._suites[line.suite].coverage
        if coverage is None:
            return []
        line, process = replace(line, kind=COVERAGE, reason="collected"), line.process or 0
        own = copy_path(self._record, COVERAGE, process, "")
        if coverage.format == DATA_FILES and os.path.exists(own):
            return [line]  # another file, if any, has the data of all processes so far
        events = []
        for name in names:
            problem = self._copy(COVERAGE, line.suite, name, process)
            left_out = replace(line, reason="left_out", detail=f"{name}: {problem}")
            events.append(left_out if problem else replace(line, detail=safe_name(name)))
        detail = why_none or f"left no new {' or '.join(coverage.paths)}"
        # Some tools collect nothing when tests run again.
        nothing = replace(line, reason="none" if runs_first else "repeated", detail=detail)
        return events or [nothing]

    def _new_files(self, suite: str) -> list[tuple[str, str]]:
        """Return the kind and name of each file that was written since the last look, by name."""
        files, known = self._matching(suite), self._known_files.get(suite, {})
        self._known_files[suite] = files
        names = sorted(name for name, file in files.items() if known.get(name) != file)
        return [(files[name][0], name) for name in names]

    def _globs(self, suite: str) -> list[tuple[str, Sequence[str]]]:
        """Return the kind and the parts of each glob; that of coverage counts before another."""
        found = self._suites[suite]
        coverage = found.coverage.paths if found.coverage else ()
        globs = [(COVERAGE, glob) for glob in coverage] + [(FILE, glob) for glob in found.results]
        return [(kind, glob.split("/")) for kind, glob in globs]

    def _matching(self, suite: str) -> dict[str, tuple[str, Fingerprint]]:
        """Return the kind and fingerprint of matching files, by path below the suite's folder."""
        globs = self._globs(suite)
        files: dict[str, tuple[str, Fingerprint]] = {}
        walk = self._walk(os.path.abspath(self._suites[suite].cwd), [parts for _, parts in globs])
        for count, (parts, entry) in enumerate(walk if globs else ()):
            if count >= MAX_ENTRIES:
                self._limit_reached = True
                break
            kind = next((kind for kind, glob in globs if matches(parts, glob)), "")
            if kind:
                status = entry.stat(follow_symlinks=False)
                files["/".join(parts)] = kind, (
                    status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
                )  # fmt: skip
        return files

    def _walk(
        self, root: str, patterns: Sequence[Sequence[str]]
    ) -> Iterator[tuple[list[str], os.DirEntry[str]]]:
        """Yield the regular files in folders that may hold a match."""
        folders: list[list[str]] = [[]]
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

    def _copy(self, kind: str, suite: str, name: str, process: int) -> str:
        """Copy one file and set `_latest_s`; return "", or why it was not copied."""
        if self.copied >= MAX_FILES:
            return f"{MAX_FILES} files are in the record"
        target = copy_path(self._record, kind, process, safe_name(name))
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


def copy_prior_files(copies: Sequence[PriorFile], record: str) -> None:
    """Copy the files of earlier legs into the record of the leg that resumes them.

    A file that no longer exists is missing in the new record, too, and its reader reports that.

    Raises:
        InputError: a copy cannot be written.
    """
    for copy in copies:
        source = copy_path(os.path.realpath(copy.folder), copy.kind, copy.process, copy.name)
        if os.path.realpath(source) != source:
            continue  # the path leads out of the folder, so no leg wrote it
        try:
            with open(source, "rb") as stream:
                content = stream.read(MAX_BYTES)
        except OSError:
            continue
        target = copy_path(record, copy.kind, copy.new_process, copy.name)
        problem = write_copy(target, content)
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
