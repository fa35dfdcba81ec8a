"""Gives pytest-cov a data file of this process's own, beside its record.

Loaded by `-p ciguard_coverage`. pytest-cov erases the data file that it finds, so of the processes
of a leg only the last one's data would be left. Where the user has set COVERAGE_FILE that counts.
The variable is set only while pytest-cov looks at it: tests see the environment that they know.
Standard library and pytest 7+, Python 3.8+.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from typing import Any, Generator, Iterator

VARIABLE = "COVERAGE_FILE"


@contextlib.contextmanager
def _own_file(options: Any) -> Iterator[None]:
    """While pytest-cov starts, if it is to measure anything."""
    record = os.environ.get("CIGUARD_RECORD_FILE")
    if not record or not getattr(options, "cov_source", None) or VARIABLE in os.environ:
        yield
        return
    os.environ[VARIABLE] = f"{os.path.splitext(os.path.abspath(record))[0]}.coverage"
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, None]:
    with _own_file(early_config.known_args_namespace):
        yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> Generator[None, Any, None]:
    # A worker of pytest-xdist starts here; its controller, and any other process, above.
    if hasattr(session.config, "workerinput"):
        with _own_file(session.config.option):
            yield
    else:
        yield
