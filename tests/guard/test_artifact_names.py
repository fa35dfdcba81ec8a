"""A record that was not uploaded, because the name of its artifact is not valid."""

from __future__ import annotations

import pytest
from guard.damages import dies_in_its_last_test, record_removed
from guard.fake_jobs import ARTIFACT_NAME, EXIT_10, NO_UPLOAD, FakeRunApi, death, failed, verdict_of
from guard.fixtures import World, text_of

from ciguard.guard.log_patterns import refused_artifact
from ciguard.guard.wording import finding_fix, finding_message
from ciguard.logs.actions_patterns import REFUSED, valid_artifact_name

# Lines of public logs: EnzymeAD/Enzyme-JAX#1307, canonical/lxd#16822, DevExpress/DevExtreme#22351.
ENZYME = "julia-environment-1.11-1ac176a9b8b4800bc2753d944eec62a39e6189b8-mg_sharded-factors-ap"
NAMES = {
    f"Error: The artifact name is not valid: {ENZYME}/persistent_compile_cache. "
    "Contains the following character: Forward slash /": f"{ENZYME}-persistent_compile_cache",
    "Error: The artifact name is not valid: coverage-network-ovn ovn:latest/edge-24.04. "
    "Contains the following character:  Colon :": "coverage-network-ovn ovn-latest-edge-24.04",
    "Error: Artifact name is not valid: RawLog-ui.grid(2/2)-firefox. "
    "Contains the following character:  Forward slash /": "RawLog-ui.grid(2-2)-firefox",
}


@pytest.mark.parametrize("line", NAMES)
def test_real_lines_give_a_valid_name(line: str) -> None:
    found = refused_artifact([line])
    assert found is not None
    assert valid_artifact_name(found[0]) == NAMES[line]


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("results/linux", "results-linux"),
        ('a"b:c<d>e|f*g?h\\i/j\r\nk', "a-b-c-d-e-f-g-h-i-j-k"),
        ("refs/heads/", "refs-heads"),
        ("a:/b", "a-b"),
        ("/", "artifact"),
        ("as it is", "as it is"),
    ],
)
def test_valid_names_have_no_refused_character(name: str, valid: str) -> None:
    assert valid_artifact_name(name) == valid
    assert not {*valid} & {*REFUSED}


def test_invalid_name_is_the_cause_of_a_missing_record() -> None:
    world = World()
    record_removed(world)
    api = FakeRunApi((failed(NO_UPLOAD),), {"03": [EXIT_10, ARTIFACT_NAME]})
    verdict = verdict_of(world, api)
    assert finding_message(death(verdict)) == (
        "shard 03: no record: artifact name 'results/linux' is not valid"
    )
    assert finding_fix(death(verdict)) == "use 'results-linux'"
    text = " ".join(text_of(verdict).split())
    assert "artifact name 'results/linux' is not valid. Use 'results-linux'." in text
    assert "annotation: The artifact name is not valid: results/linux." in text


def test_invalid_name_of_another_artifact_explains_a_failed_job() -> None:
    """The record is complete; a later step of its job failed."""
    verdict = verdict_of(World(), FakeRunApi((failed(NO_UPLOAD),), {"03": [ARTIFACT_NAME]}))
    assert verdict.state == "incomplete"
    assert finding_message(death(verdict)) == (
        "shard 03: its record is complete, but its job is 'failure': "
        "artifact name 'results/linux' is not valid"
    )


def test_a_record_that_was_cut_was_uploaded() -> None:
    world = World()
    dies_in_its_last_test(world)
    verdict = verdict_of(world, FakeRunApi((failed(),), {"03": [ARTIFACT_NAME]}))
    assert "artifact name" not in finding_message(death(verdict))
