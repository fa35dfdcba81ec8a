from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import Golden
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ciguard import model
from ciguard.codec.plan_file import COLUMNS_FROM, _units, decode, encode
from ciguard.codec.record.lines import LineError
from ciguard.errors import InputError
from ciguard.model import (
    Exclusion,
    InventorySummary,
    LegPolicy,
    Orphan,
    Plan,
    PlannedUnit,
    PlanNote,
    Pool,
    Prediction,
    Shard,
    Suite,
    UnitCount,
    Variant,
)

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "schemas" / "plan.schema.json"
ODD = 'a"b\n\\ \u2028 😀 \ud800' + "x" * 5000
UNITS = (
    PlannedUnit("a.py::t1", "unit", "net10", 1.5, 1000, -20, 30.0, has_history=True),
    PlannedUnit(ODD, "unit", "net10", 0.0, None, None, None, has_history=False),
)


def plan(units: tuple[PlannedUnit, ...] = UNITS) -> Plan:
    suite = Suite(
        framework="command",
        command=("run", "{units_file}"),
        cwd="sub",
        args=("-x",),
        env={"A": "1"},
        variants={"net10": Variant(("-f", "net10"), {"B": "2"}), "": Variant()},
        list_command=("list",),
        base_bytes=5,
        setup_s=0.5,
    )
    return Plan(
        id="",
        suites={"unit": suite},
        pools={"linux": Pool(["self-hosted", {"any": [1, None]}], 4, 1 << 34, 1, {"C": "3"})},
        policy=LegPolicy("observe", 2, 2610.0),
        shards=(
            Shard("01", "linux", units, Prediction(1.5, 2.0, 1005, 900), 2, 45, 1 << 33),
            Shard("02", "linux", (), Prediction(0.0, 0.0), job="Tests - 02 / B"),
        ),
        lower_bound_s=1.5,
        gap=0.25,
        inventory=InventorySummary(
            collected=4,
            files={"a.py": 1, "empty.py": 0},
            hash="00",
            errors=("e",),
            excluded=(Exclusion("x", "rule", "unit", "net10"),),
            base_units=(UnitCount(4, "unit", "net10"),),
            orphans=(Orphan("y", "label", "unit", "net10"),),
        ),
        floor=UNITS[0],
        history={"source": "branch:x", "runs": 20},
        repository="o/r",
        workflow="tests.yml",
        head_sha="a" * 40,
        shard_count_limited_by=(PlanNote("longest_test"),),
        warnings=(PlanNote("fewer_shards", {"requested": 3, "planned": 2}),),
    )


@cache
def large() -> Plan:
    """Just enough units for the column form."""
    return plan(tuple(replace(UNITS[0], unit=f"t{n}", wall_s=n / 8) for n in range(COLUMNS_FROM)))


def sealed(content: dict[str, Any]) -> bytes:
    """With the id that the documentation says it has, computed here a second time."""
    remaining = {key: value for key, value in content.items() if key != "id"}
    text = json.dumps(remaining, sort_keys=True, separators=(",", ":"))
    return json.dumps({**remaining, "id": hashlib.sha256(text.encode()).hexdigest()[:12]}).encode()


def content_of(made: Plan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(made))
    return found


@pytest.mark.parametrize("made", [plan, large], ids=["objects", "columns"])
def test_plan_survives_encode_and_decode(made: Any) -> None:
    content = encode(made())
    found = decode(content, "x")
    assert replace(found, id="") == made()
    assert encode(found) == content
    assert json.loads(sealed(json.loads(content)))["id"] == found.id


def test_only_a_large_plan_uses_columns() -> None:
    assert isinstance(content_of(plan())["shards"][0]["units"], list)
    assert isinstance(content_of(large())["shards"][0]["units"], dict)


@pytest.mark.parametrize("made", [plan, large], ids=["objects", "columns"])
def test_failures_on_the_base_are_written_only_where_they_are(made: Any) -> None:
    assert "fails_on_base" not in json.dumps(content_of(made())["shards"])
    units = (replace(UNITS[0], fails_on_base=True), *made().shards[0].units)
    marked = replace(made(), shards=(replace(made().shards[0], units=units),))
    assert replace(decode(encode(marked), "x"), id="") == marked


def test_rows_and_columns_decode_to_the_same_plan() -> None:
    content = content_of(plan())
    rows = content["shards"][0]["units"]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    content["shards"][0]["units"] = columns
    assert decode(sealed(content), "x").shards == plan().shards


@given(st.data())
def test_any_columns_decode_like_their_rows(data: st.DataObject) -> None:
    odd = st.none() | st.booleans() | st.integers(-2, 1 << 63) | st.floats() | st.text(max_size=2)
    right: dict[str, st.SearchStrategy[Any]] = {
        "unit": st.text(max_size=2),
        "suite": st.just("unit"),
        "wall_s": st.floats(0, 9),
        "retained_bytes": st.none() | st.integers(-9, 9),
        "timeout_s": st.none() | st.floats(0, 9),
        "has_history": st.booleans(),
        "later": odd,
    }
    names = data.draw(st.lists(st.sampled_from(sorted(right)), unique=True))
    wrong = data.draw(st.sampled_from([*right, *[""] * len(right)]))
    rows = data.draw(st.integers(0, 3))
    columns = {
        name: data.draw(
            st.lists(odd if name == wrong else right[name], min_size=rows, max_size=rows)
        )
        for name in names
    }

    def said(units: Any) -> str:
        try:
            return repr(_units(units))
        except LineError as error:
            return str(error)

    as_rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert said(columns) == said(as_rows)


def test_missing_keys_of_an_older_plan_take_their_defaults() -> None:
    content = content_of(plan())
    del content["floor"], content["warnings"], content["shards"][0]["units"][0]["variant"]
    found = decode(sealed(content), "x")
    assert (found.floor, found.warnings) == (None, ())
    assert found.shards[0].units[0].variant == ""


def test_keys_that_a_later_version_added_are_skipped() -> None:
    content = content_of(plan())
    content["later"] = content["shards"][0]["later"] = {"x": 1}
    assert decode(sealed(content), "x").shards == plan().shards


def test_keys_of_an_earlier_version_are_skipped() -> None:
    """The plan whose shards were kept, and the tests that left them."""
    content = content_of(plan())
    moved = {"unit": "a", "before": "02", "now": "01", "suite": "", "variant": ""}
    content |= {"base": "cf16920146c3", "moved_units": [moved]}
    assert decode(sealed(content), "x").shards == plan().shards


def required(kind: Any) -> list[str]:
    return [
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    ]


def places() -> Iterator[tuple[str, list[Any]]]:
    """Every key that must be there, as a path."""
    kinds: list[tuple[Any, list[Any]]] = [
        (Plan, []),
        (Suite, ["suites", "unit"]),
        (Pool, ["pools", "linux"]),
        (Shard, ["shards", 0]),
        (Prediction, ["shards", 0, "predicted"]),
        (PlannedUnit, ["shards", 0, "units", 0]),
        (InventorySummary, ["inventory"]),
        (Exclusion, ["inventory", "excluded", 0]),
    ]
    for kind, path in kinds:
        for name in required(kind):
            yield f"{kind.__name__}.{name}", [*path, name]


@pytest.mark.parametrize("damage", ["missing", "wrong"])
@pytest.mark.parametrize("path", [pytest.param(path, id=name) for name, path in places()])
def test_a_key_that_is_missing_or_wrong_is_named(path: list[Any], damage: str) -> None:
    content = content_of(plan())
    inner: Any = content
    for step in path[:-1]:
        inner = inner[step]
    if damage == "missing":
        del inner[path[-1]]
    else:
        inner[path[-1]] = True
    if path in (["id"], ["pools", "linux", "runs_on"]) and damage == "wrong":
        return  # any JSON is a runs-on, and the id is made anew below
    raw = json.dumps(content).encode() if path == ["id"] else sealed(content)
    with pytest.raises(InputError) as caught:
        decode(raw, "plan.json")
    assert str(path[-1]) in caught.value.what
    assert caught.value.where == "plan.json"
    assert caught.value.fix


@pytest.mark.parametrize(
    ("change", "output"),
    [
        (lambda content: content.update(schema=2), "schema 2 is newer than 1"),
        (lambda content: content["policy"].update(guard_rail="maybe"), "expected one of off"),
        (lambda content: content["shards"][1].update(key="01"), "two shards have the same key"),
        (lambda content: content["shards"][1].update(pool="moon"), "no pool 'moon'"),
        (lambda content: content["suites"].clear(), "no suite 'unit'"),
        (lambda content: content["shards"][0]["units"][0].update(wall_s=-1), "wall_s"),
        (
            lambda content: content["shards"][0].update(units={"unit": ["a"], "wall_s": []}),
            "length",
        ),
        (lambda content: content["shards"][0].update(units={"unit": 3}), "a list a column"),
        (lambda content: content["shards"][0].update(units="all"), "expected a list"),
        (lambda content: content["shards"][0]["units"][0].update(has_history=1), "true or false"),
    ],
)
def test_contradictory_plan_is_an_error(change: Any, output: str) -> None:
    content = content_of(plan())
    change(content)
    with pytest.raises(InputError, match=output):
        decode(sealed(content), "plan.json")


def test_modified_plan_is_rejected() -> None:
    changed = encode(plan()).replace(b'"timeout_minutes":45', b'"timeout_minutes":99')
    with pytest.raises(InputError, match="is not the hash of the rest: the file was changed"):
        decode(changed, "plan.json")


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"null", b'{"id":NaN}'])
def test_invalid_plan_file_is_an_input_error(raw: bytes) -> None:
    with pytest.raises(InputError):
        decode(raw, "plan.json")


def _without_default(kind: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kind.items() if key != "default"}


# Keys of a unit that are left out where they have their default.
OPTIONAL = ("fails_on_base", "change")


def schema() -> dict[str, Any]:
    """The model's own schema, with the second form that units may have."""
    found = TypeAdapter(model.Plan).json_schema(mode="serialization")
    definitions = found["$defs"]
    unit = definitions["PlannedUnit"]
    definitions["PlannedUnits"] = {
        "description": "A list of units, or, in a large plan, one object of lists: a column a key, "
        "all of one length. Both mean the same.",
        "oneOf": [
            {"type": "array", "items": {"$ref": "#/$defs/PlannedUnit"}},
            {
                "type": "object",
                "properties": {
                    name: {"type": "array", "items": _without_default(kind)}
                    for name, kind in unit["properties"].items()
                },
                "required": [name for name in unit["properties"] if name not in OPTIONAL],
            },
        ],
    }
    definitions["Shard"]["properties"]["units"] = {"$ref": "#/$defs/PlannedUnits"}
    found["properties"]["id"]["pattern"] = "^(drill-[a-z-]+-)?[0-9a-f]{12}$"
    definitions["Shard"]["properties"]["key"]["pattern"] = "^[^/]+$"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "plan.json of ciguard, schema 1",
        **{key: value for key, value in found.items() if key != "title"},
    }


def test_published_schema_matches_the_model(golden: Golden) -> None:
    golden(json.dumps(schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n", SCHEMA)


@pytest.mark.parametrize("made", [plan, large], ids=["objects", "columns"])
def test_plans_conform_to_the_published_schema(made: Any) -> None:
    published = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    jsonschema.Draft202012Validator(published).validate(content_of(made()))
