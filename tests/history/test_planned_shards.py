"""`history add --plan P --results PATTERN`: result files of a plan's shards, some of them lost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard
from guard.fixtures import make_plan
from guard.test_result_files import junit

from ciguard.codec import plan_file as plan_codec
from ciguard.history.file import History, decode
from ciguard.history.query import BaseQuery, base_unit_count, known_failures

SHARDS: dict[str, tuple[str, ...]] = {
    f"{n:02}": (f"s{n:02}.t::one", f"s{n:02}.t::two") for n in range(1, 30)
}
PLAN = make_plan(SHARDS)
WORDS = ("history", "add", "--history", "h", "--plan", "plan.json")
PATTERN = ("--results", "out/results-{shard}/**/*.xml")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(PLAN))
    return tmp_path


def write(place: Path, shards: Iterable[str], bad: tuple[str, ...] = ()) -> None:
    for shard in shards:
        folder = place / f"out/results-{shard}/reports"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "r.xml").write_bytes(junit(SHARDS[shard], bad))


def read(place: Path) -> History:
    return decode((place / "h").read_bytes(), "h")


def test_shards_without_a_file_are_lost(ciguard: Ciguard, place: Path) -> None:
    bad = SHARDS["01"][:1]
    write(place, list(SHARDS)[:23], bad)
    done = ciguard(*WORDS, *PATTERN, "--run-id", "5", "--sha", "abc", cwd=place)
    assert done.stderr == (
        "warning: run 5 is incomplete: 6 of 29 shards and 12 tests lost: 24, 25, 26, 27, 28, 29\n"
    )
    shown = ciguard("history", "show", "--history", "h", cwd=place).stdout.splitlines()[1].split()
    assert shown[-3:] == ["23/29", "12", "46"]
    history = read(place)
    (run,) = history.runs
    assert run.sha == "abc"
    lost = [leg for leg in run.legs if not leg.complete]
    assert [leg.shard for leg in lost] == list(SHARDS)[23:]
    assert [key.unit for key in lost[0].lost_units] == sorted(SHARDS["24"])
    assert known_failures(history, BaseQuery()) == ({}, None)
    planned = base_unit_count(history, BaseQuery(), PLAN.suites)
    assert planned is not None
    assert [one.units for one in planned.planned] == [58]  # not the 46 that have a result


def test_a_run_with_all_shards_is_a_base(ciguard: Ciguard, place: Path) -> None:
    write(place, SHARDS, SHARDS["01"][:1])
    assert not ciguard(*WORDS, *PATTERN, "--run-id", "5", cwd=place).stderr
    history = read(place)
    assert history.runs[0].complete
    assert len(known_failures(history, BaseQuery())[0]) == 1
    assert [leg.shard for leg in history.runs[0].legs] == list(SHARDS)


def test_an_empty_shard_of_a_hand_written_matrix_owes_no_file(
    ciguard: Ciguard, place: Path
) -> None:
    """Its filter selects no test, so its tool writes no file; in a plan of ours a job has died."""
    for job, complete in (("Generated/Layers", True), ("", False)):
        plan = make_plan({**SHARDS, "30": ()})
        shards = (*plan.shards[:-1], replace(plan.shards[-1], job=job))
        content = plan_codec.encode(replace(plan, shards=shards))
        (place / "plan.json").write_bytes(content)
        write(place, SHARDS)
        (place / "h").unlink(missing_ok=True)
        ciguard(*WORDS, *PATTERN, "--run-id", "5", cwd=place)
        assert read(place).runs[0].complete is complete


def test_the_rest_can_be_added_later(ciguard: Ciguard, place: Path) -> None:
    write(place, list(SHARDS)[:23])
    ciguard(*WORDS, *PATTERN, "--run-id", "5", cwd=place)
    write(place, list(SHARDS)[23:])
    ciguard(*WORDS, *PATTERN, "--run-id", "5", "--run-attempt", "2", cwd=place)
    (run,) = read(place).runs
    assert run.complete


def test_a_truncated_file_makes_its_shard_incomplete(ciguard: Ciguard, place: Path) -> None:
    write(place, SHARDS)
    path = place / "out/results-07/reports/r.xml"
    path.write_bytes(path.read_bytes()[:-40])
    done = ciguard(*WORDS, *PATTERN, "--run-id", "5", cwd=place)
    assert "warning: out/results-07/reports/r.xml:" in done.stderr
    assert "run 5 is incomplete: 1 of 29 shards and 1 test lost: 07" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "states"),
    [
        (("out/results-01/reports/r.xml",), 2, "does not name its shard"),
        ((), 2, "nothing to add"),
        (("--results", "out/{shard}/none.xml"), 3, "no file has such a name"),
        (("--results", "out/{shard}/reports/*.xml"), 3, "shard 'results-01' is not in the plan"),
        (("--results", "out/*.xml"), 2, "nothing says to which shard"),
    ],
)
def test_what_cannot_be_placed_is_an_error(
    ciguard: Ciguard, place: Path, words: tuple[str, ...], code: int, states: str
) -> None:
    write(place, ["01"])
    done = ciguard(*WORDS, *words, "--run-id", "5", cwd=place, expect=code)
    assert states in done.stderr
    assert not (place / "h").exists()


def test_in_a_workflow_the_files_are_of_its_run(ciguard: Ciguard, place: Path) -> None:
    write(place, SHARDS)
    event = {"repository": {"full_name": "octo-org/shop", "default_branch": "main"}}
    (place / "event.json").write_text(json.dumps({"ref": "refs/heads/main", **event}), "utf-8")
    environ: dict[str, Any] = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "octo-org/shop",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": str(place / "event.json"),
        "GITHUB_REF_NAME": "main",
        "GITHUB_REF_TYPE": "branch",
        "GITHUB_SHA": "a" * 40,
        "GITHUB_RUN_ID": "77",
        "GITHUB_RUN_ATTEMPT": "2",
    }
    ciguard(*WORDS, *PATTERN, cwd=place, **environ)
    (run,) = read(place).runs
    assert (run.run_id, run.run_attempt, run.sha) == (77, 2, "a" * 40)
    assert (run.branch, run.event) == ("main", "push")
    assert run.at.year > 2025
    ciguard(*WORDS, *PATTERN, "--run-id", "5", cwd=place, **environ)
    assert {run.run_id for run in read(place).runs} == {5, 77}


def test_folders_of_results_keep_equal_tests_apart(ciguard: Ciguard, place: Path) -> None:
    write(place, ("07", "08"))
    files = sorted(place.glob("out/*/reports/r.xml"))
    files[1].write_bytes(files[0].read_bytes().replace(b"0.5", b"0.7"))
    words = ("history", "add", "--history", "h", "--run-id")
    assert ": 4 values of 1 run added; " in ciguard(*words, "5", *PATTERN, cwd=place).stdout
    assert ": 2 values of 1 run added; " in ciguard(*words, "6", files[0], cwd=place).stdout
    done = ciguard(*words, "7", *files, cwd=place)
    assert ": 4 values of 1 run added, 2 replaced others; " in done.stdout
