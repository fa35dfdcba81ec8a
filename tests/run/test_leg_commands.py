"""Suites without a framework, and single commands: the same leg, the same record."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run.leg_runner import LEG, MARK, clean_environ, plan_of, start, start_shard

from ciguard.codec import plan_file as plan_codec
from ciguard.model import LegPolicy, MetricLine, PlannedUnit, Suite, Variant
from ciguard.run.frameworks.command import COMMAND

PROJECT = Path(__file__).parent.parent / "samples" / "projects" / "tables"
SUITE = Suite(
    framework="command",
    command=(sys.executable, "tables/check.py", "run", "{units_file}", "{results_file}"),
    list_command=(sys.executable, "tables/check.py", "list"),
    variants={"exact": Variant(args=("{variant}",)), "rounded": Variant(args=("{variant}",))},
)
TABLES = ("even.txt", "odd.txt", "zero.txt")
EXPECTED = {
    ("even.txt", "half"): "passed passed",
    ("even.txt", "quarter"): "passed passed",
    ("odd.txt", "third"): "failed passed",
    ("odd.txt", "sixth"): "failed passed",
    ("odd.txt", "two thirds"): "failed passed",
    ("zero.txt", "nothing"): "errored errored",
    ("zero.txt", "one"): "passed passed",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(PROJECT, tmp_path / "tables")
    return tmp_path


def units() -> list[PlannedUnit]:
    return [
        PlannedUnit(table, suite="tables", variant=variant)
        for variant in ("exact", "rounded")
        for table in TABLES
    ]


def test_list_command_of_a_suite_is_read(project: Path) -> None:
    invocation = COMMAND.listing(SUITE, "exact", "", "")
    done = subprocess.run(invocation.argv, cwd=project, capture_output=True, check=False)
    listing = COMMAND.read_listing(SUITE, b"", done.stdout, done.returncode)
    assert listing.errors == ()
    assert [(unit.unit, unit.file) for unit in listing.units] == [
        (table, f"tables/{table}") for table in TABLES
    ]


@pytest.mark.parametrize("processes", [1, 2])
def test_two_variants_with_several_cases_per_unit(project: Path, processes: int) -> None:
    plan = plan_of(units(), suites={"tables": SUITE}, processes=processes)
    leg = start_shard(project, plan).wait(10)
    record = leg.record()
    assert record.damage == ()
    found = {result.key: result.outcome for result in record.results}
    assert len(found) == len(record.results) == 14
    for (table, case), outcomes in EXPECTED.items():
        for variant, outcome in zip(("exact", "rounded"), outcomes.split(), strict=True):
            assert found[("tables", variant, table, case)] == outcome  # type: ignore[index]
    assert dict(leg.end().counts) == {"passed": 9, "failed": 3, "errored": 2}
    assert {end.ending for end in record.process_ends} == {"completed"}
    assert "even.txt: done as rounded" in leg.printed


def test_crash_is_attributed_to_the_last_started_unit(project: Path) -> None:
    suite = replace(SUITE, env={"CRASH_IN": "odd.txt"})
    leg = start_shard(project, plan_of(units()[:3], suites={"tables": suite})).wait(10)
    outcomes = {(r.unit, r.case): (r.outcome, r.ending) for r in leg.record().results}
    assert outcomes == {
        ("even.txt", "half"): ("passed", "completed"),
        ("even.txt", "quarter"): ("passed", "completed"),
        ("odd.txt", "odd.txt"): ("died", "crash"),
        ("zero.txt", "nothing"): ("errored", "completed"),
        ("zero.txt", "one"): ("passed", "completed"),
    }


SILENT = """
import json, os, sys, time
for unit in open(os.environ["CIGUARD_UNITS_FILE"]).read().split():
    if unit == "kills":
        os.abort()
    while unit == "hangs":
        time.sleep(1)
    with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
        record.write(json.dumps({"type": "result", "unit": unit, "outcome": "passed"}) + chr(10))
"""


@pytest.mark.parametrize("through", [(), ("sh", "-c", '"$@"; exit $?', "sh")])
def test_crash_without_start_lines_is_bisected(tmp_path: Path, through: list[str]) -> None:
    """Its units say nothing before they run; a shell may hand the signal on as 134."""
    suite = Suite("command", (*through, sys.executable, "-c", SILENT))
    planned = [PlannedUnit(unit, suite="s") for unit in ("a", "b", "kills", "c", "d")]
    leg = start_shard(tmp_path, plan_of(planned, suites={"s": suite})).wait(10)
    assert leg.outcomes() == {
        unit.unit: "died" if unit.unit == "kills" else "passed" for unit in planned
    }
    (culprit,) = (result for result in leg.record().results if result.outcome == "died")
    assert "killed by SIGABRT" in (culprit.message or "")


def test_hang_without_start_lines_is_stopped_if_isolated(tmp_path: Path) -> None:
    suite = Suite("command", (sys.executable, "-c", SILENT))
    planned = [PlannedUnit("hangs", suite="s", timeout_s=0.5)]
    leg = start_shard(tmp_path, plan_of(planned, suites={"s": suite})).wait(10)
    (culprit,) = leg.record().results
    assert (culprit.unit, culprit.ending) == ("hangs", "timeout")
    assert 0.5 <= (culprit.wall_s or 0) < 5


def test_start_line_without_a_time_gets_one(tmp_path: Path) -> None:
    """Late in a leg, a limit counts from the unit's start and not from the leg's."""
    code = """
import json, os, time
def say(**line):
    with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
        record.write(json.dumps(line) + chr(10))
for unit in ("a", "b", "c"):
    say(type="start", unit=unit)
    time.sleep(60 if unit == "c" else 0.6)
    say(type="result", unit=unit, outcome="passed")
"""
    suite = Suite("command", (sys.executable, "-c", code))
    planned = [PlannedUnit(unit, suite="s", timeout_s=1.0) for unit in ("a", "b", "c")]
    leg = start_shard(tmp_path, plan_of(planned, suites={"s": suite})).wait(10)
    assert leg.outcomes() == {"a": "passed", "b": "passed", "c": "died"}
    assert leg.record().results[-1].ending == "timeout"


COUNTS = """
import json, os, sys
failed = 0
for unit in open(os.environ["CIGUARD_UNITS_FILE"]).read().split():
    failed += unit.startswith("bad")
    with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
        outcome = "failed" if unit.startswith("bad") else "passed"
        record.write(json.dumps({"type": "start", "unit": unit}) + chr(10))
        record.write(json.dumps({"type": "result", "unit": unit, "outcome": outcome}) + chr(10))
sys.exit(failed)
"""


@pytest.mark.parametrize(
    ("codes", "ending"), [(("1-255",), "completed"), (("3",), "completed"), (("8",), "crash")]
)
def test_exit_codes_that_mean_failed_tests_are_told(
    tmp_path: Path, codes: tuple[str, ...], ending: str
) -> None:
    """The program ends with the number of its failures: without the key the last one `died`."""
    suite = Suite("command", (sys.executable, "-c", COUNTS), failed_exit_codes=codes)
    names = ("bad1", "bad2", "bad3", "good")
    plan = plan_of([PlannedUnit(name, suite="s") for name in names], suites={"s": suite})
    leg = start_shard(tmp_path, plan).wait(10)
    record = leg.record()
    assert {end.ending for end in record.process_ends} == {ending}
    assert leg.outcomes() == {name: "passed" if name == "good" else "failed" for name in names}
    assert [one.kind for one in record.events if one.kind == "unexplained_exit"] == (
        [] if ending == "completed" else ["unexplained_exit"]
    )


@pytest.mark.parametrize(("code", "ending"), [(127, "setup_failed"), (139, "crash")])
def test_range_of_exit_codes_hides_no_signal_and_no_missing_program(
    tmp_path: Path, code: int, ending: str
) -> None:
    command = (sys.executable, "-c", f"import sys; sys.exit({code})")
    suite = Suite("command", command, failed_exit_codes=("1-255",))
    leg = start_shard(tmp_path, plan_of([PlannedUnit("a", suite="s")], suites={"s": suite})).wait()
    assert {end.ending for end in leg.record().process_ends} == {ending}


def test_failed_unit_is_retried_with_all_its_cases(project: Path) -> None:
    policy = LegPolicy(guard_rail="off", max_tries=2)
    plan = plan_of(units()[:3], suites={"tables": SUITE}, policy=policy)
    leg = start_shard(project, plan).wait(10)
    record = leg.record()
    assert [line.units for line in record.processes] == [3, 3]
    assert len(record.results) == 7 + 7
    assert sum(leg.end().counts.values()) == 7, "each case counts once, by its last try"


def test_conditions_of_the_plan_are_in_the_shard_line(project: Path) -> None:
    policy = LegPolicy(guard_rail="off", conditions=("XLA_COMMIT", "FROM_POOL", "ABSENT"))
    plan = plan_of(units()[:1], suites={"tables": SUITE}, policy=policy)
    leg = start_shard(project, plan, XLA_COMMIT="a1b2").wait(0)
    assert leg.record().identity.conditions == {"XLA_COMMIT": "a1b2", "FROM_POOL": "yes"}


def test_multiline_id_is_rejected(project: Path) -> None:
    plan = plan_of([PlannedUnit("two\nlines", suite="tables")], suites={"tables": SUITE})
    leg = start_shard(project, plan).wait(3)
    assert r"the id two\nlines has a line feed" in leg.printed
    assert not leg.record_folder.exists()


def test_any_command_is_measured_as_one_unit(tmp_path: Path) -> None:
    code = "import time; kept = b'x' * (80 << 20); time.sleep(0.3); print('a  b')"
    leg = start(tmp_path, "--record", "record", "--", sys.executable, "-c", code).wait(0)
    assert "a  b\n" in leg.printed
    (result,) = leg.record().results
    assert shlex.split(result.unit) == [sys.executable, "-c", code]
    assert result.outcome == "passed"
    assert (result.wall_s or 0) >= 0.3
    assert 80 << 20 < (result.peak_bytes or 0) < 160 << 20
    assert result.measured_by in {"mark", "window"}
    assert result.cpu_s is not None
    assert [line.cpu_s for line in leg.record().process_ends] == [result.cpu_s]
    assert [line.unit for line in leg.record().starts] == [result.unit]


HOLD = "import sys; kept = b'x' * (int(sys.argv[1]) << 20); print(flush=True); sys.stdin.read()"
# The first alone, both, the second alone, however long a busy machine needs to give them memory.
PIPELINE = """\
import subprocess, sys, time
def hold(*words):
    held = subprocess.Popen([sys.executable, *words], stdin=-1, stdout=-1)
    held.stdout.readline()
    time.sleep(1)
    return held
first = hold("first.py", "200")
second = hold("second.py", "300")
first.communicate()
time.sleep(1)
second.communicate()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="named processes: Linux only")
def test_command_ends_with_the_programs_that_overlap_at_its_peak(tmp_path: Path) -> None:
    for name, code in (("first", HOLD), ("second", HOLD), ("all", PIPELINE)):
        (tmp_path / f"{name}.py").write_text(code)
    leg = start(tmp_path, "--record", "record", "--", "sh", "-c", f"{sys.executable} all.py; :")
    *_, ended, first, second, machine = leg.wait(0).printed.splitlines()
    assert ended.startswith("command: 1 passed in ")
    assert "--- process 1: the command\n" in leg.printed
    assert "test" not in leg.printed.replace(str(tmp_path), "")
    programs = r"second\.py 3\d\d MiB \+ first\.py 2\d\d MiB \+ all\.py [\d.]+ MiB"
    peak = rf"  peak 5\d\d MiB: {programs}; one at a time: 3\d\d MiB"
    assert re.fullmatch(peak, f"{first} {second.strip()}")
    cpu_and_more = r"  CPU \d+ % of \d+ cores?(, swap \+\S+ \w+)?(, waited \S+ s for memory)?"
    assert re.fullmatch(cpu_and_more, machine)
    assert max(map(len, (ended, first, second, machine))) <= 80


def test_command_gets_the_environment_of_the_leg(tmp_path: Path) -> None:
    code = "import json, os, sys; json.dump(dict(os.environ), sys.stdout)"
    alone = [sys.executable, "-c", code]
    environ = {"LC_ALL": "C.UTF-8", "OWN": "b\u00fccher"}
    start(tmp_path, "--record", "record", "--", *alone, **environ).wait(0)
    inside = json.loads((tmp_path / "record" / "process-001.log").read_text())
    reported = {name: value for name, value in inside.items() if not name.startswith("CIGUARD_")}
    assert reported.pop(MARK)
    assert reported == clean_environ(**environ)


@pytest.mark.parametrize(
    ("redirected", "read"), [("<words", "got [hello]"), ("</dev/null", "got []"), ("<&-", "got []")]
)
def test_command_inherits_stdin_of_the_leg(tmp_path: Path, redirected: str, read: str) -> None:
    (tmp_path / "words").write_text("hello\n")
    requests = 'read word; echo "got [$word]"'
    words = shlex.join([*LEG, "--record", "record", "--", "sh", "-c", requests])
    subprocess.run(
        ["sh", "-c", f"{words} {redirected}"],
        cwd=tmp_path,
        env=clean_environ(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert (tmp_path / "record" / "process-001.log").read_text() == f"{read}\n"


def test_stdin_of_tests_is_empty(tmp_path: Path) -> None:
    (tmp_path / "test_reads.py").write_text(
        "import os\ndef test_reads(): assert os.read(0, 10) == b''\n"
    )
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(plan_of(["test_reads.py::test_reads"])))
    words = [*LEG, "--plan", "plan.json", "--shard", "01", "--record", "record"]
    environ = clean_environ()
    done = subprocess.run(words, cwd=tmp_path, env=environ, input=b"hello\n", check=False)
    assert done.returncode == 0


def test_command_may_add_metrics(tmp_path: Path) -> None:
    line = '{"type":"metric","name":"loss","value":0.5,"key":{"steps":"4"}}'
    stray = '{"type":"result","unit":"somebody else","outcome":"passed"}'
    script = 'printf "%s\\n%s\\n" "$0" "$1" >> "$CIGUARD_RECORD_FILE"'
    leg = start(tmp_path, "--record", "record", "--", "sh", "-c", script, line, stray).wait(0)
    record = leg.record()
    assert record.damage == ()
    assert record.metrics == (MetricLine("loss", 0.5, key={"steps": "4"}, process=1),)
    assert [one.outcome for one in record.results if one.unit == record.starts[0].unit] == [
        "passed"
    ]


def test_a_metric_that_is_no_number_fails_nothing(tmp_path: Path) -> None:
    line = '{"type":"metric","name":"hit_rate","value":NaN}'
    script = 'echo "$0" >> "$CIGUARD_RECORD_FILE"'
    leg = start(tmp_path, "--record", "record", "--", "sh", "-c", script, line).wait(0)
    assert "cannot be read" not in leg.said
    record = leg.record()
    assert (record.damage, record.metrics) == ((), ())
    assert [one.kind for one in record.events] == ["unreadable_metric"]


def test_failed_command_exits_10(tmp_path: Path) -> None:
    leg = start(tmp_path, "--record", "record", "--", "sh", "-c", "exit 4").wait(10)
    (result,) = leg.record().results
    assert (result.outcome, result.message) == ("failed", "exit code 4")


@pytest.mark.parametrize("text", ["kill -9 $$", "sh -c 'kill -9 $$'; exit $?"])
def test_killed_command_died(tmp_path: Path, text: str) -> None:
    leg = start(tmp_path, "--record", "record", "--", "sh", "-c", text).wait(10)
    (result,) = leg.record().results
    assert [end.ending for end in leg.record().process_ends] == ["crash"]
    assert (result.outcome, result.ending) == ("died", "crash")
    assert "SIGKILL" in (result.message or "")


def test_non_executable_file_is_an_error_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"\0\1\2")
    (tmp_path / "data").chmod(0o755)
    leg = start(tmp_path, "--record", "record", "--", "./data").wait(2)
    assert leg.printed.count("./data: Exec format error") == 1
    assert "begin a script with #!" in leg.printed
    assert not leg.record_folder.exists(), "the same words can be said again"


def test_command_time_excludes_leg_overhead(tmp_path: Path) -> None:
    """What the leg needs to start it is not in it."""
    code = "import time; start = time.monotonic(); time.sleep(0.2); print(time.monotonic() - start)"
    leg = start(tmp_path, "--record", "record", "--", sys.executable, "-S", "-c", code).wait(0)
    (result,) = leg.record().results
    (process_end,) = leg.record().process_ends
    own_s = float(leg.printed.split("\n")[1])
    assert own_s <= (result.wall_s or 0) <= (process_end.at_s or 0)
