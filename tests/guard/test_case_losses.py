"""Cases that a program took along when it ended early, and wrote a well-formed file of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard
from guard.fixtures import make_plan
from guard.test_effective_policy import PolicyCheckout

from ciguard.codec import plan_file
from ciguard.codec.record.lines import encode as encode_line
from ciguard.codec.record.reader import read_records
from ciguard.codec.results.attach import attach_result_files, read_cases
from ciguard.codec.results.base import FILE
from ciguard.codec.unpack_limits import UnpackBudget
from ciguard.guard.inventory_checks import (
    CaseLoss,
    case_loss_findings,
    find_case_losses,
    units_with_cases,
)
from ciguard.guard.wording import finding_message
from ciguard.history.file import History, encode
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.history.query import BaseQuery, StableCases, stable_cases
from ciguard.history.runs import HistoryRun
from ciguard.model import (
    EndLine,
    EventLine,
    Line,
    Plan,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    ShardLine,
    StartLine,
    Suite,
    UnitKey,
    Variant,
)

UNIT = "spec/crash_spec.rb"
KEY = UnitKey("rb", "", UNIT)
CASES = ("before", "ends", "first after", "second after")
RECORDED = Path(__file__).parents[1] / "samples/recorded/rspec"


def rspec_plan(**changes: Any) -> Plan:
    """One shard with one file of RSpec, as `framework = "command"` with result files."""
    suite = Suite("command", ("./rspec",), variants={"": Variant()}, results=("out.xml",))
    (shard,) = make_plan({"01": (UNIT,)}).shards
    units = tuple(replace(unit, suite="rb") for unit in shard.units)
    plan = make_plan({}, suites={"rb": replace(suite, **changes)})
    plan = replace(plan, shards=(replace(shard, units=units),))
    return plan_file.decode(plan_file.encode(plan), "plan.json")


def junit(cases: Sequence[str]) -> str:
    rows = "".join(
        f'<testcase classname="spec.crash_spec" name="{name}" file="./{UNIT}" time="0.01"/>'
        for name in cases
    )
    return f'<testsuite name="rspec" tests="{len(cases)}" failures="0">{rows}</testsuite>'


def record(cases: Sequence[str], **more: Any) -> Record:
    results = [
        Result(**{"unit": UNIT, "suite": "rb", "case": name, "outcome": "passed", **more})
        for name in cases
    ]
    return Record("01", None, results=tuple(results))


def known(*cases: str) -> StableCases:
    return StableCases(frozenset(cases), HistoryRun(41, sha="a" * 40))


def test_cases_that_did_not_run_are_found() -> None:
    plan = rspec_plan()
    base = {KEY: known(*CASES)}
    (loss,) = find_case_losses(plan, [record(CASES[:2])], base)
    assert (loss.key, loss.cases, loss.file) == (KEY, CASES[2:], UNIT)
    assert find_case_losses(plan, [record((*CASES, "new"))], base) == ()
    assert find_case_losses(plan, [], base) == ()  # missing as a whole
    assert find_case_losses(plan, [record(CASES[:1], outcome="errored")], base) == ()
    focus = EventLine("execution", suite="rb", reason="focus", detail=f"{UNIT}: fit")
    assert find_case_losses(plan, [replace(record(CASES[:1]), events=(focus,))], base) == ()


def test_live_record_of_a_closed_file_loses_cases_as_a_result_file_does() -> None:
    closed = EventLine("closed", suite="rb", unit=UNIT, process=1)
    live = replace(record(CASES[:2]), events=(closed,))
    (loss,) = find_case_losses(rspec_plan(), [live], {KEY: known(*CASES)})
    assert (loss.cases, loss.is_emptied) == (CASES[2:], False)
    cut = replace(live, events=(), starts=(StartLine(UNIT, suite="rb"),))
    assert find_case_losses(rspec_plan(), [cut], {KEY: known(*CASES)}) == (), "it is unfinished"
    skipped = replace(live, results=(Result(UNIT, "skipped", suite="rb", case=UNIT),))
    (loss,) = find_case_losses(rspec_plan(), [skipped], {KEY: known(*CASES)})
    assert (loss.cases, loss.is_emptied) == (tuple(sorted(CASES)), True)


def test_units_of_files_hold_cases_and_units_of_tests_are_one() -> None:
    for name in ("command", "rspec", "jest", "maven"):
        assert units_with_cases(rspec_plan(framework=name), foreign=False) == {KEY}
    for name in ("pytest", "go", "nextest"):
        assert units_with_cases(rspec_plan(framework=name), foreign=False) == frozenset()
        assert units_with_cases(rspec_plan(framework=name), foreign=True) == {KEY}


@pytest.mark.parametrize(
    ("unit", "cwd", "file"),
    [
        ("./spec/a_spec.rb", ".", "spec/a_spec.rb"),
        ("test/a.test.js", "web", "web/test/a.test.js"),
        ("[dom] test/a.test.js", "web", "web/test/a.test.js"),
        ("../a.test.js", ".", ""),
        ("Adds", ".", ""),
    ],
)
def test_unit_named_as_its_file(unit: str, cwd: str, file: str) -> None:
    key = UnitKey("rb", "", unit)
    found = replace(record(["a"]), results=(Result(unit, "passed", suite="rb", case="a"),))
    (loss,) = find_case_losses(rspec_plan(cwd=cwd), [found], {key: known("a", "b")})
    assert loss.file == file


@pytest.mark.parametrize(
    ("changed", "lost", "expected"),
    [
        ({UNIT: False}, 1, ("incomplete", "cases_gone_of_unchanged_file")),
        ({UNIT: True}, 200, ("warning", "cases_gone_of_changed_file")),
        ({}, 2, ("warning", "cases_gone")),
        ({}, 3, ("incomplete", "cases_gone")),
    ],
)
def test_change_of_the_file_decides(
    changed: dict[str, bool], lost: int, expected: tuple[str, str]
) -> None:
    """Where it is not known, 1 % of 200 cases may be gone."""
    names = [f"case {number}" for number in range(200)]
    base = {KEY: known(*names)}
    losses = [CaseLoss(KEY, tuple(names[:lost]), base[KEY], UNIT)]
    (finding,) = case_loss_findings(losses, changed, base, 0.01)
    assert (finding.level, finding.kind) == expected
    assert finding.units == (KEY,)
    assert f"{lost} of 200 cases" in finding_message(finding)


def test_file_without_any_of_its_cases_is_incomplete_though_it_changed() -> None:
    loss = CaseLoss(KEY, CASES, known(*CASES), UNIT, is_emptied=True)
    (finding,) = case_loss_findings([loss], {UNIT: True}, {KEY: known(*CASES)}, 0.01)
    assert finding.level == "incomplete"
    assert finding_message(finding).startswith("1 file ran none of 4 cases of run 41: ")


def test_without_a_loss_there_is_no_finding() -> None:
    assert list(case_loss_findings([], {}, {KEY: known(*CASES)}, 0.01)) == []


def leg(plan: Plan, run_id: int, cases: Sequence[str], sha: str) -> dict[str, bytes]:
    """What a leg writes whose command left a result file of these cases."""
    header = ShardLine(
        plan.id,
        "01",
        run_id=run_id,
        run_attempt=1,
        event="push",
        branch="main",
        tested_sha=sha,
        started_at=f"2026-11-{run_id:02d}T10:00:00Z",
    )
    own: list[Line] = [
        header,
        ProcessLine(1, 1, at_s=0.0, reason="first"),
        EventLine("in_files", suite="rb", unit=UNIT, process=1),
        EventLine(FILE, suite="rb", process=1, detail="out.xml"),
        ProcessEndLine(1, "completed", 0, 1.0),
        EndLine("completed", 1.1, 0, {}),
    ]
    return {
        "01/supervisor.jsonl": b"".join(map(encode_line, own)),
        "01/results/process-001/out.xml": junit(cases).encode(),
    }


def history(sha: str, *runs: Sequence[str]) -> History:
    """Of runs 1, 2, ... of the base, each with the cases that it had."""
    found = []
    for number, cases in enumerate(runs, 1):
        (lines, _) = leg(rspec_plan(), number, cases, sha).values()
        (one,) = read_records([("01/supervisor.jsonl", lines)])
        files = {"process-001/out.xml": junit(cases).encode()}
        found.append(history_of([attach_result_files(one, files, UnpackBudget())]))
    return reduce(merge, found)


def test_case_is_stable_that_each_of_the_last_runs_had() -> None:
    found = history("", ["old", "a"], ["a", "b", "x1"], ["a", "b", "x2"], ["a", "b", "x3"])
    one = stable_cases(found, BaseQuery(), {KEY})[KEY]
    assert {case.rpartition("::")[2] for case in one.cases} == {"a", "b"}
    assert one.run.run_id == 4
    earlier = stable_cases(found, BaseQuery(run_id=2), {KEY})[KEY]
    assert {case.rpartition("::")[2] for case in earlier.cases} == {"old", "a"}
    assert stable_cases(found, BaseQuery(), set()) == {}


class Judged:
    """A pull request of which the leg lost cases, in a real checkout."""

    def __init__(self, folder: Path, ciguard: Ciguard, change: str, tested: str = "") -> None:
        self.checkout = PolicyCheckout(folder).propose(
            {UNIT: "all four", "ciguard.toml": ""}, {UNIT: change}
        )
        self.folder, self.ciguard = self.checkout.folder, ciguard
        (self.folder / "plan.json").write_bytes(plan_file.encode(rspec_plan()))
        past = history(tested or self.checkout.tip, CASES, CASES)
        (self.folder / "past").write_bytes(encode(past))

    def headline(self, cases: Sequence[str], expect: int) -> str:
        for path, content in leg(rspec_plan(), 9, cases, self.checkout.merge).items():
            (self.folder / "records" / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "records" / path).write_bytes(content)
        words = ("--plan", "plan.json", "--records", "records", "--history", "past")
        environ = {**self.checkout.environ(), "GITHUB_RUN_ID": "9", "GITHUB_RUN_ATTEMPT": "1"}
        done = self.ciguard("guard", *words, cwd=self.folder, expect=expect, **environ)
        return " ".join(done.stdout.split("\n\n")[0].split())


def test_exit_in_an_unchanged_file_is_incomplete(tmp_path: Path, ciguard: Ciguard) -> None:
    judged = Judged(tmp_path, ciguard, "all four")
    assert judged.headline(CASES, 0).startswith("PASSED: ")
    assert judged.headline(CASES[:2], 13) == (
        "INCOMPLETE: 2 of 4 cases of run 2 did not run, and the files are unchanged: "
        f"{UNIT}: spec.crash_spec::first after, {UNIT}: spec.crash_spec::second after"
    )


def test_case_deleted_from_its_file_is_told(tmp_path: Path, ciguard: Ciguard) -> None:
    found = Judged(tmp_path, ciguard, "only three").headline(CASES[:3], 0)
    assert found.startswith("PASSED: ")
    assert "1 of 4 cases of run 2 in changed files did not run: " in found


def test_where_the_commit_is_unknown_a_few_cases_are_told(tmp_path: Path, ciguard: Ciguard) -> None:
    judged = Judged(tmp_path, ciguard, "all four", tested="b" * 40)
    gone = "1 of 4 cases of run 2 did not run: "
    assert judged.headline(CASES[:3], 0).partition("; ")[2].startswith(gone)
    found = judged.headline(CASES[:2], 13)
    assert found.startswith("INCOMPLETE: 2 of 4 cases of run 2 did not run: ")
    assert found.count("did not run") == 1


def test_recorded_files_of_rspec() -> None:
    """Real: an `exit(0)` took four of six examples along, RSpec ended with 0."""
    unit = UnitKey("rb", "", UNIT)
    base = frozenset(one.key.case for one in recorded("run-all.junit.xml"))
    ran = Record("01", None, results=recorded("exit0.junit.xml"))
    (loss,) = find_case_losses(rspec_plan(), [ran], {unit: known(*base)})
    assert loss.cases == (
        "spec.crash_spec::crash behind",
        "spec.crash_spec::crash hangs",
        "spec.crash_spec::crash hogs",
        "spec.crash_spec::crash passes at the second try",
    )


def recorded(name: str) -> tuple[Result, ...]:
    cases, problem = read_cases((RECORDED / name).read_bytes(), name, UnpackBudget())
    assert problem == ""
    of_unit = [one for one in cases if one.file == f"./{UNIT}"]
    return tuple(replace(one, suite="rb", unit=UNIT, case=one.unit) for one in of_unit)
