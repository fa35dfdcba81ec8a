"""Durations of steps and sizes of artifacts of two runs, and how their names are paired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compare.compare_factories import case, files_of
from conftest import Ciguard
from fakegithub.actions import REPOSITORY, add_artifact, add_job
from fakegithub.state import FakeGitHub
from hypothesis import given
from hypothesis import strategies as st

from ciguard.compare.command import FORMATS
from ciguard.compare.jobs import compare_jobs_only, run_of_jobs
from ciguard.compare.steps_and_artifacts import (
    NO_ARTIFACTS,
    NO_STEPS,
    StepChange,
    compare_artifacts,
    compare_steps,
    normalize_name,
    pair_by_name,
)
from ciguard.model.jobs import Job, RunArtifact, Step

# The first is of the issue; others as EnzymeAD/Enzyme-JAX, PyTorch and uv name what they upload.
NORMALIZED = {
    "wheel-torch-2.9.0.dev20261101+cpu-a1b2c3d": "wheel-torch-<version>+cpu-<commit>",
    "julia-environment-1.11-1ac176a9b8b4800bc2753d944eec62a39e6189b8-ap": (
        "julia-environment-<version>-<commit>-ap"
    ),
    "x-v2.1rc1-linux": "x-<version>-linux",
    "app-1.2.3-SNAPSHOT": "app-<version>",
    "app-1.0.0-beta.2_amd64": "app-<version>_amd64",
    "tool-1.2.3-14-gabc1234": "tool-<version>-<commit>",
    "2.9.0a0+git1a2b3c4": "<version>+<commit>",
    "app-1.2.3-a1b2c3d": "app-<version>-<commit>",
    "logs-17051302903": "logs-<run>",
    "report-2026-11-01": "report-<date>",
    "report_20261101T120000Z.txt": "report_<date>.txt",
    "Run actions/checkout@v4": "Run actions/checkout@<version>",
    "Run actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683": (
        "Run actions/checkout@<commit>"
    ),
    "Set up Python 3.12": "Set up Python <version>",
}
UNCHANGED = (
    *("shard-1", "tests (2 of 12)", "bench-1000000", "cu128", "sha256", "x86_64", "deadbeef"),
    *("coverage-linux", "e2e", "port-8080", "a1b2c3", "1234567", "defaced-effaced", ""),
)


@pytest.mark.parametrize("name", NORMALIZED)
def test_what_differs_from_run_to_run_is_left_out(name: str) -> None:
    assert normalize_name(name) == NORMALIZED[name]


@pytest.mark.parametrize("name", UNCHANGED)
def test_other_numbers_and_words_stay(name: str) -> None:
    assert normalize_name(name) == name


def test_a_commit_of_the_run_needs_no_letter_and_no_digit() -> None:
    own = ("1234567" + "e" * 33, "feedfac" + "0" * 33)
    assert normalize_name("a-1234567-feedfac", own) == "a-<commit>-<commit>"


def paired(before: str, after: str) -> tuple[list[str], list[str]]:
    """Pairs as "a>b", and names without a partner as "-a" and "+b"."""
    sides = [[(name, name) for name in side.split()] for side in (before, after)]
    found = pair_by_name(sides[0], sides[1])
    alone = [f"-{old}" if new is None else f"+{new}" for old, new in found if None in (old, new)]
    return [f"{old}>{new}" for old, new in found if None not in (old, new)], alone


@pytest.mark.parametrize(
    ("before", "after", "pairs", "alone"),
    [
        ("wheel-1.0+cpu-a1b2c3d", "wheel-1.1+cpu-f00ba42",
         ["wheel-1.0+cpu-a1b2c3d>wheel-1.1+cpu-f00ba42"], []),
        # What follows "+" tells builds apart.
        ("wheel-1.0+cpu", "wheel-1.1+cu128", [], ["-wheel-1.0+cpu", "+wheel-1.1+cu128"]),
        # A matrix over versions: equal names first.
        ("py-3.11 py-3.12", "py-3.11 py-3.12", ["py-3.11>py-3.11", "py-3.12>py-3.12"], []),
        ("py-3.9 py-3.12", "py-3.12 py-3.13", ["py-3.12>py-3.12", "py-3.9>py-3.13"], []),
        ("u-1.9 u-1.10", "u-2.0 u-1.11", ["u-1.9>u-1.11", "u-1.10>u-2.0"], []),
        ("x-1.0 x-1.1", "x-1.2", [], ["-x-1.0", "-x-1.1", "+x-1.2"]),
        ("same same", "same same", ["same>same", "same>same"], []),
        ("same same", "same", [], ["-same", "-same", "+same"]),
        ("old both", "both new", ["both>both"], ["-old", "+new"]),
        ("", "new-1.0", [], ["+new-1.0"]),
    ],
)  # fmt: skip
def test_pairs_and_what_is_missing(
    before: str, after: str, pairs: list[str], alone: list[str]
) -> None:
    assert paired(before, after) == (pairs, alone)


NAMES = st.lists(st.text("ab1.0-v٣²", max_size=9) | st.sampled_from([*NORMALIZED]), max_size=8)


@given(NAMES, NAMES)
def test_each_name_is_used_once(before: list[str], after: list[str]) -> None:
    found = pair_by_name([(one, one) for one in before], [(one, one) for one in after])
    old = sorted(one for one, _ in found if one is not None)
    new = sorted(one for _, one in found if one is not None)
    assert (old, new) == (sorted(before), sorted(after))
    both = {name for name in before if before.count(name) == after.count(name)}
    assert all((name, name) in found for name in both)
    pairs = [(one, two) for one, two in found if one is not None and two is not None]
    assert all(normalize_name(one) == normalize_name(two) for one, two in pairs)


MB = 1_000_000


def job(name: str, *steps: Step, attempt: int = 1) -> Job:
    return Job(1, name, attempt, "completed", "success", steps=steps)


def ran(name: str, wall_s: float, conclusion: str = "success") -> Step:
    return Step(name, 1, conclusion, wall_s)


def rows(before: list[Job], after: list[Job]) -> list[tuple[str, float | None, float | None]]:
    changes = compare_steps(before, after).changes
    return [(one.name, one.wall_before_s, one.wall_after_s) for one in changes]


def only(before: Step | None, after: Step | None) -> StepChange:
    sides = [[job("t", *([step] if step else []))] for step in (before, after)]
    (found,) = compare_steps(sides[0], sides[1]).changes
    return found


def test_step_of_the_thread() -> None:
    """EnzymeAD/Enzyme-JAX#1307: "about 16 minutes on main", "about 9 minutes here"."""
    found = only(ran("Run simulation", 16 * 60), ran("Run simulation", 9 * 60))
    assert (found.difference, found.ratio, found.is_notable) == (-420, -0.4375, True)


def test_artifact_of_the_thread() -> None:
    """The dumps of XLA of main and of the pull request, which had other names in each run."""
    (found,) = compare_artifacts(
        [RunArtifact("xla-dump-17051302903", 18_400_000)],
        [RunArtifact("xla-dump-17060619747", 7_440_000)],
    ).changes
    assert found.ratio is not None
    assert round(100 * found.ratio, 2) == -59.57
    assert found.difference == -10_960_000
    assert (found.name, found.was) == ("xla-dump-17060619747", "xla-dump-17051302903")


@pytest.mark.parametrize(
    ("before_s", "after_s", "is_notable"),
    [(10, 15, True), (10, 14, False), (100, 109, False), (100, 110, True), (0, 5, True),
     (600, 540, True), (7, 7, False)],
)  # fmt: skip
def test_a_step_changes_notably_by_5_s_and_10_percent(
    before_s: float, after_s: float, *, is_notable: bool
) -> None:
    assert only(ran("s", before_s), ran("s", after_s)).is_notable == is_notable


def test_a_step_that_did_not_run_has_no_duration() -> None:
    for conclusion in ("skipped", "cancelled", None):
        found = only(ran("s", 60), Step("s", 1, conclusion))
        assert (found.wall_after_s, found.ratio, found.difference) == (None, None, None)
        assert found.after == (conclusion or "not ended")
    missing = only(ran("s", 60), None)
    assert (missing.after, missing.wall_after_s, missing.ratio) == (None, None, None)
    assert compare_steps([job("t", Step("s", 1, "skipped"))], [job("t")]) == NO_STEPS


def test_a_step_that_failed_is_no_faster() -> None:
    found = only(ran("s", 60), ran("s", 2, "failure"))
    assert (found.wall_before_s, found.wall_after_s) == (60, 2)
    assert (found.ratio, found.difference, found.is_notable) == (None, None, False)
    failing = only(ran("s", 60, "failure"), ran("s", 30, "failure"))
    assert failing.ratio == -0.5


def test_steps_are_paired_within_their_job_in_its_last_attempt() -> None:
    before = [job("a", ran("s", 10)), job("b", ran("s", 20)), job("gone", ran("s", 1))]
    after = [job("b", ran("s", 21)), job("a", ran("s", 99)), job("a", ran("s", 12), attempt=2)]
    assert rows(before, after) == [("s", 20, 21), ("s", 10, 12)]


def test_names_with_versions_and_commits_are_paired() -> None:
    before = [job("build (1.2.3)", ran("Run actions/checkout@v4", 5))]
    after = [job("build (1.3.0)", ran("Run actions/checkout@v5", 6))]
    (found,) = compare_steps(before, after).changes
    assert (found.job, found.was) == ("build (1.3.0)", "Run actions/checkout@v4")


def test_notable_changes_come_first_then_what_is_missing() -> None:
    before = [job("a", ran("same", 600), ran("slower", 10), ran("gone", 30), ran("faster", 60))]
    after = [job("a", ran("same", 601), ran("slower", 90), ran("new", 40), ran("faster", 30))]
    assert [name for name, *_ in rows(before, after)] == ["slower", "faster", "new", "gone", "same"]


def test_a_missing_artifact_is_not_0() -> None:
    found = compare_artifacts([RunArtifact("old", 5)], [RunArtifact("new", 6)]).changes
    assert [(one.name, one.before_bytes, one.after_bytes, one.ratio) for one in found] == [
        ("new", None, 6, None),
        ("old", 5, None, None),
    ]
    (empty,) = compare_artifacts([RunArtifact("a", 0)], [RunArtifact("a", 6)]).changes
    assert (empty.ratio, empty.is_notable) == (None, True)


def test_artifacts_of_a_run_that_are_not_known_are_not_compared() -> None:
    assert compare_artifacts(None, [RunArtifact("new", 6)]) == NO_ARTIFACTS
    assert compare_artifacts([RunArtifact("old", 6)], None) == NO_ARTIFACTS


def test_a_large_matrix_does_not_flood_the_text() -> None:
    sides = [
        [job(f"tests ({n})", *(ran(f"step {k}", seconds) for k in range(10))) for n in range(128)]
        for seconds in (10, 40)
    ]
    before, after = sides
    runs = (run_of_jobs("5", 5, before), run_of_jobs("7", 7, after))
    text = FORMATS["text"](compare_jobs_only(before, after, runs))
    steps = text.partition("Steps: ")[2]
    assert steps.count("+300.00 % (+30 s)") == 20
    assert "and 1,260 more steps" in steps
    same = FORMATS["text"](compare_jobs_only(before, before, runs))
    assert "1,280 steps changed by less than 5.00 s or 10 %." in same
    assert "step 3" not in same


def upload(github: FakeGitHub, run: int, sizes: dict[str, int]) -> None:
    for name, size_bytes in sizes.items():
        add_artifact(github, name, {"x": b""}, run=run, size_in_bytes=size_bytes)


@pytest.fixture
def runs(server: FakeGitHub) -> FakeGitHub:
    """Runs 5 and 7, which built wheels of two commits."""
    steps = (("Set up job", "success"), ("Run simulation", "success"), ("Deploy", "skipped"))
    for run, ended in ((5, "10:16:00"), (7, "10:09:00")):
        ends = {"Set up job": "2026-11-21T10:00:02Z", "Run simulation": f"2026-11-21T{ended}Z"}
        add_job(server, "build", run=run, steps=steps, ends=ends)
    upload(server, 5, {"wheel-torch-2.9.0.dev20261101+cpu-a1b2c3d": 18_400_000, "docs": 5000,
                       "old-logs": 2000, "same": MB})  # fmt: skip
    upload(server, 7, {"wheel-torch-2.9.0.dev20261102+cpu-f00ba42": 7_440_000, "docs": 5001,
                       "ciguard-plan-p-1": 9, "same": MB})  # fmt: skip
    return server


WORDS = ("compare", "5", "7", "--repo", REPOSITORY)


def test_steps_and_artifacts_of_runs_without_records(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    text = ciguard(*WORDS, cwd=tmp_path, **environ).stdout
    flat = " ".join(text.split())
    step = "build Run simulation 16 min 00 s 9 min 00 s -43.75 % (-7 min 00 s)"
    assert step in flat
    assert "1 step changed by less than 5.00 s or 10 %." in flat
    assert "wheel-torch-2.9.0.dev20261102+cpu-f00ba42" in flat
    assert "was wheel-torch-2.9.0.dev20261101+cpu-a1b2c3d" in flat
    assert "before 17.5 MiB, after 7.10 MiB, change -59.57 % (-10.5 MiB)" in flat
    assert "old-logs before 1.95 KiB, after missing" in flat
    assert "2 artifacts changed by less than 5 %." in flat
    assert "-100" not in flat
    assert "ciguard-plan" not in flat
    found = json.loads(ciguard(*WORDS, "--format", "json", cwd=tmp_path, **environ).stdout)
    wheel, lost, *_ = found["artifacts"]["changes"]
    assert (wheel["before_bytes"], wheel["after_bytes"]) == (18_400_000, 7_440_000)
    assert round(wheel["ratio"], 4) == -0.5957
    assert (lost["name"], lost["after_bytes"], lost["ratio"]) == ("old-logs", None, None)
    assert [one["name"] for one in found["steps"]["changes"]] == ["Run simulation", "Set up job"]
    # One request for the jobs and one for the artifacts of each run.
    assert len([one for one in runs.request_log() if one.endswith("/artifacts")]) == 4
    assert not [one for one in runs.request_log() if one.endswith("/zip")]


def test_steps_and_artifacts_of_runs_with_records(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    for run in (5, 7):
        files = files_of({"01": [case("a", 1.0)]}, run_id=run, head_sha="a" * 40)
        add_artifact(runs, "ciguard-record-p-01-1", files, run=run)
    for shape in ("text", "markdown", "html"):
        text = ciguard(*WORDS, "--format", shape, cwd=tmp_path, **environ).stdout
        assert "-43.75 % (-7 min 00 s)" in text.replace("&#8722;", "-"), shape
        assert "-59.57 % (-10.5 MiB)" in text, shape
        assert ("docs" in text) == (shape != "text"), shape  # folded, or counted
    found = json.loads(ciguard(*WORDS, "--format", "json", cwd=tmp_path, **environ).stdout)
    assert found["steps"]["changes"][0]["ratio"] == -0.4375
    assert "ciguard-record" not in json.dumps(found["artifacts"])


def test_artifacts_of_a_later_attempt_are_left_out(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    """Only the time of an artifact tells of which attempt it is."""
    began, ended = "2026-11-21T12:00:00Z", "2026-11-21T12:05:00Z"
    add_job(runs, "build", attempt=2, started_at=began, completed_at=ended)
    add_artifact(runs, "docs", {"x": b""}, size_in_bytes=99_000, created_at=ended)
    sizes = {}
    for run in ("7/1", "7/2"):
        words = ("compare", "5", run, "--repo", REPOSITORY, "--format", "json")
        found = json.loads(ciguard(*words, cwd=tmp_path, **environ).stdout)
        changes = {one["name"]: one["after_bytes"] for one in found["artifacts"]["changes"]}
        sizes[run] = changes["docs"]
    assert sizes == {"7/1": 5001, "7/2": 99_000}


def test_a_folder_of_records_has_no_steps_and_no_artifacts(
    ciguard: Ciguard, environ: dict[str, Any], runs: FakeGitHub, tmp_path: Path
) -> None:
    files = files_of({"01": [case("a", 1.0)]}, run_id=7)
    add_artifact(runs, "ciguard-record-p-01-1", files, run=7)
    for path, content in files.items():
        (tmp_path / "base" / path).parent.mkdir(parents=True)
        (tmp_path / "base" / path).write_bytes(content)
    words = ("compare", "base", "7", "--repo", REPOSITORY, "--format", "json")
    found = json.loads(ciguard(*words, cwd=tmp_path, **environ).stdout)
    assert found["steps"] == found["artifacts"] == {"changes": []}
