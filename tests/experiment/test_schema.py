"""experiment.schema.json says all that both kinds of experiment write, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from experiment.test_commit_result import found as of_commits
from experiment.test_result import LESS, MIB, MORE, SCORE, experiment, scaled

from ciguard.experiment.measurement import PEAK, WALL
from ciguard.experiment.result import StopReason, Verdict
from ciguard.experiment.view import as_json, commits_as_json

PLACE = Path(__file__).parents[2] / "docs" / "reference" / "schemas" / "experiment.schema.json"
SAMPLES = Path(__file__).parents[1] / "samples" / "experiment"


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PLACE.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(found)
    for kind in objects(found["$defs"]):  # keys may be added; none is written that is not there
        kind.setdefault("additionalProperties", False)
    return found


def objects(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if part.get("type") == "object":
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from objects(one)


ANSWERS = {
    "commands": as_json(
        experiment(
            {WALL: MORE, PEAK: scaled(LESS, MIB), SCORE: LESS}, {WALL: ([1.0], [1.0]), SCORE: MORE}
        )
    ),
    "one run": as_json(experiment({WALL: ([1.0], [1.0])})),
    "commits": commits_as_json(of_commits()),
    "two commits, one run": commits_as_json(of_commits(1)),
    **{path.name: json.loads(path.read_text("utf-8")) for path in SAMPLES.glob("*.json")},
}


@pytest.mark.parametrize("name", ANSWERS)
def test_each_result_conforms_to_the_schema(published: dict[str, Any], name: str) -> None:
    jsonschema.Draft202012Validator(published).validate(ANSWERS[name])


def test_schema_enums_match_the_code(published: dict[str, Any]) -> None:
    kinds = published["$defs"]
    assert kinds["Verdict"]["enum"] == list(get_args(Verdict))
    for kind in ("Commands", "Commits"):
        assert kinds[kind]["properties"]["stopped_because"]["enum"] == list(get_args(StopReason))


@pytest.mark.parametrize("name", ["commands", "commits"])
def test_schema_rejects_invalid_results(published: dict[str, Any], name: str) -> None:
    validator, answer = jsonschema.Draft202012Validator(published), ANSWERS[name]
    assert answer["rows"]
    for key, invalid in (("verdict", "fine"), ("schema", 2), ("more", 1), ("rows", [{}])):
        assert not validator.is_valid({**answer, key: invalid})
    for key in answer:
        assert not validator.is_valid({one: answer[one] for one in answer if one != key})
