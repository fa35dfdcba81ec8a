"""The real command over real files: what it prints, writes and ends with."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from conftest import Ciguard, Golden
from guard.fixtures import SCHEMA, World, make_leg, make_plan, passed, text_of

from ciguard.guard.json import as_json
from ciguard.guard.verdict import Level, State
from ciguard.model import ENDINGS, OUTCOMES, EndLine, Exclusion, InventorySummary, Suite
from ciguard.render.plaintext import COLUMNS

SAMPLES = Path(__file__).parent.parent / "samples" / "guard"
SCRUB = {r"\b[0-9a-f]{12}\b": "PLAN"}


def hurt() -> World:
    """A run with one of each: lost, cut, failed, died, flaky, unplanned, excluded."""
    inventory = InventorySummary(
        9, {"a.t": 2, "z.t": 0}, "0" * 64, excluded=(Exclusion("z.t::slow", "exclude: z*"),)
    )
    world = World(plan=make_plan(inventory=inventory))
    del world.legs["03"]
    world.drop("02", EndLine)
    world.result(
        "01",
        "a.t::two",
        outcome="failed",
        message="AssertionError: 1 != 2\nmore",
        file="a.t",
        line=7,
    )
    world.legs["01"].own.insert(0, passed("b.t::three", outcome="died", ending="timeout"))
    world.legs["01"].inner.append(passed("a.t::one", try_number=2))
    world.legs["01"].inner.insert(1, passed("a.t::one", outcome="failed", message="flaked"))
    world.legs["01"].inner.append(passed("new.t::\u202enine\n" + "x" * 200))
    world.drop("01", type(passed("x")), unit="b.t::three")
    world.legs["01"].own.insert(
        0, passed("b.t::three", outcome="died", ending="timeout", message="over its limit of 5 s")
    )
    world.end("01", exit_code=10, counts={"passed": 2, "failed": 1, "died": 1})
    return world


@pytest.mark.parametrize(("name", "world"), [("green", World), ("hurt", hurt)])
def test_text_output_matches_golden_file(golden: Golden, name: str, world: type[World]) -> None:
    text = text_of(world().prove())
    golden(text, SAMPLES / f"{name}.txt", scrub=SCRUB)
    # An id, which is copied, is never broken.
    assert all(len(line) <= COLUMNS or len(line.split()) == 2 for line in text.splitlines())


@pytest.mark.parametrize(("name", "code"), [("green", 0), ("hurt", 13)])
def test_json_output_matches_golden_file(
    golden: Golden, ciguard: Ciguard, tmp_path: Path, name: str, code: int
) -> None:
    world = {"green": World, "hurt": hurt}[name]
    plan, records = world().write(tmp_path)
    done = ciguard(
        "guard", "--plan", plan, "--records", records, "--format", "json", cwd=tmp_path, expect=code
    )
    golden(done.stdout, SAMPLES / f"{name}.json", scrub=SCRUB)
    found = json.loads(done.stdout)
    assert (found["schema"], found["exit_code"]) == (2, code)


def test_owners_are_those_of_the_folder_and_of_the_working_folder_of_a_suite(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    suite = replace(make_plan().suites[""], cwd="app")
    world = World(make_plan(suites={"": suite}))
    world.result("01", "a.t::two", outcome="failed", file="helper.py")
    world.result("03", "d.t::six", outcome="failed")
    plan, records = world.write(tmp_path)
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/CODEOWNERS").write_text(
        "*.py @helper\n/app/a.t @a\n/app/d.t @d\n", "utf-8"
    )
    (tmp_path / "CODEOWNERS").write_text("* @ignored\n", "utf-8")
    (tmp_path / "ciguard.toml").write_text('[owners]\n"d.t" = []\n', "utf-8")
    words = ("guard", "--plan", plan, "--records", records)
    text = ciguard(*words, cwd=tmp_path, expect=10).stdout
    assert ("a.t::two (@a)" in text, "d.t::six (no owner)" in text) == (True, True)
    done = ciguard(*words, "--format", "json", cwd=tmp_path, expect=10)
    failures = json.loads(done.stdout)["failures"]
    assert [failure["owners"] for failure in failures] == [["@a"], []]
    done = ciguard("explain", records, "--plan", plan, cwd=tmp_path)
    assert ("owner: @a" in done.stdout, "owner: no owner" in done.stdout) == (True, True)


def test_exit_codes_and_headline(ciguard: Ciguard, tmp_path: Path) -> None:
    world = World()
    plan, records = world.write(tmp_path)
    words = ("guard", "--plan", plan, "--records", records)
    assert ciguard(*words, cwd=tmp_path).stdout.startswith("PASSED: all 8 tests")
    world.result("01", "a.t::two", outcome="failed")
    world.write(tmp_path)
    assert ciguard(*words, cwd=tmp_path, expect=10).stdout.startswith("FAILED: 1 of 8 tests")
    (records / "record-03-1" / "supervisor.jsonl").unlink()
    done = ciguard(*words, cwd=tmp_path, expect=13)
    assert done.stdout.startswith("INCOMPLETE: shard 03 of 3 has no record")


def test_needs_from_argument_file_or_stdin(ciguard: Ciguard, tmp_path: Path) -> None:
    plan, records = World().write(tmp_path)
    words = ("guard", "--plan", plan, "--records", records, "--needs")
    reported = '{"plan": {"result": "success", "outputs": {}}, "legs": {"result": "cancelled"}}'
    (tmp_path / "needs.json").write_text(reported)
    for needs, given in ((reported, ""), ("needs.json", ""), ("-", reported)):
        done = ciguard(*words, needs, cwd=tmp_path, expect=13, stdin=given)
        assert done.stdout.startswith("INCOMPLETE: job legs is 'cancelled'")
    ciguard(*words, reported.replace("cancelled", "success"), cwd=tmp_path)


@pytest.mark.parametrize("needs", ['{"legs": {}}', '{"legs": {"result": null}}'])
def test_a_job_without_a_known_result_is_incomplete(
    ciguard: Ciguard, tmp_path: Path, needs: str
) -> None:
    plan, records = World().write(tmp_path)
    words = ("guard", "--plan", plan, "--records", records, "--needs", needs)
    done = ciguard(*words, cwd=tmp_path, expect=13)
    assert done.stdout.startswith("INCOMPLETE: job legs is")


@pytest.mark.parametrize("needs", ["", "{", "[]", "{nope}", '{"legs": 3}'])
def test_malformed_needs(ciguard: Ciguard, tmp_path: Path, needs: str) -> None:
    plan, records = World().write(tmp_path)
    done = ciguard(
        "guard", "--plan", plan, "--records", records, "--needs", needs, cwd=tmp_path, expect=3
    )
    assert done.stderr.startswith("ciguard guard: --needs")
    assert "toJSON(needs)" in done.stderr
    assert not done.stdout


def test_github_option_writes_annotations_and_outputs(ciguard: Ciguard, tmp_path: Path) -> None:
    plan, records = hurt().write(tmp_path)
    output = tmp_path / "output"
    done = ciguard(
        *("guard", "--plan", plan, "--records", records, "--github"),
        cwd=tmp_path,
        expect=13,
        GITHUB_OUTPUT=str(output),
    )
    reported = done.stderr.splitlines()
    assert reported[0].startswith("::error title=truncated::shard 02: its record is truncated")
    assert any("shard 03: no record" in line for line in reported)
    assert (
        "::error file=a.t,line=7,title=a.t%3A%3Atwo::failed: AssertionError: 1 != 2" in done.stderr
    )
    assert all(line.startswith(("::error", "::warning")) for line in reported)
    text = output.read_text()
    assert "verdict<<ciguard_end\nincomplete\nciguard_end\n" in text
    assert "complete<<ciguard_end\nfalse\nciguard_end\n" in text


def test_annotation_paths_are_relative_to_the_repository_root(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    suites = {"": Suite("command", ("./all",), cwd="backend")}
    world = World(plan=make_plan(suites=suites))
    world.result("01", "a.t::two", outcome="failed", message="no", file="a.t", line=7)
    plan, records = world.write(tmp_path)
    words = ("guard", "--plan", plan, "--records", records, "--github")
    done = ciguard(*words, cwd=tmp_path, expect=10)
    assert "::error file=backend/a.t,line=7," in done.stderr


def test_at_most_ten_error_annotations_one_per_cause(ciguard: Ciguard, tmp_path: Path) -> None:
    units = tuple(f"u{number:02}" for number in range(40))
    world = World(plan=make_plan({"01": units}))
    world.legs = {"01": make_leg(world.plan, "01")}
    for number, unit in enumerate(units):
        message = "ValueError: no" if number < 20 else f"E{number}Error"
        world.result("01", unit, outcome="failed", message=message, file="a.t")
    plan, records = world.write(tmp_path)
    words = ("guard", "--plan", plan, "--records", records, "--github")
    reported = ciguard(*words, cwd=tmp_path, expect=10).stderr.splitlines()
    assert len([line for line in reported if line.startswith("::error")]) == 10
    assert reported[0] == (
        "::error file=a.t,title=20 x ValueError%3A no (1 shard)::failed: ValueError: no"
        "%0Au00%0Au01%0Au02%0Au03%0Au04%0Aand 15 more"
    )
    assert reported[-1] == "::error::12 more: see log"


def test_missing_plan_or_records_is_an_error(ciguard: Ciguard, tmp_path: Path) -> None:
    plan, records = World().write(tmp_path)
    done = ciguard("guard", "--plan", "no.json", "--records", records, cwd=tmp_path, expect=3)
    assert "no.json" in done.stderr
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "nowhere"):
        done = ciguard("guard", "--plan", plan, "--records", folder, cwd=tmp_path, expect=13)
        assert done.stdout.startswith("INCOMPLETE: shards 01, 02, 03 of 3 have no record")
    assert "nowhere" in done.stderr
    ciguard("guard", "--plan", plan, cwd=tmp_path, expect=2)


def test_impossible_path_names_are_reported(ciguard: Ciguard, tmp_path: Path) -> None:
    """An empty one is a variable that nobody set, and not the folder around."""
    plan, _ = World().write(tmp_path)
    long = "a" * 5000
    done = ciguard("guard", "--plan", long, "--records", "records", cwd=tmp_path, expect=3)
    assert "cannot be read: File name too long" in done.stderr
    done = ciguard("guard", "--plan", plan, "--records", long, cwd=tmp_path, expect=13)
    assert "cannot be read: File name too long, so there are no records" in done.stderr
    for words, what in (
        (("--plan", "", "--records", "records"), "--plan: no file"),
        (("--plan", plan, "--records", ""), "--records: no folder"),
    ):
        assert what in ciguard("guard", *words, cwd=tmp_path, expect=2).stderr


def test_record_without_a_plan_is_an_error_with_a_fix(ciguard: Ciguard, tmp_path: Path) -> None:
    ciguard("run", "--record", "rec", "--", sys.executable, "-c", "", cwd=tmp_path)
    done = ciguard("guard", "--records", "rec", cwd=tmp_path, expect=2)
    assert done.stderr.startswith("ciguard guard: neither --plan, --run nor --results is given: ")
    assert "`ciguard run -- COMMAND`" in done.stderr
    plan, _ = World().write(tmp_path)
    done = ciguard("guard", "--plan", plan, "--records", "rec", cwd=tmp_path, expect=13)
    assert "no record is of this plan: process-001.jsonl" in done.stdout


def strictly(schema: Any) -> Any:
    """The same, and no other keys: readers skip those, and we write none by mistake."""
    if isinstance(schema, list):
        return [strictly(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return {**closed, **{key: strictly(value) for key, value in schema.items()}}


def test_published_schema_has_all_enum_values_and_keys() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    words = SCHEMA["$defs"]
    assert (words["outcome"]["enum"], words["ending"]["enum"]) == ([*OUTCOMES], [*ENDINGS])
    assert SCHEMA["properties"]["verdict"]["enum"] == [*get_args(State)]
    assert words["finding"]["properties"]["level"]["enum"] == [*get_args(Level)]
    for world in (World(), hurt()):
        jsonschema.validate(as_json(world.prove()), strictly(SCHEMA))
    assert list(as_json(World().prove())) == SCHEMA["required"]
