"""What a xdist worker leaves that died: the result of what it was at, written by the controller.

xdist goes on with another worker. Without a line at that moment the unit would count as running
until the whole process ends, be over its limit meanwhile, and be said to have died of that end.

Lies beside `ciguard_pytest.py` in a folder of the leg's own. Standard library only, Python 3.8+.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Mapping

FATAL = b"Fatal Python error"  # faulthandler's dump says where
LOG_BYTES = 65536  # of the process's output, where a dump is looked for
# Where a worker dies, xdist 3.8 gives its whole scope to the next one, with the test that killed it
# and what was done already, and may wait for ever for a worker that has nothing to do (its issues
# 1323, 1327, 1378).
LOSING = ("loadscope", "loadfile", "loadgroup")
STOPPED = "ciguard: a worker died; tests that have not begun run in a new process"


class Workers:
    """The workers of one controller.

    Args:
        log_file: where the process prints.
        oom_file: its line "oom_kill N" counts what the kernel has killed for memory; "" for none.
    """

    def __init__(self, log_file: str, oom_file: str) -> None:
        self._log_file, self._oom_file = log_file, oom_file
        self._log_read, self._oom_kills = 0, _oom_kills(oom_file)

    def result_of_dead_worker(
        self, name: str, error: str, record_file: str, now_s: float
    ) -> dict[str, Any]:
        """What to write after the last line of a dead worker; nothing if it was at no unit.

        Raises:
            OSError: it died before its first line.
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
        """What the interpreter printed of a crash since the last one; "" for nothing."""
        with contextlib.suppress(OSError), open(self._log_file, "rb") as stream:
            stream.seek(max(self._log_read, os.fstat(stream.fileno()).st_size - LOG_BYTES))
            content = stream.read()
            self._log_read = stream.tell()
            start = content.rfind(FATAL)
            if start >= 0:
                return content[start:].decode("utf-8", "replace")
        return ""


def end_session(config: Any) -> None:
    """Behind the death of a worker: nothing is begun that no worker has yet, where xdist loses it.

    To be called before the controller gives the dead worker's share to others.
    """
    session = config.pluginmanager.get_plugin("dsession")
    if config.getoption("dist", "no") in LOSING and hasattr(session, "triggershutdown"):
        session.triggershutdown()
        session.shouldstop = STOPPED


def limited_workers(wanted: int, most: int | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """The event for workers that fit into memory, of those wanted and of --maxprocesses (`most`).

    Nothing where the number is left to the user or to xdist.
    """
    limit = environ.get("CIGUARD_WORKERS")
    # A pytest that a test starts inherits our variables. The last one: the user's own number.
    inherited = "CIGUARD_TAKEN_BY" in environ or not environ.get("CIGUARD_RECORD_FILE")
    if limit is None or inherited or environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return {}
    wanted = min(wanted, most or wanted)
    workers = min(wanted, int(limit or wanted))
    reason = "memory" if workers < wanted else "fitting" if limit else "not_measured"
    facts = {"workers": workers, "tool_workers": wanted}
    return {"kind": "workers", "reason": reason, "facts": facts, "detail": ""}


def last_start(record_file: str) -> Mapping[str, Any] | None:
    """The start line that has no result after it; a last line that is cut gets its end.

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
