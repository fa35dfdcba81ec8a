"""compare.schema.json is what the code writes: made of its classes, checked with all goldens.

`pytest tests/compare/test_schema.py --update-golden` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from class_schemas import PLAIN, ClassSchemas
from compare.compare_factories import case, run_of
from compare.samples import COMPARISONS, confirmed, hurt, same
from conftest import Golden

from ciguard import model
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import Comparison, with_state
from ciguard.compare.json import PARTS, SCHEMA, as_json, read_comparison
from ciguard.errors import InputError

PLACE = Path(__file__).parents[2] / "docs" / "reference" / "schemas" / "compare.schema.json"
NAMES = {name: kind for part in (*PARTS, model) for name, kind in vars(part).items()}
NAMES |= {"datetime": datetime, "Mapping": Mapping}


def schema() -> dict[str, Any]:
    schemas = ClassSchemas(NAMES)
    complete = schemas.as_object(Comparison)
    # From nothing to something there is no ratio.
    ratio = {"anyOf": [PLAIN[float], PLAIN[type(None)]]}
    schemas.known["CaseChange"]["properties"]["ratio"] = ratio
    head = {"schema": {"const": SCHEMA}, "headline": PLAIN[str]}
    properties = {**head, **complete["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `ciguard compare --format json` writes",
        **complete,
        "properties": properties,
        "required": list(properties),
        "$defs": dict(sorted(schemas.known.items())),
    }


def test_published_schema_matches_the_classes(golden: Golden) -> None:
    golden(json.dumps(schema(), indent=2) + "\n", PLACE)


@pytest.mark.parametrize("name", COMPARISONS)
def test_each_comparison_conforms_to_the_schema(name: str) -> None:
    published = json.loads(PLACE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    validator = jsonschema.Draft202012Validator(published)
    found = as_json(COMPARISONS[name]())
    validator.validate(found)
    assert set(found) == set(published["properties"])


def test_schema_of_a_verdict_has_the_same_answer() -> None:
    verdict, compared = (
        json.loads(PLACE.with_name(f"{name}.schema.json").read_text(encoding="utf-8"))["$defs"]
        for name in ("verdict", "compare")
    )
    for name in ("Answer", "Tries", "PastRun"):
        assert verdict[name] == compared[name]


def test_schema_rejects_invalid_comparisons() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(PLACE.read_text(encoding="utf-8")))
    found = as_json(COMPARISONS["hurt"]())
    for key, invalid in (("state", "fine"), ("legs", None), ("candidate", {}), ("schema", 1)):
        assert not validator.is_valid({**found, key: invalid})
    del found["memory"]
    assert not validator.is_valid(found)


def written(comparison: Comparison) -> bytes:
    return json.dumps(as_json(comparison)).encode()


def from_nothing() -> Comparison:
    """A test that needed no memory at all before: the change has no ratio."""
    past = [run_of({"01": [case("a", mib=0)]}, f"run {n}", run_id=n) for n in range(1, 13)]
    return compare_run(run_of({"01": [case("a", mib=50)]}, "head", run_id=20), None, past)


@pytest.mark.parametrize("make", [hurt, same, confirmed, from_nothing])
def test_comparison_survives_write_and_read(make: object) -> None:
    assert callable(make)
    comparison = make()
    assert read_comparison(written(comparison), "x") == comparison
    assert with_state(comparison) == comparison, (
        "nothing of its sentence is known to the making alone"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "no comparison: "),
        (b"[]", "no comparison"),
        (b"{}", "no comparison"),
        (b'{"schema":99}', "schema 99 is newer than 2"),
        (b'{"schema":1}', "state: "),
    ],
)
def test_invalid_comparison_is_rejected(content: bytes, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        read_comparison(content, "x.json")
