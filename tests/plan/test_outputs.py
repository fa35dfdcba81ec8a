from __future__ import annotations

import json

from plan.plan_factories import planned, suite

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.plan.outputs import as_output, matrix


def test_matrix_has_the_entries_that_the_workflow_reads() -> None:
    plan = planned({"a": 1.0, "b": 2.0}, shards=2).plan
    assert json.loads(as_output(matrix(plan))) == {
        "include": [
            {
                "shard": key,
                "runs_on": "ubuntu-latest",
                "timeout_minutes": 50,
                "step_timeout_minutes": 45,
                "name": f"tests ({key})",
            }
            for key in ("01", "02")
        ]
    }


def test_runs_on_is_any_json_and_the_output_one_line() -> None:
    plan = planned({"a": 1.0}, shards=1, pool_of={"": "large"}).plan
    text = as_output(matrix(plan))
    assert json.loads(text)["include"][0]["runs_on"] == ["self-hosted", "large"]
    assert "\n" not in text


def test_job_name_has_suite_and_pool_if_there_are_several() -> None:
    units = [(InventoryUnit("t", name), 10.0) for name in ("unit", "slow")]
    plan = planned(
        units,
        suites={"unit": suite(), "slow": suite()},
        pool_of={"unit": "linux", "slow": "large"},
        shards=2,
    ).plan
    names = [entry["name"] for entry in matrix(plan)["include"]]
    assert names == ["tests (01, slow, large)", "tests (02, unit, linux)"]
