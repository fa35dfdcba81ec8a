"""A pytest that executes no body of a test has run none of them, however it was told to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import PYTEST, plan_of, start_shard

if TYPE_CHECKING:
    from pathlib import Path

UNITS = ("test_bad.py::test_one", "test_bad.py::test_two")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("through", "option", "workers"),
    [
        ("addopts", "--setup-only", ()),
        ("addopts", "--setuponly", ()),
        ("addopts", "--setupplan", ()),
        ("args", "--setup-plan", ()),
        ("args", "--setup-only", ("-n", "2")),
        ("environment", "--collect-only", ()),
    ],
)
def test_setting_under_which_no_test_executes_is_refused(
    tmp_path: Path, through: str, option: str, workers: tuple[str, ...]
) -> None:
    (tmp_path / "test_bad.py").write_text("def test_one(): assert 0\ndef test_two(): assert 0\n")
    addopts = option if through == "addopts" else ""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {addopts}\n")
    suite = replace(PYTEST, args=(*workers, option) if through == "args" else workers)
    environ = {"PYTEST_ADDOPTS": option} if through == "environment" else {}
    leg = start_shard(tmp_path, plan_of(UNITS, suites={"": suite}), **environ).wait(13)

    assert leg.record().results == ()
    place = {"args": "", "addopts": "pytest.ini: ", "environment": "PYTEST_ADDOPTS: "}[through]
    assert f"with {place}{option} pytest executes no test" in leg.printed
    events = {(one.kind, one.detail) for one in leg.record().events}
    assert ("execution", f"{place}{option}") in events
