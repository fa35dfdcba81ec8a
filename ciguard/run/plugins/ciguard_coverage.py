"""Pytest plugin that gives pytest-cov a separate data file for each process of a leg.

`-p ciguard_coverage` loads it. pytest-cov erases the data file that it finds, so that without this
plugin only the last process of a leg would leave data. At its end, each process combines the files
of all processes into the file that pytest-cov alone would have written, which later steps of the
job upload. The variable is set only while pytest-cov reads it, so that tests see their usual
environment. An event of the record names the configuration, which `ciguard coverage` reads, too.
Standard library and pytest 7+, Python 3.8+; coverage if pytest-cov is used.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import pathlib
import shutil
import warnings
from typing import Any, Generator, Iterator

import pytest

VARIABLE = "COVERAGE_FILE"
EXTRA_TRY = "CIGUARD_EXTRA_TRY"
# The data file of this process, the configured data file, and a `Coverage` that can combine.
_WANTED = pytest.StashKey["tuple[str, str, Any]"]()


def _data_file(record: str) -> str:
    return f"{os.path.splitext(os.path.abspath(record))[0]}.coverage"


@contextlib.contextmanager
def _own_file(options: Any) -> Iterator[None]:
    """Set the variable while pytest-cov starts, if pytest-cov measures anything."""
    record = os.environ.get("CIGUARD_RECORD_FILE")
    if not record or not getattr(options, "cov_source", None):
        yield
        return
    given = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = _data_file(record)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if given is not None:
            os.environ[VARIABLE] = given


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, None]:
    if os.environ.get(EXTRA_TRY):
        early_config.known_args_namespace.cov_source = None
    with _own_file(early_config.known_args_namespace):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep the reports of all tests, which an extra try would replace with reports of one test."""
    if os.environ.get(EXTRA_TRY):
        config.option.xmlpath = config.option.log_file = None


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> Generator[None, Any, None]:
    # pytest-cov starts here in a worker of pytest-xdist, and in the hook above otherwise.
    options = session.config.option
    if hasattr(session.config, "workerinput"):
        with _own_file(options):
            yield
        return
    yield
    record = os.environ.get("CIGUARD_RECORD_FILE")
    if record and session.config.pluginmanager.hasplugin("_cov"):
        import coverage  # noqa: PLC0415 - only pytest-cov needs it

        combined = coverage.Coverage(config_file=options.cov_config)
        # Read now, because a test may change the folder.
        wanted = os.path.abspath(str(combined.get_option("run:data_file")))
        session.config.stash[_WANTED] = _data_file(record), wanted, combined
        detail = (combined.config.config_file or "").replace("\\", "/")
        line = {"type": "event", "kind": "coverage_config", "detail": detail}
        with open(record, "a", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(line)}\n")


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, None]:
    """Let pytest-cov combine the data of programs that tests start, beside the configured file."""
    data, target, _ = session.config.stash.get(_WANTED, ("", "", None))
    pattern = f"{glob.escape(target)}.*"
    before = set(glob.glob(pattern) if target else ())
    yield
    for path in set(glob.glob(pattern) if target else ()) - before:
        with contextlib.suppress(OSError):  # another process has taken it
            shutil.move(path, f"{data}{path[len(target) :]}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the file that pytest-cov alone would have written, with the data of all processes."""
    data, target, combined = session.config.stash.get(_WANTED, ("", "", None))
    if combined is None or not os.path.exists(data):
        return  # nothing was measured (--no-cov): the file belongs to other processes
    own = f"{target}.{os.getpid()}-ciguard"
    combined.set_option("run:data_file", own)
    record = os.path.dirname(os.path.abspath(os.environ["CIGUARD_RECORD_FILE"]))
    earlier = [target] if session.config.option.cov_append and os.path.exists(target) else []
    done: list[tuple[str, int, int]] = []
    # Repeat if another process has written, because this one may have replaced its file.
    while done != (found := _data_files(record)):
        done = found
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            combined.erase()  # data of the last iteration is in the file that was moved
            combined.combine(earlier + [path for path, _, _ in found if _is_whole(path)], keep=True)
            combined.save()
        os.replace(own, target)


def _data_files(record: str) -> list[tuple[str, int, int]]:
    """Return path, time and size of each process's data; changes show that it is being written."""
    paths = sorted(glob.glob(os.path.join(glob.escape(record), "*.coverage")))
    status = [(path, os.stat(path)) for path in paths]
    return [(path, one.st_mtime_ns, one.st_size) for path, one in status]


def _is_whole(path: str) -> bool:
    """Return whether coverage can read the file: a process may be writing it, or was killed.

    A process that is writing combines all files itself afterwards. coverage itself is not used for
    this check, because it would convert an empty file into one of its own.
    """
    import sqlite3  # noqa: PLC0415 - coverage needs it, and not every Python has it

    place = f"{pathlib.Path(path).as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(place, timeout=1.0, uri=True)) as data:
            data.execute("SELECT version FROM coverage_schema").fetchall()
            data.execute("SELECT path FROM file").fetchall()
    except sqlite3.Error:
        return False
    return True
