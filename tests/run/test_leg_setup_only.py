"""A pytest that only sets its tests up has run none of them, however it was told to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import PYTEST, plan_of, start_shard

if TYPE_CHECKING:
    from pathlib import Path

UNITS = ("test_bad.py::test_one", "test_bad.py::test_two")


@pytest.mark.parametrize(
    ("through", "option", "workers"),
    [
        ("args", "--setup-plan", ()),
        ("addopts", "--setup-only", ()),
        ("environment", "--setup-plan", ()),
        ("args", "--setup-only", ("-n", "2")),
    ],
    ids=["args", "addopts", "environment", "xdist"],
)
def test_setup_only_gives_no_results(
    tmp_path: Path, through: str, option: str, workers: tuple[str, ...]
) -> None:
    (tmp_path / "test_bad.py").write_text("def test_one(): assert 0\ndef test_two(): assert 0\n")
    addopts = option if through == "addopts" else ""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {addopts}\n")
    suite = replace(PYTEST, args=(*workers, option) if through == "args" else workers)
    environ = {"PYTEST_ADDOPTS": option} if through == "environment" else {}
    leg = start_shard(tmp_path, plan_of(UNITS, suites={"": suite}), **environ).wait(13)

    assert leg.record().results == ()
    assert "--setup-only and --setup-plan run no test" in leg.printed
