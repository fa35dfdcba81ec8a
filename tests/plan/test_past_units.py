"""`ciguard plan --collect history`: a plan before anything is listed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard

MATRIX = 'os: [ubuntu-latest, macos-latest]\npython: ["3.12", "3.13"]\n'
FIRST, LAST = "ubuntu-latest, 3.12", "macos-latest, 3.13"


def write(folder: Path, matrix: str = MATRIX, configuration: str = "") -> None:
    (folder / "matrix.yml").write_text(matrix)
    (folder / "ciguard.toml").write_text(f'[history]\nstore = "past.bin"\n{configuration}')
    (folder / "test_broken.py").write_text("import what_is_not_installed_here\n")


def add_run(ciguard: Ciguard, folder: Path, number: int, variant: str, **times_s: float) -> None:
    """A run that had these tests of test_broken.py in one combination."""
    durations = {f"test_broken.py::{name}": time_s for name, time_s in times_s.items()}
    (folder / "durations.json").write_text(json.dumps(durations))
    run = ("--run-id", str(number), "--variant", variant)
    ciguard("history", "add", "durations.json", *run, cwd=folder)


def plan(ciguard: Ciguard, folder: Path, *words: str) -> dict[str, Any]:
    named = ("plan", "--matrix", "matrix.yml", "--collect", "history", "-o", "plan.json", *words)
    ciguard(*named, cwd=folder)
    found: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return found


def units(found: dict[str, Any], variant: str) -> list[str]:
    return sorted(
        unit["unit"].partition("::")[2]
        for shard in found["shards"]
        if shard["variant"] == variant
        for unit in shard["units"]
    )


def test_first_run_has_empty_shards_for_each_combination(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path)
    found = plan(ciguard, tmp_path, "--shards", "3")
    assert found["policy"]["lists"] is True
    assert [shard["key"] for shard in found["shards"]] == [f"{n:02}" for n in range(1, 13)]
    assert [shard["variant"] for shard in found["shards"]].count(FIRST) == 3
    assert not any(shard["units"] for shard in found["shards"])
    assert found["inventory"]["files"] == {"test_broken.py": 0}


def test_first_run_shows_no_number_of_tests_and_whole_combinations(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    write(tmp_path, '{"os": ["ubuntu-latest", "windows-latest"], "db": ["mysql-8-with-innodb"]}')
    named = ("plan", "--matrix", "matrix.yml", "--collect", "history", "-o", "plan.json")
    printed = ciguard(*named, cwd=tmp_path).stdout
    for number, system in ((1, "ubuntu"), (4, "ubuntu"), (5, "windows"), (8, "windows")):
        row = rf"(?m)^0{number} +- +- +- +- +{system}-latest, mysql-8-with-innodb$"
        assert re.search(row, printed), printed
    ran = ("run", "--plan", "plan.json", "--shard", "01", "--record", "records/01")
    ciguard(*ran, cwd=tmp_path)
    guard = ciguard("guard", "--plan", "plan.json", "--records", "records", cwd=tmp_path, expect=13)
    assert re.search(r"(?m)^02 +no record +- ", guard.stdout), guard.stdout


@pytest.mark.parametrize(("versions", "each"), [(1, 4), (5, 4), (6, 3), (12, 1), (25, 1)], ids=str)
def test_first_run_is_parallel_within_20_jobs(
    ciguard: Ciguard, tmp_path: Path, versions: int, each: int
) -> None:
    write(tmp_path, f"python: {json.dumps([f'3.{n}' for n in range(versions)])}")
    variants = [shard["variant"] for shard in plan(ciguard, tmp_path)["shards"]]
    assert Counter(variants) == {f"3.{n}": each for n in range(versions)}


def test_first_run_divides_the_listed_tests_by_count(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, "")
    (tmp_path / "test_broken.py").unlink()
    for file in range(9):
        each = "@pytest.mark.parametrize('n', range(5))\ndef test_each(n): pass\n"
        (tmp_path / f"test_{file}.py").write_text(f"import pytest\n{each}")
    named = ("plan", "--matrix", "matrix.yml", "--collect", "history", "-o", "plan.json")
    reason = "4 shards  by count: there are no timings yet; the next plan chooses by time"
    assert reason in ciguard(*named, cwd=tmp_path).stdout
    for key in ("01", "02", "03", "04"):
        ran = ("run", "--plan", "plan.json", "--shard", key, "--record", f"records/{key}")
        ciguard(*ran, cwd=tmp_path)
    guard = ciguard("guard", "--plan", "plan.json", "--records", "records", cwd=tmp_path).stdout
    assert guard.startswith("PASSED: all 45 tests of 4 shards have a result, 45 new"), guard
    counts = re.findall(r"(?m)^0[1-4] +\S+.*? (\d+) ", guard)
    assert sorted(counts) == ["10", "10", "10", "15"], guard


PYTHON, RUBY = ("pytest", "tests/test_a.py"), ("rspec", "spec/a_spec.rb")
GO, MAVEN = ("go", "p/a_test.go"), ("maven", "src/AT.java")
CASES = (
    '<testcase classname="{}" name="{}" time="60"/><testcase classname="{}" name="{}" time="9"/>'
)
CLASS = CASES.format("tests.test_a.TestB", "test_c[d/e.f]", "gone.test_x", "test_y")
EXAMPLE = '<testcase classname="spec.a_spec" file="./spec/a_spec.rb" name="b" time="60"/>'


@pytest.mark.parametrize(
    ("suite", "content", "test"),
    [
        (PYTHON, '{"tests/test_a.py::test_b": 60}', ("tests/test_a.py::test_b", 60)),
        (RUBY, '{"spec/a_spec.rb": 60, "gone.rb": 9}', ("spec/a_spec.rb", 60)),
        (PYTHON, CLASS, ("tests/test_a.py::TestB::test_c[d/e.f]", 60)),
        (GO, CASES.format("ex.com/p", "TestA", "ex.com/p", "TestA/b"), ("ex.com/p.TestA", 60)),
        (MAVEN, CASES.format("e.A", "b", "e.A", "c"), ("e.A", 69)),
        (RUBY, EXAMPLE, ("spec/a_spec.rb", 60)),
    ],
)
def test_first_run_is_planned_by_timings_in_the_repository(
    ciguard: Ciguard, tmp_path: Path, suite: tuple[str, str], content: str, test: tuple[str, float]
) -> None:
    write(tmp_path, 'v: ["1", "2"]', f'[suite.""]\nframework = "{suite[0]}"\n')
    (tmp_path / suite[1]).parent.mkdir(parents=True)
    (tmp_path / suite[1]).touch()
    is_json = content.startswith("{")
    path = tmp_path / (".test_durations" if is_json else "junit.xml")
    path.write_text(content if is_json else f"<testsuite>{content}</testsuite>")
    found = plan(ciguard, tmp_path)
    planned = {shard["variant"]: shard["units"] for shard in found["shards"] if shard["units"]}
    assert sorted(planned) == ["1", "2"]
    for (unit,) in planned.values():
        assert (unit["unit"], unit["wall_s"]) == test
    assert len(found["shards"]) == 8, "four of each combination: other tests may exist"
    assert [note["kind"] for note in found["warnings"]] == ["history_missing"]


def test_timings_of_no_test_are_named(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "junit.xml").write_text(f"<testsuite>{CLASS}</testsuite>")
    found = plan(ciguard, tmp_path)
    assert [note["kind"] for note in found["warnings"]] == ["history_missing", "history_unusable"]
    assert len(found["shards"]) == 16


def test_combination_has_the_tests_of_its_own_past_or_of_a_sibling(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    write(tmp_path)
    add_run(ciguard, tmp_path, 1, FIRST, old=1.0)
    add_run(ciguard, tmp_path, 2, FIRST, one=4.0, two=4.0)
    add_run(ciguard, tmp_path, 3, LAST, other=1.0)
    found = plan(ciguard, tmp_path, "--shards", "2")
    assert units(found, FIRST) == ["one", "two"]
    assert units(found, LAST) == ["other"]
    assert units(found, "ubuntu-latest, 3.13") == ["other"], "the newest of a sibling"
    assert len(found["shards"]) == 8, "two of each, also where there is one test"


def test_number_of_shards_follows_the_target_wall_where_times_are_known(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    write(tmp_path, 'python: ["3.12"]')
    add_run(ciguard, tmp_path, 1, "3.12", **{f"t{number}": 60.0 for number in range(10)})
    assert len(plan(ciguard, tmp_path, "--target-wall", "4m")["shards"]) >= 3
    (tmp_path / "past.bin").unlink()
    assert len(plan(ciguard, tmp_path, "--target-wall", "4m")["shards"]) == 4


def test_a_job_without_a_matrix_has_one_combination(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, "")
    found = plan(ciguard, tmp_path, "--shards", "2")
    assert [shard["variant"] for shard in found["shards"]] == ["", ""]


def test_axis_that_was_a_shard_by_hand_is_taken(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, 'python: ["3.12", "3.13"]\ngroup: [1, 2, 3]\n')
    found = plan(ciguard, tmp_path, "--take", "group")
    assert [shard["variant"] for shard in found["shards"]] == ["3.12"] * 3 + ["3.13"] * 3
    assert len(plan(ciguard, tmp_path, "--take", "group", "--shards", "2")["shards"]) == 4
    write(tmp_path, "group: [1, 2, 3]\n")
    assert len(plan(ciguard, tmp_path, "--take", "group")["shards"]) == 3
    add_run(ciguard, tmp_path, 1, "", **{f"t{number}": 60.0 for number in range(20)})
    assert len(plan(ciguard, tmp_path, "--take", "group")["shards"]) == 3, "within 45 minutes"
    grown = plan(ciguard, tmp_path, "--take", "group", "--limit", "5m")
    assert len(grown["shards"]) > 3
    assert [note["kind"] for note in grown["shard_count_limited_by"]] == ["deadline_met"]
    limited = ("--take", "group", "--limit", "5m", "--shards", "3")
    assert len(plan(ciguard, tmp_path, *limited)["shards"]) == 3, "the number was requested"


def test_excluded_tests_of_the_past_are_not_planned(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, 'python: ["3.12"]', '[suite.""]\nexclude = ["*::two"]\ntimeout = "90s"\n')
    add_run(ciguard, tmp_path, 1, "3.12", one=4.0, two=4.0)
    found = plan(ciguard, tmp_path)
    assert units(found, "3.12") == ["one"]
    assert found["suites"][""]["timeout_s"] == 90.0, "of tests that the plan does not know"


@pytest.mark.parametrize(
    ("matrix", "words", "code", "message"),
    [
        (MATRIX, ("--take", "group"), 3, "no axis 'group' to take"),
        (
            *("group: [1, 2]\ninclude: [{group: 1, slow: true}]\n", ("--take", "group")),
            *(3, "include names 'group'"),
        ),
        (MATRIX, ("--shards", "65"), 2, "260 shards, and GitHub runs at most 256 jobs"),
        (MATRIX, ("--inventory", "matrix.yml"), 2, "leave --inventory out"),
        (None, (), 2, "pass --matrix"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    *, ciguard: Ciguard, tmp_path: Path, matrix: str | None, words: tuple[str, ...],
    code: int, message: str,
) -> None:  # fmt: skip
    write(tmp_path, matrix or MATRIX)
    named = ("--matrix", "matrix.yml") if matrix else ()
    done = ciguard("plan", *named, "--collect", "history", *words, cwd=tmp_path, expect=code)
    assert message in done.stderr


def test_suite_without_a_command_that_lists_is_refused(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, configuration='[suite.unit]\nframework = "command"\ncommand = ["true"]\n')
    named = ("plan", "--matrix", "matrix.yml", "--collect", "history")
    assert ciguard(*named, cwd=tmp_path, expect=3).stderr.splitlines()[:2] == [
        "ciguard plan: suite unit: framework command needs a command that lists",
        '  fix: set list = ["program", "argument", ...] in [suite.unit]',
    ]


def test_test_that_is_a_file_is_its_own_file(ciguard: Ciguard, tmp_path: Path) -> None:
    """Else its set-up, which is a part of each file's time, is not predicted."""
    write(tmp_path, 'node: ["22"]', '[suite.s]\nframework = "node-test"\n')
    (tmp_path / "durations.json").write_text('{"a.test.js": 1.0, "b.test.js": 2.0}')
    run = ("--run-id", "1", "--variant", "22", "--suite", "s")
    ciguard("history", "add", "durations.json", *run, cwd=tmp_path)
    found = plan(ciguard, tmp_path, "--shards", "2")
    assert found["inventory"]["files"] == {"a.test.js": 1, "b.test.js": 1}
