"""Entries that the report of the base proposes: by which past runs, and as safe TOML."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from codec.test_base_runs import ME, history, run
from guard.fixtures import World, make_leg, make_plan
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.quarantine import Entry, decode
from ciguard.config.suites import HOSTED
from ciguard.document import Listing
from ciguard.model import CaseKey, ProcessEndLine, Runner, SampleLine
from ciguard.render.formats import as_format
from ciguard.report.quarantine_proposals import proposals_section, quoted

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Ciguard

    from ciguard.history.file import History

TODAY = date(2026, 11, 21)
RUNS = tuple(run(number) for number in range(1, 25))


def entry(unit: str) -> Entry:
    return Entry(unit=unit, reason="late", issue="7", until=TODAY)


def proposed(found: History, *entries: Entry) -> str:
    blocks = proposals_section(found, ME, entries, TODAY).blocks
    return "".join(block.text for block in blocks if isinstance(block, Listing))


def added(found: History, *entries: Entry) -> list[dict[str, object]]:
    return [*tomllib.loads(proposed(found, *entries)).get("quarantine", [])]


@pytest.mark.parametrize(
    ("letters", "rate"),
    [
        ("PPPPFPPPPPPPPPPPFPPP", "2 of 20"),
        ("FPPPPPPPPPPPPPPPPPPF", "2 of 20"),
        ("PPFFPPPDPPPPSPPPPPPP", "3 of 19"),
        ("....F.P.F....P......", "2 of 4"),
        ("PPPPFFFFFPPPPPPPPPPP", ""),
        ("PPPPPPPPPPPPPPPPPPFF", ""),
        ("FFFFFFFFFFFFFFFFFFFF", ""),
        ("FSSFSSFSSSSSSSSSSSSS", ""),
    ],
)
def test_unit_that_fails_and_passes_in_turns_is_proposed(letters: str, rate: str) -> None:
    """A bug that was fixed, a new one and a test that only fails are not flaky."""
    found = [block["reason"] for block in added(history({"t": letters}, RUNS))]
    assert found == [f"failed in {rate} runs of main"] * bool(rate)


def test_other_branches_and_quarantined_units_are_not_proposed() -> None:
    found = history({"a": "FPFP", "b": "FPFP", "c": "FPFPF", "x" * 600: "FPFPF"}, RUNS)
    assert [block["unit"] for block in added(found, entry("b*"))] == ["c", "a"]
    elsewhere = tuple(replace(each, branch="topic") for each in RUNS)
    assert added(replace(found, runs=elsewhere)) == []


def test_entry_whose_tests_passed_in_20_runs_is_to_be_removed() -> None:
    """A skip is no run, fewer runs prove nothing, and a pass in the second try is not steady."""
    entries = tuple(map(entry, ("a*", "few", "other")))
    found = history({"a1": "F" + "P" * 20, "a2": "PSPS" + "P" * 18, "few": "P" * 19}, RUNS)
    tries = np.ones(len(found.values), np.uint8)
    tries[5] = 2
    retried = replace(found, values=replace(found.values, try_number=tries))
    broken = history({"a1": "P" * 20, "a2": "PPF" + "P" * 17}, RUNS)
    text = '# remove the entry of "a*": passed in each of its last 20 runs'
    assert [proposed(each, *entries) for each in (found, retried)] == [text, ""]
    assert "remove" not in proposed(broken, *entries)


def test_proposed_entry_is_valid_once_its_issue_is_filled_in() -> None:
    found = history({"a": "FPFP", "b": "PPPP"}, RUNS)
    keys = (CaseKey("unit", "3.11", "t[x]", "t[x]"), CaseKey("unit", "3.12", "t[x]", "t[x]"))
    text = proposed(replace(found, keys=keys))
    (problem,) = decode(text.encode(), TODAY, is_base=True).problems
    assert "t[x] of unit/3.11: issue: expected the number of an issue" in problem
    filled = decode(text.replace('""', "4711").encode(), TODAY, is_base=True)
    assert filled.entries == (
        Entry(
            unit="t[x]",
            suite="unit",
            variant="3.11",
            issue="4711",
            reason="failed in 2 of 4 runs of main",
            until=TODAY + timedelta(days=30),
        ),
    )


@given(
    st.text(min_size=1, max_size=60) | st.text('`"\\\n\r\t[]#=~<&\u2028\u202e\x7f\0u', min_size=1)
)
def test_any_id_is_one_string_of_toml_within_the_fence(unit: str) -> None:
    section = proposals_section(history({unit: "FPFP"}, RUNS), ME, (), TODAY)
    assert [block["unit"] for block in added(history({unit: "FPFP"}, RUNS))] == [unit]
    assert tomllib.loads(f"x = {quoted(unit)}") == {"x": unit}
    fences = [line for line in as_format((section,), "markdown").splitlines() if "``" in line[:2]]
    assert fences == [f"{fences[-1]}toml", fences[-1]]


def test_report_of_the_base_alone_proposes(ciguard: Ciguard, tmp_path: Path) -> None:
    past = ("--history", tmp_path / "past")
    world = World(make_plan(pools={"default": HOSTED["ubuntu-latest-4-cores"]}))
    for number in range(1, 7):
        world.legs = {key: make_leg(world.plan, key, run=number) for key in world.legs}
        for leg in world.legs.values():
            leg.header = replace(leg.header, runner=Runner("default", 4, 16 << 30))
            sample = SampleLine(0.5, tree_bytes=1 << 30, available_bytes=14 << 30)
            leg.own[1:3] = [sample, ProcessEndLine(1, "completed", 0, 2.0, cpu_s=2.0)]
        world.result("01", "a.t::two", outcome="failed" if number in (2, 4) else "passed")
        _, records = world.write(tmp_path / f"{number}")
        at = f"{datetime.now(UTC) - timedelta(days=7 - number)}"
        facts = ("--run-id", f"{number}", "--branch", "main", "--at", at)
        if number < 6:
            ciguard("history", "add", records, *past, *facts, cwd=tmp_path)
    (tmp_path / "event.json").write_text('{"repository": {"default_branch": "main"}}')
    environ = {
        **{"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "o/r", "GITHUB_EVENT_NAME": "push"},
        **{"GITHUB_EVENT_PATH": "event.json", "GITHUB_RUN_ID": "6", "GITHUB_RUN_ATTEMPT": "1"},
    }
    words = ("report", "--plan", "6/plan.json", "--records", "6/records", *past)
    reports = [
        ciguard(*words, cwd=tmp_path, expect=0, GITHUB_REF_NAME=branch, **environ).stdout
        for branch in ("main", "topic")
    ]
    assert 'unit = "a.t::two"\nreason = "failed in 2 of 5 runs of main"' in reports[0]
    assert ["1 test to add, 0 to remove" in report for report in reports] == [True, False]
    smaller = "default: memory 2.00 GiB of 16.0 GiB, CPU 23.8 % of 4 cores at most in 5 runs: a 2-c"
    assert [smaller in report for report in reports] == [True, False]
