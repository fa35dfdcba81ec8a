"""A plan for a job's own matrix: which job is which shard, and whether its shards are alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from guard.fake_jobs import FakeRunApi, job, verdict_of
from guard.fixtures import World, make_plan

from ciguard.codec import plan_file
from ciguard.guard.github_facts import match_jobs
from ciguard.guard.wording import finding_fix, finding_message
from ciguard.model import Plan, Suite, Variant
from ciguard.plan.outputs import MATRIX_KEY


def plan_of_combination() -> Plan:
    variants = {"": Variant(matrix={"os": "linux"})}
    made = make_plan(suites={"": Suite("command", ("./all",), variants=variants)})
    return plan_file.decode(plan_file.encode(made), "plan.json")


@pytest.mark.parametrize(
    ("template", "matches"),
    [
        ("test ({})", True),
        ("test (linux, 3.12, {})", True),
        ("ci / test linux {}", True),
        ("{}", True),
        ("test-{}", True),
        ("test 3.{}", False),
        ("test ({}, linux)", False),
        ("build 1{}", False),
    ],
)
def test_job_of_a_shard_ends_with_it(template: str, *, matches: bool) -> None:
    plan = plan_of_combination()
    jobs = [job(key, name=template.format(key)) for key in ("01", "02", "03")]
    found = match_jobs(plan, (), jobs)
    names = {key: [one.name for one in of_shard] for key, of_shard in found.items()}
    assert names == {key: [template.format(key)] * matches for key in ("01", "02", "03")}


def test_job_of_another_plan_is_not_matched_by_the_end_of_its_name() -> None:
    jobs = [job(key, name=f"mine {key}") for key in ("01", "02", "03")]
    assert not any(match_jobs(make_plan(), (), jobs).values())


def test_jobs_without_their_shard_are_to_be_named_after_it() -> None:
    world = World(plan=plan_of_combination())
    mine = tuple(job(key, name=f"test {key} (linux)") for key in world.legs)
    (finding,) = verdict_of(world, FakeRunApi(mine, without=tuple(world.legs))).findings
    message = 'none of 5 jobs has a name that ends with its shard, such as "01"'
    assert finding_message(finding).endswith(message)
    assert finding_fix(finding) == (
        f"end the name of the matrix job with `${{{{ matrix.{MATRIX_KEY} }}}}`"
    )


def test_shards_of_one_combination_run_the_same_script() -> None:
    world = World(plan=plan_of_combination())
    for leg in world.legs.values():
        leg.header = replace(leg.header, script="pytest tests")
    assert world.prove().state == "passed"
    world.legs["02"].header = replace(world.legs["02"].header, script="pytest tests -x")
    verdict = world.prove()
    assert verdict.state == "incomplete"
    (finding,) = verdict.findings
    assert finding.kind == "different_scripts"
    assert finding_message(finding).endswith("ran different commands: 01, 03 / 02")
