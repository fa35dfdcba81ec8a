"""Result of a xdist worker that died, written by the controller for the worker's running unit.

xdist continues with another worker. Without a line at the death, the unit would count as running
until the whole process ends, exceed its limit, and count as a victim of that end. This file lies
beside `ciguard_pytest.py` in a private folder of the leg. Standard library only, Python 3.8+.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Mapping

FATAL = b"Fatal Python error"  # first words of a dump by faulthandler
LOG_BYTES = 65536  # at the end of the process's output, where a dump is searched
# If a worker dies, xdist 3.8 gives its whole scope to the next one, with tests that have run and
# the test that killed it. It may also wait forever for an idle worker (issues 1323, 1327, 1378).
LOSING = ("loadscope", "loadfile", "loadgroup")
STOPPED = "ciguard: a worker died; tests that have not begun run in a new process"


class Workers:
    """The workers of one controller.

    Args:
        log_file: file of the process's output.
        oom_file: its line "oom_kill N" counts processes that the kernel killed for memory; "" for
            none.
    """

    def __init__(self, log_file: str, oom_file: str) -> None:
        self._log_file, self._oom_file = log_file, oom_file
        self._log_read, self._oom_kills = 0, _oom_kills(oom_file)

    def result_of_dead_worker(
        self, name: str, error: str, record_file: str, now_s: float
    ) -> dict[str, Any]:
        """Return the line to write for a dead worker; {} if it ran no unit.

        Raises:
            OSError: the worker died before its first line.
        """
        start = last_start(record_file)
        if start is None:
            return {}
        before, self._oom_kills = self._oom_kills, _oom_kills(self._oom_file)
        return {
            "unit": start["unit"],
            "case": start["unit"],
            "outcome": "died",
            "ending": "out_of_memory" if self._oom_kills > before else "crash",
            "at_s": now_s,
            "wall_s": round(max(0.0, now_s - start["at_s"]), 6),
            "message": f"its worker {name} died: {error}\n{self._dump()}".strip(),
            **{name: start[name] for name in ("file", "line") if name in start},
        }

    def _dump(self) -> str:
        """Return the interpreter's last dump of a crash since the previous call; "" for none."""
        with contextlib.suppress(OSError), open(self._log_file, "rb") as stream:
            stream.seek(max(self._log_read, os.fstat(stream.fileno()).st_size - LOG_BYTES))
            content = stream.read()
            self._log_read = stream.tell()
            start = content.rfind(FATAL)
            if start >= 0:
                return content[start:].decode("utf-8", "replace")
        return ""


def end_session(config: Any) -> None:
    """End the session after the death of a worker, if xdist would lose or repeat tests.

    No test that waits in the controller begins any more. Call this before the controller gives the
    dead worker's share to others.
    """
    session = config.pluginmanager.get_plugin("dsession")
    if config.getoption("dist", "no") in LOSING and hasattr(session, "triggershutdown"):
        session.triggershutdown()
        session.shouldstop = STOPPED


def limited_workers(wanted: int, most: int | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the event for the workers that fit into memory, among those wanted.

    {} if the user or xdist decides the number.

    Args:
        wanted: number that xdist would start.
        most: --maxprocesses.
    """
    limit = environ.get("CIGUARD_WORKERS")
    # A pytest that a test starts inherits our variables. The last variable is the user's number.
    inherited = "CIGUARD_TAKEN_BY" in environ or not environ.get("CIGUARD_RECORD_FILE")
    if limit is None or inherited or environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return {}
    wanted = min(wanted, most or wanted)
    workers = min(wanted, int(limit or wanted))
    reason = "memory" if workers < wanted else "fitting" if limit else "not_measured"
    facts = {"workers": workers, "tool_workers": wanted}
    return {"kind": "workers", "reason": reason, "facts": facts, "detail": ""}


def last_start(record_file: str) -> Mapping[str, Any] | None:
    """Return the start line without a result after it; end a last line that was cut.

    Raises:
        OSError: there is no such file.
    """
    start, content = None, b"\n"
    with open(record_file, "rb+") as stream:
        for content in stream:
            with contextlib.suppress(ValueError):
                line = json.loads(content)
                if line["type"] in ("start", "result"):
                    start = line if line["type"] == "start" else None
        if not content.endswith(b"\n"):
            stream.write(b"\n")
    return start


def _oom_kills(path: str) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(path, "rb") as stream:
        return int(stream.read().partition(b"oom_kill ")[2].split()[0])
    return 0
