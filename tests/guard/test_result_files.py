"""Runs whose legs were not ours: JUnit and TRX files against a plan of given shards."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from conftest import Ciguard
from guard.fixtures import SHARDS, make_plan, text_of

from ciguard.codec.results.planned_shards import records_from_files
from ciguard.codec.results.result_patterns import ResultFile
from ciguard.errors import InputError
from ciguard.guard.diagnosis import JobEvidence
from ciguard.guard.github_facts import RunFacts
from ciguard.guard.prove import check_unknown_shards, prove
from ciguard.guard.verdict import Policy, Verdict
from ciguard.guard.wording import finding_message
from ciguard.model import Plan, PlannedUnit, Suite
from ciguard.model.jobs import Job
from ciguard.sources import local

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "samples" / "junit"
RECORDED = ROOT / "tests/samples/recorded/never_ran"
Row = tuple[str, str, str]  # the unit's class and method, the outcome, the message


def trx(rows: Sequence[Row], total: int | None = None) -> bytes:
    """As `dotnet test` writes it; rows of one method have one name."""
    results, definitions = [], []
    for number, (unit, outcome, message) in enumerate(rows):
        classname, _, method = unit.rpartition(".")
        info = f"<Output><ErrorInfo><Message>{message}</Message></ErrorInfo></Output>"
        results.append(
            f'<UnitTestResult testId="{number}" testName="{unit}(x: ···)" duration="00:00:01" '
            f'outcome="{outcome}">{info if message else ""}</UnitTestResult>'
        )
        definitions.append(
            f'<UnitTest id="{number}"><TestMethod className="{classname}" name="{method}"/>'
            "</UnitTest>"
        )
    bad = sum(outcome != "Passed" for _, outcome, _ in rows)
    counters = f'<Counters total="{len(rows) if total is None else total}" failed="{bad}"/>'
    summary = f'<ResultSummary outcome="{"Failed" if bad else "Completed"}">{counters}'
    return (
        f"<TestRun><Results>{''.join(results)}</Results><TestDefinitions>{''.join(definitions)}"
        f"</TestDefinitions>{summary}</ResultSummary></TestRun>"
    ).encode()


def junit(units: Sequence[str], bad: Sequence[str] = (), total: int | None = None) -> bytes:
    cases = "".join(
        f'<testcase classname="{unit.split("::")[0]}" name="{unit.split("::")[1]}" time="1">'
        f"{'<failure/>' if unit in bad else ''}</testcase>\n"
        for unit in units
    )
    return f'<testsuite tests="{total or len(units)}">{cases}</testsuite>'.encode()


def complete_files() -> dict[str, bytes]:
    return {f"a/{shard}/r.xml": junit(units) for shard, units in SHARDS.items()}


def prove_files(files: dict[str, bytes], plan: Plan | None = None) -> Verdict:
    plan = plan or make_plan()
    placed = [ResultFile(path, content, path.split("/")[1]) for path, content in files.items()]
    found = records_from_files(plan, placed)
    unknown = tuple(check_unknown_shards(plan, found.unknown_shards))
    verdict = prove(plan, found.records, extra_findings=unknown)
    assert records_from_files(plan, placed[::-1]) == found
    return verdict


def test_complete_run_passes_in_any_archive_format() -> None:
    files = complete_files()
    assert prove_files(files).exit_code == 0
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("TestResults/r.xml", files["a/01/r.xml"])
        archive.writestr("log.txt", "hello")
    files["a/01/r.xml"] = stream.getvalue()
    files["a/02/r.xml"] = gzip.compress(files["a/02/r.xml"])
    verdict = prove_files(files)
    assert (verdict.exit_code, verdict.with_result, verdict.findings) == (0, 8, ())


@pytest.mark.parametrize(
    ("attribute", "is_older"),
    [
        ("", False),
        ('timestamp="2026-11-28T10:00:05Z"', False),
        ('timestamp="2026-11-28T09:59:30Z"', False),  # within what clocks differ by
        ('timestamp="2026-11-28T09:55:00.123+00:00"', True),
        ('timestamp="2026-11-28T10:55:00+01:00"', True),
        ('timestamp="2026-11-28T02:00:00"', False),  # of a machine without a zone, 8 hours behind
        ('timestamp="2026-11-27T20:00:00"', True),
        ('timestamp="2026-13-45T99:00:00Z"', False),
    ],
)
@pytest.mark.parametrize("rule", ["warn", "fail"])
def test_files_older_than_their_job_are_named(
    attribute: str, is_older: bool, rule: Literal["warn", "fail"]
) -> None:
    files = complete_files()
    suite = f"<testsuite {attribute}".encode()
    files["a/02/r.xml"] = files["a/02/r.xml"].replace(b"<testsuite", suite)
    plan = make_plan()
    placed = [ResultFile(path, content, path.split("/")[1]) for path, content in files.items()]
    began = datetime(2026, 11, 28, 10, tzinfo=UTC)
    jobs = {
        shard: JobEvidence(Job(1, f"tests ({shard})", 1, "completed", "success", began))
        for shard in SHARDS
    }
    verdict = prove(
        plan,
        records_from_files(plan, placed).records,
        platform=RunFacts(legs=jobs),
        policy=Policy(cached_results=rule),
    )
    expected = "shard 02: 1 result file of tests that ran before this job: a/02/r.xml"
    named = [finding_message(one) for one in verdict.findings if one.kind == "cached_results"]
    assert named == [expected] * is_older
    assert verdict.exit_code == (13 if is_older and rule == "fail" else 0)


def test_files_of_a_framework_that_closes_units_when_a_leg_runs_it() -> None:
    """A plan of Jest whose jobs call Jest themselves: their files close no unit."""
    plan = make_plan(suites={"": Suite("jest", ("jest",), closes_units=True)})
    verdict = prove_files(complete_files(), plan)
    assert (verdict.exit_code, verdict.with_result) == (0, 8)


@pytest.mark.parametrize("cut", [b"", b'<?xml version="1.0"?>', b'<?xml version="1.0"?>\n<TestR'])
def test_truncated_result_file_in_a_zip_is_incomplete(cut: bytes) -> None:
    files = complete_files()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("r.xml", files["a/01/r.xml"])
        archive.writestr("net471.trx", cut)
    files["a/01/r.xml"] = stream.getvalue()
    verdict = prove_files(files)
    assert verdict.exit_code == 13
    assert "its record is damaged: a/01/r.xml/net471.trx: " in finding_message(verdict.findings[0])


@pytest.mark.parametrize(
    ("damage", "code", "states"),
    [
        ({"a/03/r.xml": None}, 13, "shard 03: no record"),
        ({"a/03/r.xml": b""}, 13, "shard 03: its record is damaged: a/03/r.xml: empty"),
        (
            {"a/03/r.xml": junit(SHARDS["03"])[:-30]},
            13,
            "shard 03: its record is damaged: a/03/r.xml:3:",
        ),
        (
            {"a/03/r.xml": junit(SHARDS["03"], total=638)},
            13,
            "a/03/r.xml:4:1: its counters say 638 tests, and it holds 3",
        ),
        ({"a/03/r.xml": b"<coverage/>"}, 13, "XML with the root <coverage>"),
        ({"a/03/r.xml": b"PK\x03\x04cut"}, 13, "a/03/r.xml: damaged zip"),
        ({"a/03/s.xml": junit(["x::y"])[:40]}, 13, "a/03/s.xml:1:22: malformed"),
        ({"a/03/r.xml": junit(SHARDS["03"][1:])}, 13, "shard 03: 1 planned test without a"),
        ({"a/03/r.xml": junit([])}, 13, "shard 03: 3 planned tests without a result"),
        ({"a/09/r.xml": junit(["new::t"])}, 13, "1 result file of shard '09', which is not in"),
        ({"a/03/s.xml": junit(["new::t"])}, 0, "shard 03: 1 test with results, but not planned"),
        ({"a/03/s.xml": junit(["new::t"], ["new::t"])}, 10, "with results, but not planned"),
        ({"a/03/s.xml": junit(["a.t::one"])}, 0, "1 test with results in several shards"),
        ({"a/03/s.xml": junit(["a.t::one"], ["a.t::one"])}, 10, "in several shards; the worst"),
        ({"a/03/s.xml": junit(["d.t::six"], ["d.t::six"])}, 10, ""),
        ({"a/03/r.xml": junit(SHARDS["03"], SHARDS["03"][:1])}, 10, ""),
        ({"a/03/r.xml": junit(SHARDS["02"]), "a/02/r.xml": junit(SHARDS["03"])}, 0, ""),
    ],
)
def test_each_damaged_result_file_is_found(
    damage: dict[str, bytes | None], code: int, states: str
) -> None:
    files = {
        path: content
        for path, content in {**complete_files(), **damage}.items()
        if content is not None
    }
    verdict = prove_files(files)
    assert verdict.exit_code == code
    assert any(states in finding_message(finding) for finding in verdict.findings) or not states
    assert "not started" not in text_of(verdict)


def test_result_that_only_resembles_a_pass_is_incomplete(ciguard: Ciguard, tmp_path: Path) -> None:
    case = '<testcase classname="a.t" name="t">{}</testcase>'
    aborted = '<RunInfo outcome="Warning"><Text>The test run was aborted.</Text></RunInfo>'
    result = '<UnitTestResult testName="a.t.t" outcome="Passed"/>'
    uploaded = {
        "prefix.xml": f'<testsuite xmlns:j="urn:j">{case.format("<j:failure/>")}</testsuite>',
        "case.xml": f"<testsuite>{case.format('<Failure/>')}</testsuite>",
        "errors.xml": f'<testsuite errors="1">{case.format("")}</testsuite>',
        "warning.trx": f"<TestRun><Results>{result}</Results><ResultSummary outcome='Completed'>"
        f"<RunInfos>{aborted}</RunInfos></ResultSummary></TestRun>",
        "aborted.trx": f"<TestRun><Results>{result}</Results>"
        "<ResultSummary outcome='Aborted'/></TestRun>",
    }
    (tmp_path / "units.json").write_text(json.dumps({name: ["a.t.t"] for name in uploaded}))
    ciguard("plan", "--inventory", "units.json", "-o", "plan.json", cwd=tmp_path)
    for name, content in uploaded.items():
        (tmp_path / "out" / name).mkdir(parents=True)
        (tmp_path / "out" / name / f"r.{name[-3:]}").write_text(content)
    words = ("--plan", "plan.json", "--results", "out/{shard}/*", "--format", "json")
    verdict = json.loads(ciguard("guard", *words, cwd=tmp_path, expect=13).stdout)
    invalid = {one["shard"] for one in verdict["findings"] if one["level"] == "incomplete"}
    assert invalid == set(uploaded)


def test_leg_counts_only_results_of_its_shard() -> None:
    plan = make_plan({"A": ("t::x", "t::y"), "B": ("t::x",)})
    verdict = prove_files({"a/B/r.xml": junit(["t::x"])}, plan)
    assert verdict.exit_code == 13
    assert [(leg.shard, leg.with_result, leg.planned) for leg in verdict.legs] == [
        ("A", 0, 2),
        ("B", 1, 1),
    ]


def prove_sample(name: str, units: Sequence[str]) -> Verdict:
    content = (SAMPLES / name / "input.xml").read_bytes()
    return prove_files({"a/1/r.xml": content}, make_plan({"1": tuple(units)}))


def test_tests_of_a_killed_vitest_worker_have_no_result() -> None:
    crashed = "test/crash.test.js"
    names = ("before the crash", "kills its process", "behind the crash")
    units = [f"{crashed}::{name}" for name in names]
    fine = "test/deep/sums.test.js::same base name as another file"
    verdict = prove_sample("vitest_worker_killed", [*units, fine])
    assert (verdict.exit_code, verdict.with_result, verdict.counts) == (13, 1, {"passed": 1})
    assert any(
        f"worker of {crashed} was killed: no result for 3 of 3 tests" in finding_message(one)
        for one in verdict.findings
    )
    # A unit that is a whole file is not done because its first test is.
    heap = [f"test/{name}.test.js" for name in ("heap", "none", "only")]
    assert prove_sample("vitest_heap", heap).exit_code == 13


def test_case_that_ctest_could_not_run_has_failed() -> None:
    fine = ["Sums.Adds", "Sums.Skipped", "Sums.Never", "shell.skip", "shell.disabled"]
    bad = ["shell.fail", "missing.binary"]
    verdict = prove_sample("ctest_not_run", [f"{name}::{name}" for name in fine + bad])
    assert (verdict.exit_code, verdict.with_result) == (10, 7)
    assert [failure.result.name for failure in verdict.failures] == ["missing.binary", "shell.fail"]
    assert verdict.counts == {"passed": 1, "skipped": 4, "failed": 2}


def test_tests_that_playwright_did_not_run_are_no_skips() -> None:
    passed = ["passes", "slow", "after slow"]
    skipped = ["is skipped by code", "skips itself", "fixme inside"]
    units = [f"a.spec.js::{name}" for name in (*passed, *skipped)]
    rest = ["b.spec.js::serial › first", "b.spec.js::serial › second"]
    rest += ["c.spec.js::in hooked", "c.spec.js::in hooked 2"]
    verdict = prove_sample("playwright_not_run", [*units, *rest])
    assert verdict.exit_code == 13
    assert verdict.counts == {"passed": 3, "skipped": 3, "errored": 1, "died": 3}


@pytest.mark.parametrize(
    ("tool", "code", "states"),
    [
        ("vitest", 13, "worker of test/crash.test.js was killed: no result for 3 of 3 tests"),
        ("ctest", 10, ""),
    ],
)
def test_recorded_files_with_tests_that_never_ran_do_not_pass(
    tool: str, code: int, states: str
) -> None:
    shards = json.loads((RECORDED / f"{tool}-units.json").read_bytes())
    content = (RECORDED / f"{tool}.junit.xml").read_bytes()
    plan = make_plan({shard: tuple(units) for shard, units in shards.items()})
    verdict = prove_files({"a/01/r.xml": content}, plan)
    assert verdict.exit_code == code
    assert states in " ".join(finding_message(one) for one in verdict.findings)


def test_truncated_result_file_never_passes() -> None:
    files = complete_files()
    content = files["a/01/r.xml"]
    for end in range(len(content)):
        assert prove_files({**files, "a/01/r.xml": content[:end]}).exit_code == 13


def test_rows_with_one_name_are_all_counted_and_the_worst_wins() -> None:
    rows = [("A.T.adds", outcome, "") for outcome in ("Passed", "Failed", "Passed")]
    verdict = prove_files({"a/1/r.trx": trx(rows)}, make_plan({"1": ("A.T.adds",)}))
    assert (verdict.exit_code, verdict.with_result) == (10, 1)
    assert verdict.counts == {"passed": 2, "failed": 1}
    (failure,) = verdict.failures
    assert failure.result.case == "A.T.adds(x: ···) #2"


def test_plan_names_a_file_that_a_user_list_omits(ciguard: Ciguard, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("good", "bad"):
        (tmp_path / "tests" / f"test_{name}.py").write_text("def test_it(): pass\n")
    (tmp_path / "units.json").write_text('{"1": ["tests/test_good.py::test_it"]}')
    made = ciguard("plan", "--inventory", "units.json", "-o", "plan.json", cwd=tmp_path)
    assert "test files without a planned test: tests/test_bad.py" in made.stdout
    assert "the list of tests omits them" in " ".join(made.stdout.split())
    (tmp_path / "a" / "1").mkdir(parents=True)
    (tmp_path / "a" / "1" / "r.xml").write_bytes(junit(["tests.test_good::test_it"]))
    words = ("--plan", "plan.json", "--results", "a/{shard}/*.xml")
    done = ciguard("guard", *words, cwd=tmp_path)
    assert "test_bad.py" not in done.stdout


def test_either_records_or_results_are_required(ciguard: Ciguard, tmp_path: Path) -> None:
    both = ("--records", "r", "--results", "a/*/*")
    (tmp_path / "units.json").write_text('{"1": ["t"]}')
    ciguard("plan", "--inventory", "units.json", "-o", "plan.json", cwd=tmp_path)
    for verb, words in (("guard", ()), ("report", both)):
        done = ciguard(verb, "--plan", "plan.json", *words, cwd=tmp_path, expect=2)
        assert "--results GLOB for other jobs" in done.stderr


def test_result_files_match_the_pattern_without_following_links(tmp_path: Path) -> None:
    for name in ("a/01/x/r.xml", "a/01/log.txt", "b/02/r.xml", "secret.xml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(junit(["x::y"]))
    (tmp_path / "a" / "01" / "link.xml").symlink_to(tmp_path / "secret.xml")
    (tmp_path / "a" / "03").symlink_to(tmp_path / "b" / "02")
    patterns = ("a/**/*.xml", "a/{shard}/**/r.xml", "gone/*/r.xml")
    read = local.find_result_files(tmp_path, patterns)
    assert [(one.path, one.shard) for one in read.results] == [("a/01/x/r.xml", "01")]
    assert read.problems == ("a/01/link.xml: a link",)
    with pytest.raises(InputError, match="a link"):
        local.read_result_files(tmp_path, patterns)
    (absolute,) = local.read_result_files(tmp_path, (f"{tmp_path}/b/*/*.xml",))
    assert (absolute.shard, absolute.path) == ("02", f"{tmp_path}/b/02/r.xml")


def test_path_distinguishes_variants() -> None:
    plan = make_plan({"1": ("A.T.a",)})
    (shard,) = plan.shards
    units = (*shard.units, PlannedUnit("A.T.a", variant="x"))
    plan = replace(plan, shards=(replace(shard, units=units),))
    good, bad = trx([("A.T.a", "Passed", "")]), trx([("A.T.a", "Failed", "")])
    files = [
        ResultFile("1/r.trx", good, "1", variant=""),
        ResultFile("1x/r.trx", bad, "1", variant="x"),
    ]
    found = records_from_files(plan, files)
    unknown = tuple(check_unknown_shards(plan, found.unknown_shards))
    verdict = prove(plan, found.records, extra_findings=unknown)
    assert [failure.result.key.variant for failure in verdict.failures] == ["x"]
    assert verdict.with_result == verdict.planned == 2
    # Without a word both are taken for the first: what nobody can tell is not green.
    files = [ResultFile(file.path, good, "1") for file in files]
    assert prove(plan, records_from_files(plan, files).records).exit_code == 13
