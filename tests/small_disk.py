"""A file system of its own and of a few megabytes, which can be full: a tmpfs."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[bool]:
    """A new folder; a disk of this size where this process may mount one, else False."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=30)
        is_mounted = done.returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=30)


@contextlib.contextmanager
def full(place: Path) -> Iterator[None]:
    """Nothing more goes onto this disk in the block, to the last page."""
    ballast = place / "ballast"
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while os.write(descriptor, b"x" * size):
                    pass
        yield
    finally:
        os.close(descriptor)
        ballast.unlink()
