"""Names of checks, as GitHub makes them from a job's name and its matrix."""

from __future__ import annotations

from typing import Any

import pytest

from ciguard.workflow.check_names import names_check, report_check, unexpanded_name
from ciguard.workflow.yaml_values import load

MATRIX = "strategy: {matrix: {py: ['3.11', '3.12'], os: [{name: linux, bits: 64}]}}"
COMPUTED = "strategy: {matrix: {shard: '${{ fromJSON(needs.plan.outputs.shards) }}'}}"
NAMED = "name: py${{ matrix.py }} on ${{ matrix.os.name }}"


@pytest.mark.parametrize(
    ("job", "check", "expected"),
    [
        ("{}", "test", True),
        ("{name: Unit}", "Unit", True),
        ("{name: Unit}", "test", False),
        (MATRIX, "test (3.11, linux, 64)", True),
        (MATRIX, "test (3.13, linux, 64)", False),
        (MATRIX, "test", False),
        (f"{MATRIX}\nname: Unit", "Unit (3.12, linux, 64)", True),
        (f"{MATRIX}\n{NAMED}", "py3.12 on linux", True),
        (f"{MATRIX}\n{NAMED}", "py3.13 on linux", False),
        (f"{MATRIX}\nname: ${{{{ inputs.name }}}}", "test (3.11, linux, 64)", False),
        (COMPUTED, "test (7)", True),
        (COMPUTED, "test", False),
        ("uses: ./.github/workflows/unit.yml", "test / unit", True),
        ("uses: ./.github/workflows/unit.yml", "test", False),
        (f"{MATRIX}\nuses: ./.github/workflows/unit.yml", "test (3.11, linux, 64) / unit", True),
        ("steps: []", "test / unit", False),
    ],
)
def test_names_the_checks_of_a_job(job: str, check: str, expected: bool) -> None:
    value: Any = load(job, "job")
    assert names_check("test", value, check) is expected


def test_check_of_a_report_is_one_that_no_job_has() -> None:
    names = ("ciguard", "ciguard (a)", "ciguard (a 2)", "ciguard (a 3)")
    for count, name in enumerate(names):
        jobs = [{"jobs": {"lint": {"name": taken}}} for taken in names[:count]]
        assert report_check("a", jobs) == name


def test_a_skipped_job_has_its_name_as_it_is_written() -> None:
    assert unexpanded_name("test", load(MATRIX, "job")) == "test"
    assert unexpanded_name("test", load(NAMED, "job")).startswith("py${{ matrix.py }}")
