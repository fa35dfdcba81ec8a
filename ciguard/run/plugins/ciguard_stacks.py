"""Stacks of all threads, written to a file when the leg asks for them because a test hangs.

Loaded by `-p ciguard_stacks` beside `ciguard_pytest`. Standard library and pytest 7+, Python 3.8+.

    CIGUARD_STACKS_FILE  each process makes NAME-PID, and answers real-time signal SIGRTMAX - 7

faulthandler's handler is C: it answers in an endless C call too, and asks nothing of the tests. The
file's name tells the leg which processes of a tree can be asked; the signal would end any other.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from ciguard.run.plugins.ciguard_memory import REAL
else:
    from ciguard_memory import REAL


def pytest_configure(config: pytest.Config) -> None:
    path, last = os.environ.get("CIGUARD_STACKS_FILE"), getattr(signal, "SIGRTMAX", None)
    register = getattr(faulthandler, "register", None)
    if not path or last is None or register is None or config.option.collectonly:
        return
    # Without a file the leg does not ask: a full disk is no reason to stop a session.
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | REAL.flags
        ready = f"{path}-{os.getpid()}"
        descriptor = REAL.dup_high(os.open(f"{ready}.tmp", flags, 0o644))
        register(int(last) - 7, file=descriptor, all_threads=True)
        REAL.written_to_by_a_signal = descriptor
        os.rename(f"{ready}.tmp", ready)  # now it can be asked
