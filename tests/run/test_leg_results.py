"""Result files of real programs: which are copied, under which names, and what they come to."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard, call_in_process
from run.leg_runner import plan_of, start, until

from ciguard.codec import plan_file as plan_codec
from ciguard.errors import InputError
from ciguard.model import PlannedUnit, Suite
from ciguard.sources.local import read_record_tree

WRITES = """
import os, pathlib, sys, time
def cases(*names, bad=()):
    rows = [f'<testcase classname="c" name="{n}" time="0.1">{"<failure/>" * (n in bad)}</testcase>'
            for n in names]
    return "<testsuite>" + "".join(rows) + "</testsuite>"
out = pathlib.Path("out/deep")
out.mkdir(parents=True, exist_ok=True)
"""


def copies(record: Path) -> list[str]:
    return sorted(
        path.relative_to(record / "results").as_posix()
        for path in (record / "results").rglob("*")
        if path.is_file()
    )


def test_result_files_of_a_failed_command_are_copied(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.xml").write_text("<testsuite/>")
    (tmp_path / "secret.xml").write_text("<testsuite/>")
    (tmp_path / "run.py").write_text(
        WRITES
        + """
(out / "a:b?.xml").write_text(cases("one", "two", bad=["two"]))
(out / ".x.jsonl").write_text(cases("three"))
os.symlink("../../secret.xml", out / "link.xml")
os.symlink("../..", out / "up")
os.mkfifo(out / "pipe.xml")
sys.exit(1)
"""
    )
    words = ("--record", "record", "--results", "out/**/*.xml", "--results", "out/deep/.*.jsonl")
    leg = start(tmp_path, *words, "--", sys.executable, "run.py").wait(10)
    assert copies(leg.record_folder) == [
        "process-001/out/deep/%2Ex.json%6C",
        "process-001/out/deep/a%3Ab%3F.xml",
    ]
    record = leg.record()
    assert record.damage == ()
    (unit,) = {result.unit for result in record.results}
    outcomes = {result.case: result.outcome for result in record.results}
    expected = {"c::one": "passed", "c::two": "failed", "c::three": "passed"}
    assert outcomes == {unit: "failed", **expected}
    copy = leg.record_folder / "results" / copies(leg.record_folder)[1]
    copy.unlink()
    copy.symlink_to(tmp_path / "secret.xml")
    with pytest.raises(InputError, match="a link"):
        leg.record()


@pytest.mark.parametrize(
    ("writes", "output"),
    [
        ('(out / "a.xml").write_text(cases("one", bad=["one"]))', "; 1 result file in the record"),
        ("", "; no file that matches --results was written"),
    ],
    ids=["one", "none"],
)
def test_summary_counts_result_files_of_a_successful_command(
    tmp_path: Path, writes: str, output: str
) -> None:
    (tmp_path / "run.py").write_text(f"{WRITES}\n{writes}\n")
    words = ("--record", "record", "--results", "out/**/*.xml", "--", sys.executable, "run.py")
    leg = start(tmp_path, *words).wait(0)
    (line,) = (line for line in leg.printed.splitlines() if line.startswith("command: 1 passed in"))
    assert output in line


def test_result_files_of_a_killed_command_are_copied_as_incomplete(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(
        WRITES
        + """
(out / "whole.xml").write_text(cases("one"))
(out / "cut.xml").write_text(cases("two", "three")[:-30])
(out / "ready").touch()
time.sleep(600)
"""
    )
    words = ("--record", "record", "--results", "out/**")
    leg = start(tmp_path, *words, "--", sys.executable, "run.py")
    try:
        until((tmp_path / "out/deep/ready").exists, what="the files are written")
        leg.process.send_signal(signal.SIGTERM)
        leg.wait(143)
    finally:
        leg.process.kill()
        leg.process.communicate()
    record = leg.record()
    assert {one.case for one in record.results if one.classname} == {"c::one", "c::two"}
    damage = "\n".join(record.damage)
    assert "results/process-001/out/deep/cut.xml:1:" in damage
    assert "malformed XML" in damage


SUITE = (
    WRITES
    + """
units = open(os.environ["CIGUARD_UNITS_FILE"]).read().split()
with open("ran", "a") as stream:
    print(*units, file=stream)
told = [unit for unit in units if unit != "silent"]
(out / "junit.xml").write_text(cases(*told, bad=["b"]))
sys.exit(1 if "b" in units else 0)
"""
)


def lay_out(folder: Path, *units: str, results: tuple[str, ...] = ("out/**/*.xml",)) -> None:
    (folder / "suite.py").write_text(SUITE.replace('classname="c" name="{n}"', 'name="{n}"'))
    suite = Suite("command", (sys.executable, "suite.py"), results=results)
    plan = plan_of([PlannedUnit(unit) for unit in units], suites={"": suite})
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))


def guard(folder: Path) -> tuple[int, dict[str, Any]]:
    answer = call_in_process(
        "guard", "--plan", "plan.json", "--records", "records", "--format", "json", cwd=folder
    )
    assert answer.stdout, answer.stderr
    return answer.returncode, json.loads(answer.stdout)


def test_suite_may_report_results_in_files_only(tmp_path: Path) -> None:
    lay_out(tmp_path, "a")
    words = f"{sys.executable!r}, 'suite.py'"
    (tmp_path / "ciguard.toml").write_text(
        "[suite.main]\nframework = 'command'\nresults = ['out/**/*.xml']\n"
        f"list = ['printf', 'a\\nb\\nc\\n']\ncommand = [{words}]\n"
    )
    planned = call_in_process(
        "plan", "--shards", "1", "--history", "none", "-o", "plan.json", cwd=tmp_path
    )
    assert planned.returncode == 0, planned.stderr
    shard = ("--plan", "plan.json", "--shard", "01")
    leg = start(tmp_path, *shard, "--record", "records/1").wait(10)
    assert "results of 3 tests are in files, which the report reads" in leg.printed
    assert "process 1: completed (exit code 1: see its result files) after" in leg.printed
    code, verdict = guard(tmp_path)
    assert (code, verdict["findings"]) == (10, [])
    assert verdict["counts"] == {"passed": 2, "failed": 1}
    # A step that goes on has nothing to do, stays red, and takes the files along.
    rerun = start(tmp_path, *shard, "--record", "records/2", "--resume-from", "records").wait(10)
    assert "resumed: 3 of 3 tests ended before" in rerun.printed
    assert (tmp_path / "ran").read_text() == "a b c\n"
    (tmp_path / "records" / "1").rename(tmp_path / "first")
    assert guard(tmp_path)[1]["counts"] == {"passed": 2, "failed": 1}
    (record,) = read_record_tree(tmp_path / "records")
    assert len(record.results) == 3


def test_step_may_name_the_result_files_of_its_script(tmp_path: Path) -> None:
    lay_out(tmp_path, "a", "b", results=("elsewhere/*.xml",))
    (tmp_path / "step.sh").write_text(f"'{sys.executable}' suite.py\n")
    output = tmp_path / "output"
    words = ("--plan", "plan.json", "--shard", "01", "--record", "records/1", "--github")
    script = ("--script", "step.sh", "--results", "out/**/*.xml", "--results", "more/*.xml")
    start(tmp_path, *words, *script, GITHUB_OUTPUT=str(output)).wait(10)
    assert output.read_text() == "state=ended\nexecuted=\nfailed=\nflaky=\n"
    code, verdict = guard(tmp_path)
    assert (code, verdict["counts"]) == (10, {"passed": 1, "failed": 1})


def test_unit_in_no_result_file_is_missing(tmp_path: Path) -> None:
    lay_out(tmp_path, "a", "silent")
    words = ("--plan", "plan.json", "--shard", "01", "--record", "records/1")
    start(tmp_path, *words).wait(0)
    code, verdict = guard(tmp_path)
    assert code == 13
    (missing,) = verdict["missing"]
    assert missing["unit"] == "silent"
    assert missing["reason"]["facts"]["detail"] == "its result is in a file, or there is none"


@pytest.mark.parametrize(
    ("writes", "is_older"),
    [
        ("write(now)", False),
        ("write(now.isoformat())", False),
        ("write('2020-01-01T00:00:00')", True),  # as Gradle restores it: written now
        ("write(now - datetime.timedelta(hours=1))", True),
        ("write(now); os.utime('out/a.xml', (1e9, 1e9))", True),  # as tar restores it
    ],
)
def test_file_older_than_its_job_is_named(
    tmp_path: Path, ciguard: Ciguard, writes: str, is_older: bool
) -> None:
    (tmp_path / "run.py").write_text(f"""
import datetime, os, pathlib
now = datetime.datetime.now().astimezone()
def write(at):
    case = '<testcase classname="c" name="one"/>'
    text = f'<testsuite timestamp="{{at}}">{{case}}</testsuite>'
    pathlib.Path("out/a.xml").write_text(text)
os.mkdir("out")
{writes}
""")
    config = f"""
[suite.s]
framework = "command"
list = ["echo", "c::one"]
command = ["{sys.executable}", "run.py"]
results = ["out/*.xml"]
[policy]
guard_rail = "off"
"""
    (tmp_path / "ciguard.toml").write_text(config)
    ciguard("plan", "-o", "plan.json", cwd=tmp_path)
    ciguard("run", "--plan", "plan.json", "--shard", "01", "--record", "record", cwd=tmp_path)
    words = ("guard", "--plan", "plan.json", "--records", "record")
    named = "1 result file of tests that ran before this job: out/a.xml"
    done = ciguard(*words, cwd=tmp_path)
    assert (named in " ".join(done.stdout.split())) == is_older, done.stdout
    (tmp_path / "ciguard.toml").write_text(config + '[guard]\ncached_results = "fail"\n')
    ciguard(*words, cwd=tmp_path, expect=13 if is_older else 0)
