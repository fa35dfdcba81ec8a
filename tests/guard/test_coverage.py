"""The coverage of a run in its verdict: minima, the base beside it, and what people read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Ciguard, Golden
from guard.fixtures import VERDICT_SCHEMA, World, make_leg
from pydantic import TypeAdapter

from ciguard.codec.coverage_file import Coverage, Share
from ciguard.guard.limits import check_coverage
from ciguard.guard.verdict import Policy
from ciguard.guard.wording import finding_message

SAMPLES = Path(__file__).parents[1] / "samples/guard"
FULL = Coverage(
    "coverage.py",
    "line",
    not_collected=("05",),
    total=Share(874, 1000, 87.4),
    files={
        "src/cart.py": (80, 100),
        "src/pay.py": (199, 200),
        "src/small.py": (0, 1),
        "src/better.py": (50, 100),
        "src/new.py": (0, 10),
        "src/empty.py": (0, 0),
    },
    diff=Share(46, 50, 92.0),
    uncovered={"src/cart.py": [7, 8, 9, 12], "a|b`<b>@all\n.py": [3, *range(10, 40)]},
)
BASE = replace(
    FULL,
    total=Share(876, 1000, 87.6),
    files={**dict.fromkeys(FULL.files, (1, 1)), "src/better.py": (1, 100), "src/gone.py": (1, 1)},
)
del BASE.files["src/new.py"]
LOST = Coverage("go", "statement", ("shard 03 has no part",), ("03",))
BELOW = "coverage 87.4 % is below the minimum of 87.5 %"
DIFF = "diff coverage 92 % is below the minimum of 92.1 %"


@pytest.mark.parametrize(
    ("coverage", "minima", "found"),
    [
        (None, (None, None), []),
        (None, (None, 1), ["incomplete: coverage incomplete: not given"]),
        (FULL, (None, None), []),
        (FULL, (87.4, 92), []),
        (FULL, (87.5, 92.1), [f"failed: {BELOW}", f"failed: {DIFF}"]),
        (LOST, (None, None), ["warning: coverage incomplete: shard 03 has no part"]),
        (LOST, (0, None), ["incomplete: coverage incomplete: shard 03 has no part"]),
        (replace(FULL, total=None), (1, None), ["incomplete: coverage incomplete"]),
        (replace(FULL, diff=None), (1, None), []),
        (replace(FULL, diff=None), (1, 1), ["incomplete: coverage of the diff incomplete"]),
        (replace(FULL, diff=Share(0, 0, None)), (1, 100), []),
        (
            replace(FULL, total=Share(0, 0, None)),
            (1, None),
            ["failed: coverage 0 % is below the minimum of 1 %"],
        ),
    ],
)
def test_coverage_is_judged_by_the_minima(
    coverage: Coverage | None, minima: tuple[float | None, float | None], found: list[str]
) -> None:
    policy, plan = Policy(coverage_minima=minima, coverage_suites=("x", "")), World().plan
    findings = list(check_coverage(coverage, policy, plan, is_pull_request=True))
    assert [f"{one.level}: {finding_message(one)}" for one in findings] == found
    found_on_push = check_coverage(coverage, policy, plan, is_pull_request=False)
    pushed = map(finding_message, found_on_push)
    assert [*pushed] == [text.partition(": ")[2] for text in found if "of the diff" not in text]


def test_minimum_is_for_the_suites_of_the_base() -> None:
    """A plan of other suites needs none; a change cannot say so."""
    policy, plan = Policy(coverage_minima=(90, None), coverage_suites=("x",)), World().plan
    assert not list(check_coverage(None, policy, plan, is_pull_request=True))


class Job:
    """Runs of main with coverage in the history, and the run of a change."""

    def __init__(self, folder: Path, ciguard: Ciguard) -> None:
        self.folder, self.ciguard = folder, ciguard
        self.plan, self.records = World().write(folder / "now")
        self.add(1, FULL)
        self.add(2, BASE)
        self.add(3, LOST)

    def add(self, run: int, coverage: Coverage) -> None:
        world = World()
        world.legs = {key: make_leg(world.plan, key, run=run) for key in world.legs}
        for leg in world.legs.values():
            at = f"2026-11-0{run}T10:00:00Z"
            leg.header = replace(leg.header, branch="main", event="push", started_at=at)
        plan, records = world.write(self.folder / str(run))
        self.write(coverage)
        words = ("--plan", plan, "--history", "h", "--coverage", "c.json")
        self.ciguard("history", "add", records, *words, cwd=self.folder)

    def write(self, coverage: Coverage) -> None:
        (self.folder / "c.json").write_bytes(TypeAdapter(Coverage).dump_json(coverage))

    def judge(self, verb: str, *words: str, expect: int = 0, history: str = "h") -> str:
        more: list[str | Path] = ["--plan", self.plan, "--records", self.records, *words]
        more += ["--history", history]
        return self.ciguard(verb, *more, cwd=self.folder, expect=expect).stdout


@pytest.fixture
def job(tmp_path: Path, ciguard: Ciguard) -> Job:
    return Job(tmp_path, ciguard)


def test_coverage_is_shown_beside_that_of_main(job: Job, golden: Golden) -> None:
    job.write(FULL)
    minima = "[coverage]\nformat = 'lcov'\nminimum = 87.5\ndiff_minimum = 92.1\n"
    (job.folder / "ciguard.toml").write_text(minima)
    words = ("--coverage", "c.json")
    golden(job.judge("guard", *words, expect=10), SAMPLES / "coverage.txt")
    comment = job.judge("report", *words, "--html", "page.html", expect=10)
    golden(comment.partition("\n8 of 8 tests ran")[0], SAMPLES / "coverage.md")
    page = (job.folder / "page.html").read_text("utf-8")
    assert "<p>coverage 87.4 % (main 87.6), diff 92 % of 50 lines, none" in page
    assert "a|b`&lt;b&gt;@all" in page
    content = json.loads(job.judge("guard", *words, "--format", "json", expect=10))
    VERDICT_SCHEMA.validate(content)
    assert content["coverage_base"] == {"branch": "main", "percent": 87.6}
    assert content["coverage"] == json.loads((job.folder / "c.json").read_text())
    first = job.judge("report", *words, "--ignore-base-failures", expect=10, history="none")
    assert "coverage 87.4 % of 1,000 lines, diff 92 % of 50 lines" in first


def test_coverage_of_a_job_that_failed_is_no_number(job: Job) -> None:
    text = job.judge("report", "--coverage", "nowhere.json")
    assert "PASSED: all 8 tests" in text
    assert "\ncoverage incomplete: no result of its job\n" in text
    (job.folder / "ciguard.toml").write_text("[coverage]\nformat = 'lcov'\nminimum = 0\n")
    text = job.judge("report", "--coverage", "nowhere.json", expect=13)
    assert "INCOMPLETE: coverage incomplete: no result of its job" in text
    assert "coverage incomplete: not given" in job.judge("guard", expect=13)
    (job.folder / "c.json").write_text("{}")
    text = job.judge("guard", "--coverage", "c.json", expect=13)
    assert "INCOMPLETE: coverage incomplete: no coverage: format: Field required" in text


def test_many_files_are_cut(job: Job) -> None:
    files = {f"{n:03}.go": (n, 1000) for n in range(30)}
    job.add(4, replace(BASE, files=dict.fromkeys(files, (9, 10))))
    job.write(replace(FULL, files=files, uncovered={path: [1] for path in files}))
    text = job.judge("report", "--coverage", "c.json")
    assert text.count("90.0 %") == 10
    assert text.count("</code> | 1 |") == 20
    assert "...and 20 more files" in text
