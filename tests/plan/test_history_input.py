"""What `ciguard plan` does with a history: there, not there, or broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard
from plan.plan_requests import NONE, plan_of

from ciguard.history.file import empty, encode


def test_missing_history_is_noted_in_the_table(listed: Path, ciguard: Ciguard) -> None:
    done = ciguard("plan", "--inventory", "units.txt", *NONE, "--shards", "3", cwd=listed)
    assert "none yet at none.ciguard: tests are divided by count" in " ".join(done.stdout.split())
    assert "Warnings" not in done.stdout
    assert "the plan was not written" in done.stderr
    assert "\nshard  tests  predicted wall" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "[" not in done.stdout, "no colour in a pipe"


def test_unreachable_history_is_a_warning_and_plan_continues(
    listed: Path, ciguard: Ciguard
) -> None:
    words = ("plan", "--inventory", "units.txt", "--shards", "3", "--format", "json")
    done = ciguard(*words, "--history", "branch:a..b", cwd=listed)
    output = "the history at branch:a..b cannot be used: no branch name"
    assert f"warning: {output}" in done.stderr
    plan = plan_of(done.stdout)
    assert plan["warnings"][0]["kind"] == "history_unusable"
    assert [len(shard["units"]) for shard in plan["shards"]] == [10, 10, 10]


def test_unusable_history_is_reported_on_one_stream_only(listed: Path, ciguard: Ciguard) -> None:
    (listed / "past").write_bytes(b"")
    words = ("plan", "--inventory", "units.txt", "--history", "past", "--shards", "3")
    output = "the history at past cannot be used"
    done = ciguard(*words, cwd=listed)
    assert done.stdout.count(output) == 1
    assert output not in done.stderr
    for more in (("--format", "markdown"), ("--format", "json"), ("-o", "-")):
        assert f"warning: {output}" in ciguard(*words, *more, cwd=listed).stderr, more


CUT = encode(empty())[:-1]


@pytest.mark.parametrize(
    ("content", "what", "fix"),
    [
        (b"no history", "no history file", "name a file that ciguard wrote"),
        (b"", "no history file: it is empty", "name a file that ciguard wrote"),
        (b'{"type":"plan"}', "no history file", "name a file that ciguard wrote"),
        (CUT, "the file was cut or changed", "move it away: mv past past.damaged"),
        (
            b"ciguard-history 99 0\n{}\n",
            "a newer ciguard wrote it: schema 99 is not 2",
            "use the version",
        ),
        (None, "no file that can hold a history", "name a file, or branch:NAME"),
    ],
    ids=["text", "empty", "plan", "cut", "newer", "folder"],
)
def test_unusable_history_is_reported_first_and_plan_continues(
    content: bytes | None, what: str, fix: str, listed: Path, ciguard: Ciguard
) -> None:
    past = listed / "past"
    if content is None:
        past.mkdir()
    else:
        past.write_bytes(content)
    words = ("plan", "--inventory", "units.txt", "--history", "past", "--shards", "3")
    (listed / "outputs").touch()
    done = ciguard(
        *(*words, "--github", "-o", "plan.json"),
        cwd=listed,
        GITHUB_OUTPUT=str(listed / "outputs"),
        GITHUB_STEP_SUMMARY=str(listed / "summary.md"),
    )
    output = f"the history at past cannot be used: {what} (fix: {fix}"
    assert f"::warning title=ciguard plan::{output}" in done.stderr
    first = done.stdout.split("\n\n")[1]
    assert " ".join(first.split()).startswith(f"Warnings: - {output}")
    assert max(map(len, first.splitlines())) <= 80
    head = (listed / "summary.md").read_text("utf-8").splitlines()[4]
    assert head.startswith("- the history at past cannot be used")
    plan = json.loads((listed / "plan.json").read_text("utf-8"))
    assert plan["history"]["source"] is None
    assert plan["warnings"][0]["kind"] == "history_unusable"
    assert [len(shard["units"]) for shard in plan["shards"]] == [10, 10, 10]
    if content is not None:
        assert past.read_bytes() == content
        assert "rm " not in fix


def test_durations_of_another_tool_are_matched(listed: Path, ciguard: Ciguard) -> None:
    durations = {f"tests/test_a.py::test_{n}": 10.0 for n in range(10)}
    (listed / ".test_durations").write_text(json.dumps({**durations, "gone": 1.0}), "utf-8")
    ciguard(
        *("history", "add", ".test_durations", "--history", "past", "--run-id", "1"), cwd=listed
    )
    words = ("plan", "--inventory", "units.txt", "--history", "past", "--shards", "3")
    plan = plan_of(ciguard(*words, "--format", "json", cwd=listed).stdout)
    units = {unit["unit"]: unit for shard in plan["shards"] for unit in shard["units"]}
    assert units["tests/test_a.py::test_0"]["wall_s"] == 10.0
    assert units["tests/test_a.py::test_0"]["has_history"]
    assert units["tests/test_b.py::test_0"]["wall_s"] == 10.0
    assert not units["tests/test_b.py::test_0"]["has_history"]
    assert plan["history"] == {
        "source": "past",
        "runs": 1,
        "entries": 11,
        "matched": 10,
        "units_with_history": 10,
    }


CASE = '<testcase classname="tests.test_a" name="test_0" time="10"><failure/></testcase>'
JEST = {"fullName": "test_0", "status": "passed", "duration": 10_000}
JEST_FILE = {"name": "tests/test_a.py", "status": "passed", "assertionResults": [JEST]}
JEST_REPORT = {"numTotalTests": 1, "testResults": [JEST_FILE]}


@pytest.mark.parametrize(
    ("path", "content", "timed"),
    [
        (".test_durations", json.dumps({"tests/test_a.py::test_0": 10.0, "gone": 1.0}), 1),
        ("knapsack_rspec_report.json", json.dumps({"tests/test_a.py": 100.0}), 10),
        ("junit.xml", f"<testsuite>{CASE}</testsuite>", 1),
        ("test-results/pytest/results.xml", f"<testsuite>{CASE}</testsuite>", 1),
        ("test-results/results.json", json.dumps(JEST_REPORT), 1),
    ],
)
def test_timings_in_the_repository_are_used_without_a_history(
    path: str, content: str, timed: int, listed: Path, ciguard: Ciguard
) -> None:
    (listed / path).parent.mkdir(parents=True, exist_ok=True)
    (listed / path).write_text(content, "utf-8")
    (listed / "test-results").mkdir(exist_ok=True)
    (listed / "test-results" / "coverage.xml").write_text("<coverage/>", "utf-8")
    (listed / "matrix.yml").write_text("os: [a, b]", "utf-8")
    words = ("plan", "--inventory", "units.txt", *NONE, "--matrix", "matrix.yml", "-o", "plan.json")
    printed = " ".join(ciguard(*words, cwd=listed).stdout.split())
    none = "history none yet at none.ciguard"
    assert f"{none}; timings of {2 * timed} of 60 tests are from {path}" in printed
    plan = plan_of((listed / "plan.json").read_text("utf-8"))
    units = [unit for shard in plan["shards"] for unit in shard["units"]]
    assert len([unit for unit in units if unit["has_history"]]) == 2 * timed
    assert {unit["wall_s"] for unit in units} == {10.0}, "others are estimated by these"
    assert not any(unit.get("fails_on_base") for unit in units)
    assert not plan["inventory"].get("base_units")


def test_unusable_timings_in_the_repository_are_named(listed: Path, ciguard: Ciguard) -> None:
    (listed / ".test_durations").write_text('{"tests/test_a.py::test_0": -1}', "utf-8")
    done = ciguard("plan", "--inventory", "units.txt", *NONE, "--dry-run", cwd=listed)
    assert "at .test_durations cannot be used: -1 is not a duration" in done.stdout
    assert "none.ciguard: tests are divided by count" in " ".join(done.stdout.split())


@pytest.mark.parametrize("bad", ["NaN", "-1", "1e300", '"x"'])
def test_invalid_durations_are_an_error(bad: str, listed: Path, ciguard: Ciguard) -> None:
    text = f'{{"tests/test_a.py::test_0": {bad}, "tests/test_a.py::test_1": 2.0}}'
    (listed / "durations.json").write_text(text, "utf-8")
    done = ciguard(
        *("history", "add", "durations.json", "--history", "past", "--run-id", "1"),
        cwd=listed,
        expect=3,
    )
    assert "durations.json" in done.stderr


def test_failures_of_the_base_and_time_for_extra_tries_are_planned(
    listed: Path, ciguard: Ciguard
) -> None:
    """The newest complete run of the base decides; a twentieth of the makespan is for the tries."""
    (listed / "units.txt").write_text("a\nb\nc\n")
    for run_id, bad in ((1, "a"), (2, "b")):
        head = {"type": "shard", "plan_id": "p", "shard": "1", "run_id": run_id, "schema": 1}
        same = {"type": "result", "suite": "s", "wall_s": 200.0}
        outcomes = {unit: "failed" if unit == bad else "passed" for unit in "abc"}
        results = [{**same, "unit": unit, "outcome": how} for unit, how in outcomes.items()]
        end = {"type": "end", "ending": "completed", "exit_code": 10, "at_s": 600.0}
        folder = listed / f"record-{run_id}"
        folder.mkdir()
        text = "".join(json.dumps(line) + "\n" for line in (head, *results, end))
        (folder / "supervisor.jsonl").write_text(text)
        ciguard("history", "add", folder.name, "--history", "past", cwd=listed)

    def planned(*words: str, policy: str = "") -> dict[str, Any]:
        (listed / "ciguard.toml").write_text(f"[suite.s]\n[policy]\n{policy}")
        return plan_of(ciguard(*words, "--format", "json", cwd=listed).stdout)

    words = ("plan", "--inventory", "units.txt", "--shards", "1")
    plan = planned(*words, "--history", "past")
    (shard,) = plan["shards"]
    flags = {unit["unit"]: unit.get("fails_on_base") for unit in shard["units"]}
    assert flags == {"a": None, "b": True, "c": None}
    assert plan["policy"]["probe_s"] == pytest.approx(shard["predicted"]["wall_s"] / 20)
    off = planned(*words, "--history", "past", policy="probe = false\n")
    assert "probe_s" not in off["policy"]
    new = planned(*words, "--history", "none")
    assert new["policy"]["probe_s"] == 20
    assert all("fails_on_base" not in unit for unit in new["shards"][0]["units"])
