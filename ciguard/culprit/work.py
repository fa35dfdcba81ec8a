"""The work of a search: commits in worktrees, each prepared once, and a journal of all tries.

A search that was killed goes on where it was: its folder has the journal and the worktrees.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TextIO

from ciguard import console
from ciguard.config.file import Config
from ciguard.config.invocation import Invocation
from ciguard.config.suites import suites_of
from ciguard.culprit.answer import Stopped
from ciguard.culprit.progress import Line, Progress, values_of
from ciguard.culprit.view import line_text
from ciguard.errors import InputError
from ciguard.experiment import commit_test
from ciguard.experiment.commits import CommitRunner
from ciguard.experiment.measurement import Measurement
from ciguard.experiment.process import LegRunner, SignalGuard
from ciguard.experiment.schedule import Step
from ciguard.git.checkout import Checkout
from ciguard.sources import local
from ciguard.text import one_line

if sys.platform != "win32":
    import fcntl

JOURNAL: Final = "journal.jsonl"


def search_folder(*identity: str) -> Path:
    """Make the folder of a search, or return that of the same search before.

    Raises:
        InputError: another user made a folder of this name.
    """
    digest = hashlib.sha256("\0".join(identity).encode("utf-8", "surrogateescape")).hexdigest()
    folder = Path(tempfile.gettempdir()) / f"ciguard-culprit-{digest[:16]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
        raise InputError("belongs to another user", where=str(folder), fix="set TMPDIR")
    return folder


def open_journal(folder: Path) -> tuple[TextIO, list[Line]]:
    """Open and lock the journal of a search, and read its lines.

    A last line that a kill cut short is cut off.

    Raises:
        InputError: another process searches, or the journal is damaged.
    """
    journal = (folder / JOURNAL).open("a+", encoding="utf-8")
    try:
        if sys.platform != "win32":
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        journal.seek(0)
        lines = journal.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            journal.truncate(len("".join(lines[:-1]).encode()))
            del lines[-1]
        return journal, [Line(**json.loads(line)) for line in lines]
    except BlockingIOError:
        raise InputError("another search has it", where=str(folder), fix="await its end") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"is damaged: {error}", where=journal.name, fix="remove it") from None


@dataclass
class Work:
    """The worktrees of a search by commit, and what runs in them."""

    invocation: Invocation
    config: Config
    folder: Path
    journal: TextIO
    repository: Checkout
    progress: Progress
    stopping: SignalGuard
    legs: LegRunner

    def __post_init__(self) -> None:
        prefix = self.repository.prefix()
        self.trees = {sha: self.folder / sha for sha in self.progress.commits}
        checkouts = {sha: tree / prefix for sha, tree in self.trees.items()}
        # A worktree that was removed meanwhile is prepared again.
        kept = (at for at, tree in enumerate(self.trees.values()) if tree.exists())
        self.progress.prepared.intersection_update(kept)
        self.runner = CommitRunner(self.invocation, self.config, checkouts, self.legs)

    def search(self) -> Stopped:
        """Try commits until each test has an answer, no try tells anything, or the budget ends."""
        progress = self.progress
        while (position := progress.next_position()) is not None:
            if progress.expected_s()[position] > self.legs.remaining_s():
                return "budget"
            sha, is_prepared = progress.commits[position], position in progress.prepared
            line = self._try(sha) if is_prepared else self._prepare(sha)
            if line is None:
                return "budget"
            self.journal.write(json.dumps(asdict(line)) + "\n")
            self.journal.flush()
            os.fsync(self.journal.fileno())
            progress.add(line)
            console.err(line_text(line, {one.measure for one in progress.subjects}))
        return ""

    def remove(self) -> None:
        """Remove the worktrees and the journal."""
        with self.stopping.deferred():
            for tree in self.trees.values():
                if tree.exists():
                    self.repository.remove_worktree(tree)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _prepare(self, sha: str) -> Line | None:
        began_s = self.legs.remaining_s()
        with self.stopping.deferred():
            if self.trees[sha].exists():  # a kill interrupted its set-up
                self.repository.remove_worktree(self.trees[sha])
            self.repository.add_worktree(self.trees[sha], sha)
        try:
            self.runner.set_up(sha, self.stopping)
        except InputError as error:
            console.err(error.what)
            remaining_s, reason = self.legs.remaining_s(), error.what.partition("\n")[0]
            line = Line("unusable", sha, began_s - remaining_s, reason)
            return line if remaining_s > 0 else None
        return Line("prepared", sha, began_s - self.legs.remaining_s())

    def _try(self, sha: str) -> Line | None:
        keys = list(dict.fromkeys(subject.key for subject in self.progress.open_subjects()))
        plan = self.folder / "plan.json"
        plan.write_bytes(commit_test.plan_of(keys, suites_of(self.config)))
        found: list[Line] = []

        def read(run: Measurement, record_dir: Path, output_text: str) -> Measurement:
            records = local.read_record_tree(record_dir) if record_dir.is_dir() else ()
            is_whole = records and records[0].end and records[0].end.ending == "completed"
            failure = "" if is_whole else commit_test.failure_of(records, output_text)
            values = () if failure else tuple(values_of(records[0], keys))
            reason = one_line(failure.partition("\n")[0], 200)
            found.append(
                Line("unusable" if failure else "tried", sha, run.duration_s, reason, values)
            )
            return run

        self.runner.run(Step(0, sha, 0, 0), plan, read)
        return found[0] if found else None
