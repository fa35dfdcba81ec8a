"""A history in a file."""

from __future__ import annotations

import hashlib
import shlex
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ciguard.errors import InputError
from ciguard.history.file import NotAHistory
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ciguard.history.file import DamagedHistory


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """The bytes, None where there are none yet, and the version that a write must still find."""

    content: bytes | None
    version: str = ""


@dataclass(frozen=True, slots=True)
class FileStore:
    """One file; written aside and moved, so that a reader sees the old one or the new one."""

    location: str
    folder: Path
    environ: Mapping[str, str] = field(repr=False)  # other stores need it

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.location

    def recovery_advice(self, error: DamagedHistory) -> str:
        """A damaged history is put aside; what may be another file is let alone."""
        if isinstance(error, NotAHistory):
            return "name a file that ciguard wrote; `ciguard history add` begins one"
        aside = f"mv {shlex.quote(self.location)} {shlex.quote(f'{self.location}.damaged')}"
        return f"put it aside: {aside}; then put a copy back, or let later runs fill it"

    def read(self) -> StoredBytes:
        """The file's bytes.

        Raises:
            InputError: it is there, and cannot be read.
        """
        if not self.location:
            raise InputError("no place for the history", fix="name a file, or branch:NAME")
        try:
            is_file = stat.S_ISREG(self.path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return StoredBytes(None)
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            raise InputError(what, where=f"{self.location:.200}") from error
        if not is_file:
            fix = "name a file, or branch:NAME"
            raise InputError("no file that can hold a history", where=self.location, fix=fix)
        content = local.read(self.path)
        return StoredBytes(content, hashlib.sha256(content).hexdigest())

    def write(self, content: bytes, expected: StoredBytes) -> bool:
        """Replace the file, if it is still the one that was read.

        Raises:
            InputError: it cannot be written; the old one is untouched.
        """
        # Between this look and the move another writer may still come: a few milliseconds. A file
        # has one writer in all that ciguard writes itself; several use a branch.
        if self.read().version != expected.version:
            return False
        local.write(self.path, content)
        return True
