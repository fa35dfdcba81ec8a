"""The real command: what it finds, what the words of --fail-on come to, and what it ends with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from compare.compare_factories import case, died, files_of, run_of
from compare.past_runs import Past, factor
from compare.samples import base_legs, head_legs
from compare.test_leaks import growing
from compare.test_legs import on_gpu
from compare.test_suite_speed import BASES, paced
from conftest import Ciguard

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import DEATHS, Comparison, exit_code, triggered
from ciguard.model import FAIL_CONDITIONS, Ending, Result


def write(folder: Path, name: str, legs: Mapping[str, list[Result]], **facts: Any) -> str:
    for path, content in files_of(legs, **facts).items():
        target = folder / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return name


@pytest.fixture
def place(tmp_path: Path, ciguard: Ciguard) -> Path:
    """Folders `base` and `head`, and a history of runs 1 to 12 in `history`."""
    write(tmp_path, "base", base_legs())
    write(tmp_path, "head", head_legs(), run_id=9)
    for n in range(1, 13):
        at = f"2026-11-{n:02}T10:00:00Z"
        legs = {"01": [case("a", 1.0 + n / 1000, 100 + n / 100)]}
        write(tmp_path, "past", legs, run_id=n, started_at=at, event="push")
    ciguard("history", "add", "past", "--history", "history", cwd=tmp_path)
    return tmp_path


def test_compare_two_folders(ciguard: Ciguard, place: Path) -> None:
    done = ciguard("compare", "base", "head", cwd=place)
    assert done.stdout.startswith(
        "INCOMPLETE: no record of shard 03; 2 tests of the base without a "
    )
    assert "no verdict  100 MiB  160 MiB  +60 % (n=1)  01\n" in done.stdout
    assert not done.stderr


def test_duplicate_record_is_a_warning(ciguard: Ciguard, place: Path) -> None:
    write(place, "both/one", {"01": [case("a", 1.0)]}, started_at="2026-11-20T10:00:00Z")
    write(place, "both/two", {"01": [case("a", 2.0)]}, started_at="2026-11-20T11:00:00Z")
    done = ciguard("compare", "base", "both", cwd=place)
    assert done.stdout.startswith("INCOMPLETE: shard 01: record damaged, or no test executed; ")
    (warning,) = done.stderr.splitlines()
    assert warning.startswith(
        "warning: both: one/1-1/01/supervisor.jsonl: 2 shard lines that differ"
    )


def test_a_quarantined_failure_is_excused_and_shown(ciguard: Ciguard, tmp_path: Path) -> None:
    write(tmp_path, "base", {"01": [case("a.py::x"), case("b.py::y")]})
    write(tmp_path, "head", {"01": [case("a.py::x", outcome="failed"), case("b.py::y")]}, run_id=9)
    words = ("compare", "base", "head", "--fail-on", "new-failure")
    assert ciguard(*words, cwd=tmp_path, expect=10).stdout.startswith("WORSE: 1 newly failing")
    until = datetime.now(UTC).date() + timedelta(days=20)
    (tmp_path / "quarantine.toml").write_text(
        f'[[quarantine]]\nunit = "a.py::*"\nreason = "late mail"\nissue = 4711\nuntil = {until}\n'
    )
    done = ciguard(*words, cwd=tmp_path)
    assert done.stdout.startswith("INCONCLUSIVE: 1 quarantined\n")
    shown = f"before passed, after failed; late mail (#4711, until {until}), shard 01"
    assert shown in " ".join(done.stdout.split())
    found = json.loads(ciguard(*words, "--format", "json", cwd=tmp_path).stdout)
    (one,) = found["transitions"]
    assert one["kind"] == "quarantined"
    assert one["excuse"] == f"late mail (#4711, until {until})"


JUNIT = '<testsuite><testcase classname="m" name="{}" time="1"/>'


def test_truncated_or_invalid_result_files_are_incomplete(ciguard: Ciguard, tmp_path: Path) -> None:
    complete = JUNIT.format("a") + JUNIT.format("b").partition(">")[2] + "</testsuite>"
    (tmp_path / "base.xml").write_text(complete)
    (tmp_path / "cut.xml").write_text(JUNIT.format("a"))
    done = ciguard("compare", "base.xml", "cut.xml", cwd=tmp_path)
    assert done.stdout.startswith(
        "INCOMPLETE: the only shard: results truncated; 1 test of the base without a"
    )
    assert "1 test of the base without a result: removed, or lost with the only shard" in (
        done.stdout
    )
    assert done.stderr.startswith("warning: cut.xml:1")
    (tmp_path / "page.html").write_text("<html></html>")
    (tmp_path / "empty.xml").write_text("")
    for name, output in (
        ("page.html", "page.html: no format of results"),
        ("empty.xml", "empty.xml: empty"),
    ):
        done = ciguard("compare", "base.xml", name, cwd=tmp_path, expect=3)
        assert f"ciguard compare: {output}" in done.stderr
        assert (
            "fix: name a folder of records, or result files such as JUnit XML or TRX" in done.stderr
        )


def test_file_of_a_supervisor_stands_for_its_record(ciguard: Ciguard, tmp_path: Path) -> None:
    """As a leg writes it: the results are in the files of its processes."""
    write(tmp_path, "records", {"01": [case("a"), case("b")]}, run_id=None, run_attempt=None)
    (own,) = (tmp_path / "records").rglob("*.jsonl")
    lines = own.read_bytes().splitlines(keepends=True)
    results = [line for line in lines if line.startswith(b'{"type":"result"')]
    own.write_bytes(b"".join(line for line in lines if line not in results))
    defaults = (
        b'{"type":"defaults","plan_id":"p","shard":"01","suite":"","variant":"","process":1}\n'
    )
    (own.parent / "process-001.jsonl").write_bytes(b"".join([defaults, *results]))
    shown = ciguard("compare", own.name, ".", cwd=own.parent).stdout
    assert shown.count(", 2 tests\n") == 2


def test_two_wrapped_commands_are_not_compared_with_runs_of_other_tests(
    ciguard: Ciguard, place: Path
) -> None:
    for name in ("n1", "n2"):
        ciguard("run", "--record", name, "--", "true", cwd=place)
    shown = ciguard("compare", "n1", "n2", "--history", "history", cwd=place).stdout
    assert "baseline   1 run: given as the base\nnot used   12 runs: of other tests\n" in shown


def test_output_option_writes_a_file(ciguard: Ciguard, place: Path) -> None:
    done = ciguard("compare", "base", "head", "--format", "json", "-o", "x/out.json", cwd=place)
    found = json.loads((place / "x" / "out.json").read_bytes())
    assert found["state"] == "incomplete"
    assert done.stdout.replace("\n", " ") == f"{found['headline']} "
    done = ciguard("compare", "base", "head", "--format", "json", "-o", "-", cwd=place)
    assert json.loads(done.stdout) == found


def test_compare_folder_with_history(ciguard: Ciguard, place: Path) -> None:
    legs = {"01": [case("a", 1.0, 160)]}
    write(place, "now", legs, run_id=20, started_at="2026-11-20T10:00:00Z", branch="topic")
    done = ciguard("compare", "12", "now", "--history", "history", cwd=place)
    assert done.stdout.startswith("SUSPECT: peak memory: nothing confirmed, 1 suspect (1 test")
    assert "suspect  100 MiB  160 MiB  +60 % (n=12, 95 % CI +" in done.stdout
    assert "baseline   12 runs" in done.stdout
    write(place, "now", legs, run_id=21, started_at="2026-11-21T10:00:00Z", branch="topic")
    words = ("compare", "12", "now", "--history", "history", "--fail-on", "memory")
    done = ciguard(*words, cwd=place, expect=11)
    assert "confirmed  100 MiB  160 MiB" in done.stdout


def test_base_and_branch_names_select_history_runs(ciguard: Ciguard, place: Path) -> None:
    (place / "base").rename(place / "old")  # a folder of this name would be what is meant
    legs = {"01": [case("a", 1.0, 160)]}
    write(place, "now", legs, run_id=20, started_at="2026-11-20T10:00:00Z", branch="topic")
    by_id = ciguard("compare", "12", "now", "--history", "history", cwd=place).stdout
    by_rule = ciguard("compare", "base", "now", "--history", "history", cwd=place).stdout
    assert by_rule == by_id
    by_branch = ciguard("compare", "branch:main", "now", "--history", "history", cwd=place).stdout
    assert "base       branch:main, run 12 of the history" in by_branch
    missing = ciguard(
        *("compare", "branch:next", "now", "--history", "history"), cwd=place, expect=3
    )
    assert "the history has no earlier run of branch next" in missing.stderr
    assert "fix: it has runs of main" in missing.stderr


def test_unused_runs_are_listed_with_a_reason(ciguard: Ciguard, place: Path) -> None:
    (place / "base").rename(place / "old")
    early = {"01": [case("a", 1.0, 160)]}
    write(place, "now", early, run_id=20, started_at="2026-11-10T11:00:00Z", branch="topic")
    output = ciguard("compare", "base", "now", "--history", "history", cwd=place).stdout
    assert "baseline   10 runs: before the candidate, by date\n" in output
    assert "not used   2 runs: not before the candidate\n" in output


def test_the_configured_history_is_the_default(ciguard: Ciguard, place: Path) -> None:
    by_flag = ciguard("compare", "3", "12/1", "--history", "history", cwd=place).stdout
    assert by_flag.startswith("NO SIGNIFICANT DIFFERENCE: ")
    assert "candidate  run 12 of the history, main, 1 test" in by_flag
    reported = ciguard("compare", "3", "12", cwd=place, expect=2)
    assert "neither is there" in reported.stderr  # nobody configured one
    of_environ = ciguard("compare", "3", "12", cwd=place, CIGUARD_HISTORY_STORE="history")
    assert of_environ.stdout == by_flag
    (place / "pyproject.toml").write_text("[tool.other]\n")
    assert "note: " not in ciguard("compare", "base", "head", cwd=place).stderr
    (place / "pyproject.toml").write_text('[tool.ciguard.history]\nstore = "history"\n')
    # A configuration has prices, too: those of GitHub's own runners, where it says nothing else.
    by_flag = by_flag.replace("1 minute", "1 minute (0.006 USD)")
    done = ciguard("compare", "3", "12", cwd=place)
    assert done.stdout.split() == by_flag.split()  # a longer line is broken elsewhere
    (place / "ciguard.toml").write_text('[history]\nstore = "history"\n')
    done = ciguard("compare", "3", "12", cwd=place)
    assert (done.stdout.split(), done.stderr) == (by_flag.split(), "")
    other = ciguard("compare", "3", "12", "--history", "none", cwd=place, expect=2)
    assert "none: there is no history yet" in other.stderr


UNUSABLE = [
    ("", "there is no history at branch:ciguard-history yet"),  # the folder is in no repository
    ('[history]\nstore = "nosuch"\n', "there is no history at nosuch yet"),
    ('[history]\nstore = "head"\n', "cannot be used"),  # a folder
    ('[history]\nstore = "damaged"\n', "cannot be used"),
]


@pytest.mark.parametrize(("text", "why"), UNUSABLE)
def test_unavailable_configured_history_is_a_note(
    ciguard: Ciguard, place: Path, text: str, why: str
) -> None:
    alone = ciguard("compare", "base", "head", cwd=place).stdout
    (place / "damaged").write_bytes(b"ciguard history")
    (place / "ciguard.toml").write_text(text)
    done = ciguard("compare", "base", "head", cwd=place)
    assert done.stderr.startswith("note: ")
    assert why in done.stderr
    assert done.stdout.splitlines()[0] == alone.splitlines()[0]


def test_folder_already_in_the_history_is_counted_once(ciguard: Ciguard, tmp_path: Path) -> None:
    """Legs run by hand have no run id: only `history add` was told one."""
    by_hand: dict[str, Any] = {"run_id": None, "run_attempt": None, "branch": None}
    for n in (1, 2, 3):
        at = f"2026-11-{n:02}T10:00:00Z"
        legs = {"01": [case("a", 1 + n / 1000, 100)]}
        write(tmp_path, f"run{n}", legs, started_at=at, wall_s=10 + n / 1000, **by_hand)
    for n in (1, 2):
        words = ("history", "add", f"run{n}", "--history", "h", "--run-id", str(n))
        ciguard(*words, cwd=tmp_path)
    by_folder = ciguard("compare", "run2", "run3", "--history", "h", cwd=tmp_path).stdout
    by_id = ciguard("compare", "2", "run3", "--history", "h", cwd=tmp_path).stdout
    assert "base       run2, run 2 of the history, 1 test" in by_folder
    assert "baseline   2 runs: before the candidate, by date\n" in by_folder
    assert by_folder.replace("run2, run 2", "run 2") == by_id
    itself = ciguard("compare", "1", "run2", "--history", "h", cwd=tmp_path).stdout
    assert "candidate  run2, run 2 of the history, 1 test" in itself
    assert "baseline   1 run: before the candidate, by date\n" in itself


def test_missing_history_is_a_warning_and_no_baseline(ciguard: Ciguard, place: Path) -> None:
    done = ciguard("compare", "base", "head", "--history", "nosuch", cwd=place)
    assert done.stderr == "warning: nosuch: there is no history yet\n"
    assert "baseline   1 run: given as the base\n" in done.stdout


def test_values_of_an_unfinished_leg_are_not_called_unmeasured(
    ciguard: Ciguard, place: Path
) -> None:
    legs = {"01": [case("a", 1.0, 100), case("b", 2.0)]}
    write(place, "cut", legs, ending=None)
    write(place, "whole", legs, run_id=9)
    output = ciguard("compare", "cut", "whole", cwd=place).stdout
    assert "measured in both" not in output
    assert output.startswith(
        "INCONCLUSIVE: no number is judged: each shard that measured it is incomplete\n"
    )
    assert "3.00 s (2 tests that passed in both runs) -> 3.00 s" in output


def test_unknown_run_error_lists_available_runs(ciguard: Ciguard, place: Path) -> None:
    for count, fix in ((1, "fix: its newest runs: 1\n"), (2, "fix: its newest runs: 1, 2\n")):
        write(place, "few", {"01": [case("a")]}, run_id=count)
        ciguard("history", "add", "few", "--history", "few-runs", cwd=place)
        words = ("compare", "base", "77", "--history", "few-runs")
        assert fix in ciguard(*words, cwd=place, expect=3).stderr


ERRORS = [
    (("12", "head"), 2, "a run id needs a history or GitHub"),
    (("77", "head", "--history", "history"), 3, "its newest runs: 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"),
    (("12/3", "head", "--history", "history"), 3, "ask for 12/1"),
    (("nowhere", "head"), 3, "nowhere"),
    (("empty", "head"), 3, "no record and no result file is there"),
    (("base",), 2, "HEAD"),
    (("base", "head", "--format", "pdf"), 2, "pdf"),
    (("base", "head", "--fail-on", "oom,weather"), 2, "no such finding: weather"),
    (("base", "head", "--fail-on", "x"), 2, "there are new-failure, timeout, oom, memory"),
]


@pytest.mark.parametrize(("words", "code", "output"), ERRORS)
def test_usage_errors(
    ciguard: Ciguard, place: Path, words: tuple[str, ...], code: int, output: str
) -> None:
    (place / "empty").mkdir()
    done = ciguard("compare", *words, cwd=place, expect=code)
    assert output in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


CODES = [
    ((), 0),
    (("--fail-on", "duration,memory"), 0),
    (("--fail-on", "new-failure"), 10),
    (("--fail-on", "timeout"), 10),
    (("--fail-on", "oom"), 0),
    (("--fail-on", "timeout,incomplete"), 13),
    (("--strict",), 12),
    (("--strict", "--fail-on", "timeout"), 10),
]


@pytest.mark.parametrize(("words", "code"), CODES)
def test_exit_codes(ciguard: Ciguard, place: Path, words: tuple[str, ...], code: int) -> None:
    ciguard("compare", "base", "head", *words, cwd=place, expect=code)


@pytest.mark.parametrize("ending", DEATHS)
def test_nothing_is_better_or_the_same_above_deaths_that_were_there_before(
    ciguard: Ciguard, place: Path, ending: Ending
) -> None:
    """`a` passes in both runs, or is fixed; shard 02 is the same in both."""
    past: dict[str, Any] = {"branch": "main", "event": "push", "wall_s": 5.0}

    def headline(outcome: str, last: Result, **facts: Any) -> str:
        for name, run_id, how in (("before", 13, outcome), ("after", 20, "passed")):
            legs = {"01": [case("a", 1.0, 100, outcome=how)], "02": [last]}
            at = f"2026-11-{run_id}T10:00:00Z"
            write(place, name, legs, run_id=run_id, started_at=at, **past, **facts)
        words = ("compare", "before", "after", "--history", "history", "--format", "json")
        return str(json.loads(ciguard(*words, cwd=place).stdout)["headline"])

    dead, still = died("b", ending), f"1 failing in both runs ({ending.replace('_', ' ')}); "
    assert headline("passed", case("b")).startswith("NO SIGNIFICANT DIFFERENCE: ")
    assert headline("passed", dead).startswith(f"INCONCLUSIVE: {still}")
    assert headline("failed", case("b")).startswith("BETTER: 1 fixed; ")
    assert headline("failed", dead).startswith(f"INCONCLUSIVE: 1 fixed; {still}")
    if ending != "timeout":  # by which no shard ends
        killed = headline("failed", dead, ending=ending)
        assert killed.startswith(
            f"INCOMPLETE: shards 01, 02: {ending.replace('_', ' ')}; 1 fixed; "
        )


ALL = frozenset(FAIL_CONDITIONS)


def outcome(result: Any, **facts: Any) -> Comparison:
    base = run_of({"01": [case("a"), case("b")]})
    return compare_run(run_of({"01": [result, case("b")]}, run_id=2, **facts), None, [base])


def confirmed(measure: str) -> Comparison:
    past = Past(12)
    hurt = {measure: factor(50, 1.6)}
    return compare_run(past.run(99, **hurt), None, past.bases, previous=past.run(98, **hurt))


def leaking() -> Comparison:
    bases = [growing(0.01, n) for n in range(1, 13)]
    return compare_run(growing(2.0, 20), None, bases, previous=growing(2.1, 19))


def slower() -> Comparison:
    return compare_run(paced(20, 1.15, 1.0, 20), None, BASES, previous=paced(19, 1.15, 1.0, 19))


def grown(**more: Any) -> Comparison:
    bases = [on_gpu(n) for n in range(1, 13)]
    return compare_run(on_gpu(20, **more), None, bases, previous=on_gpu(19, **more))


FOUND = [
    (grown(gpu_mib={"0": 1000, "1": 53_248}), "gpu-memory", 11),
    (grown(swap_mib=13_000), "swap", 11),
    (outcome(case("a", outcome="failed")), "new-failure", 10),
    (outcome(died("a", "crash")), "new-failure", 10),
    (outcome(died("a", "timeout")), "timeout", 10),
    (outcome(died("a", "out_of_memory")), "oom", 10),
    (outcome(died("a", "memory_guard")), "oom", 10),
    (outcome(died("new", "crash")), "new-failure", 10),
    (outcome(died("new", "timeout")), "timeout", 10),
    (outcome(died("new", "memory_guard")), "oom", 10),
    (confirmed("peak"), "memory", 11),
    (confirmed("wall"), "duration", 11),
    (leaking(), "memory", 11),
    (slower(), "duration", 11),
    (outcome(case("a"), ending="cancelled"), "incomplete", 13),
]


@pytest.mark.parametrize(("comparison", "word", "code"), FOUND)
def test_each_fail_condition_has_an_exit_code_and_is_off_by_default(
    comparison: Comparison, word: str, code: int
) -> None:
    assert triggered(comparison, ALL) == (word,)
    assert exit_code(comparison, {word}) == code
    assert exit_code(comparison, ALL - {word}) == 0
    assert exit_code(comparison, ()) == 0


def test_leg_timeout_and_oom_trigger_their_conditions() -> None:
    assert triggered(outcome(case("a"), ending="deadline"), {"timeout"}) == ("timeout",)
    assert triggered(outcome(case("a"), ending="out_of_memory"), {"oom"}) == ("oom",)


def test_incomplete_outranks_failed_outranks_regressed_outranks_inconclusive() -> None:
    worse = outcome(case("a", outcome="failed"), ending="cancelled")
    assert exit_code(worse, ALL, strict=True) == 13
    assert exit_code(worse, ALL - {"incomplete"}, strict=True) == 10
    assert exit_code(worse, (), strict=True) == 12
    assert exit_code(confirmed("peak"), ALL, strict=True) == 11


def test_strict_passes_if_everything_was_judged() -> None:
    past = Past(12)
    assert exit_code(compare_run(past.run(99), None, past.bases), ALL, strict=True) == 0


def test_leak_or_slower_suite_in_one_run_triggers_no_condition() -> None:
    bases = [growing(0.01, n) for n in range(1, 13)]
    assert not triggered(compare_run(growing(2.0, 20), None, bases), ALL)
    assert not triggered(compare_run(paced(20, 1.15, 1.0, 20), None, BASES), ALL)


def test_suspect_triggers_no_condition() -> None:
    past = Past(12)
    found = compare_run(past.run(99, peak=factor(50, 1.6)), None, past.bases)
    assert found.memory.losses
    assert exit_code(found, ALL, strict=True) == 0
