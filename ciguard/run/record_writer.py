"""Writer of `supervisor.jsonl`, the leg's own file of a record: one system call a line.

So a kill of the leg loses no line that was appended. A full disk loses lines: they are counted.
"""

from __future__ import annotations

import errno
import os

from ciguard.codec.record.lines import encode
from ciguard.errors import InputError
from ciguard.model import Line
from ciguard.run.platforms.base import FILE_FLAGS

LEG_FILE = "supervisor.jsonl"
SYNC_EVERY_S = 1.0


def new_folder(path: str) -> str:
    """Make the folder of a new record with an empty `supervisor.jsonl`; return its absolute path.

    An empty folder is taken. The file is made now, so that an error ends the job before its tests.

    Raises:
        InputError: the folder is not empty, or cannot be made or written.
    """
    try:
        os.makedirs(path, exist_ok=True)
        names = sorted(os.listdir(path))
        if not names:
            leg_file = os.path.join(path, LEG_FILE)
            os.close(os.open(leg_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise InputError(what, where=path, fix="pass another folder to --record") from error
    if names:
        what = f"is not empty: it holds {names[0]}"
        fix = "a record is written once: pass a new folder to --record"
        raise InputError(what, where=path, fix=fix)
    return os.path.abspath(path)


class RecordWriter:
    """One append-only file of lines. A line that cannot be written is dropped; the leg goes on.

    `dropped` counts such lines, and `problem` is the system's message for the last of them.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | FILE_FLAGS, 0o644)
        self._synced_s = 0.0
        self._dirty = False
        self.dropped = 0
        self.problem = ""

    def is_removed(self) -> bool:
        """Return whether a test removed or replaced the file: further lines would be lost."""
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return True

    def append(self, line: Line) -> None:
        """Write one line whole, by one system call, or drop and count it."""
        content = encode(line)
        self._dirty = True
        try:
            written = os.write(self._descriptor, content)
            if written != len(content):
                # A partial line would make the next line unreadable.
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self.dropped += 1
            self.problem = error.strerror or str(error)

    def sync(self, now_s: float, *, immediately: bool = False) -> None:
        """Flush the file to the disk if the last flush is a second ago, or immediately."""
        if self._dirty and (immediately or now_s - self._synced_s >= SYNC_EVERY_S):
            self._synced_s = now_s
            self._dirty = False
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Flush the file to the disk and close it."""
        self.sync(0.0, immediately=True)
        os.close(self._descriptor)
