"""What is said of units that were run on two commits, and what a leg of them came to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compare.compare_factories import case, died, leg_lines
from conftest import Golden
from markdown_it import MarkdownIt

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.experiment import commit_test
from ciguard.experiment.commit_test import (
    ARMS,
    Request,
    exclusions,
    failure_of,
    metric_of,
    plan_of,
    values_of,
)
from ciguard.experiment.measurement import Measurement, Metric
from ciguard.experiment.paired_test import Row
from ciguard.experiment.result import Exclusion, Experiment, run_design
from ciguard.experiment.schedule import Design, Step
from ciguard.experiment.view import commit_document, commits_as_json
from ciguard.model import CaseKey, Record, Result, Suite, UnitKey
from ciguard.render.markdown import as_markdown
from ciguard.render.plaintext import COLUMNS, as_text

SAMPLES = Path(__file__).parents[1] / "samples" / "experiment"
HOSTILE = "t.py::x[`|<b>@everyone</b> #1 ${{ x }} ::set-output\n\u202e]"
MIB = 1024 * 1024


def key(name: str) -> CaseKey:
    return CaseKey("", "", name, name)


def found(runs: int = 5, **changes: Any) -> Experiment:
    """One test that is slower and larger, one that is not, one that fails."""
    times = {"a.py::test_slow": 1.4, "a.py::test_steady": 1.0, HOSTILE: 0.9, "a.py::bad": 3.0}

    def measure(step: Step) -> Measurement:
        swing = 1 + (step.block * 7 % 5 - 2) / 300
        values = {
            metric_of(key(name), "wall_s"): swing * (factor if step.arm == "head" else 1.0)
            for name, factor in times.items()
        }
        mib = 30.0 if step.arm == "head" else 20.0
        values[metric_of(key("a.py::test_slow"), "peak_delta_bytes")] = mib * MIB
        return Measurement(step, values, duration_s=1.0)

    design, done = Design(runs, 1, arms=ARMS), list[Measurement]()
    why = run_design(design, done, measure, lambda: 1e9, may_stop_early=False)
    reported = commit_test.conclude(
        design,
        done,
        why,
        commits={"base": "a" * 40, "head": "b" * 40},
        request=Request((UnitKey("", "", "a.py"),)),
        exclusions={key("a.py::bad"): Exclusion("head", "failed", "no such table")},
        wall_s=61.0,
    )
    return replace(reported, **changes)


def test_all_formats(golden: Golden) -> None:
    reported = found()
    text = as_text(commit_document(reported))
    markdown = as_markdown(commit_document(reported))
    golden(text, SAMPLES / "confirmed.txt")
    golden(markdown, SAMPLES / "confirmed.md")
    content = json.dumps(commits_as_json(reported), indent=2, allow_nan=False) + "\n"
    golden(content, SAMPLES / "confirmed.json", scrub={r"(\d\.\d{6})\d+(e-\d+)?": r"\1"})
    assert text.splitlines()[-1] == markdown.splitlines()[-1] == reported.verdict == "mixed"
    assert max(map(len, text.splitlines())) <= COLUMNS
    html = MarkdownIt("commonmark").enable("table").render(markdown)
    assert html.count("<tr>") == 1 + len(reported.rows)
    assert "<b>" not in html


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("s", 1.5), ("bytes", 0.5)], "mixed"),
        ([("s", 0.5), ("s", 1.5)], "mixed"),
        ([("s", 0.5), ("bytes", 0.5)], "faster"),
        ([("bytes", 1.5)], "more memory"),
        ([("bytes", 0.5), ("s", 1.0)], "less memory"),
        ([("s", 1.0)], "no significant difference"),
    ],
)
def test_verdict_on_commits_combines_all_tests(
    changes: list[tuple[str, float]], expected: str
) -> None:
    rows = [
        Row(0, "head", Metric("x", unit), 5, 1.0, after, after - 1, differs=after != 1)
        for unit, after in changes
    ]
    assert commit_test.verdict_of(rows) == expected


def test_too_few_or_failed_runs_give_no_verdict() -> None:
    assert found(2).verdict == "not enough data"
    assert not found(2).is_complete
    failed = found(failed=Measurement(Step(0, "head", 0, 1), failure="ended: crash\nlast words"))
    assert "head, run 1: ended: crash\n\n- last words\n" in as_text(commit_document(failed))


def record(*results: Result, **facts: Any) -> Record:
    lines = b"".join(map(encode, leg_lines("1", results, **facts)))
    (reported,) = read_records([("supervisor.jsonl", lines)])
    return reported


def test_only_cases_that_passed_every_try_are_measured() -> None:
    reported = record(
        case("good", 0.5, 10),
        case("bad", outcome="failed", message="no\nmore"),
        case("flaky", outcome="failed", try_number=1),
        case("flaky", try_number=2),
        case("unmeasured", None, None),
        died("gone", "timeout"),
    )
    assert values_of(reported) == {
        metric_of(key("good"), "wall_s"): 0.5,
        metric_of(key("good"), "peak_delta_bytes"): 10.0 * MIB,
    }
    units = [UnitKey("", "", name) for name in ("good", "bad", "nowhere")]
    assert exclusions(reported, units, "head") == {
        key("bad"): Exclusion("head", "failed", "no"),
        key("flaky"): Exclusion("head", "failed"),
        key("gone"): Exclusion("head", "died"),
        key("nowhere"): Exclusion("head"),
    }


def test_unfinished_leg_is_a_failure_and_failed_tests_are_not() -> None:
    assert failure_of([record(case("bad", outcome="failed"))], "") == ""
    assert failure_of([], "fix: x\n") == "no record\nfix: x"
    cut = record(case("good"), ending=None)
    assert failure_of([cut], "") == "ended: unknown"


def test_plan_is_one_shard_of_the_requested_units() -> None:
    suites = {name: Suite("command", ("x", name)) for name in ("s", "t", "u")}
    units = [UnitKey("t", "v", "two"), UnitKey("s", "", "one")]
    plan = plan_codec.decode(plan_of(units, suites), "x")
    assert [unit.key for unit in plan.shards[0].units] == units
    assert set(plan.suites) == {"s", "t"}


@pytest.mark.parametrize("width", [10, 60])
def test_long_names_have_a_separate_line(width: int) -> None:
    name = "t.py::" + "x" * width
    rows = tuple(replace(row, metric=metric_of(key(name), "wall_s")) for row in found().rows[:1])
    lines = as_text(commit_document(found(rows=rows))).splitlines()
    assert any(line.strip() == name for line in lines) is (width == 60)
    assert max(map(len, lines)) <= COLUMNS
