"""Runs by each of their names, from a real GitHub that is small."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from compare.compare_factories import case, files_of
from conftest import Ciguard
from fakegithub.actions import REPOSITORY, TIP, add_artifact, add_job, add_run
from fakegithub.state import TOKEN, FakeGitHub
from guard.fixtures import SHARDS
from guard.test_result_files import junit
from pydantic import SecretStr

from ciguard.compare.baseline_selection import ancestry_of
from ciguard.errors import InputError, UsageError
from ciguard.github.client import GitHub
from ciguard.github.run_client import completed_runs, known_ancestors
from ciguard.sources.record_finder import RecordFinder
from ciguard.sources.references import PathReference, RunId
from ciguard.sources.repository_files import CheckoutFiles

FAILING = "\n{}  newly failing  passed  failed"
JUNIT = """<testsuite name="s" tests="2" failures="{failures}"><testcase classname="pkg.mod.C"
name="t" time="1.5">{more}</testcase><testcase classname="pkg.mod" name="u" time="0.2"/></testsuite>
"""


@pytest.fixture
def server(server: FakeGitHub) -> FakeGitHub:
    """A GitHub with runs 5 (main), 6 and 7 (the topic), whose records are there."""
    for run, branch, event, mib in (
        (5, "main", "push", 100.0),
        (6, "topic", "pull_request", 160.0),
        (7, "topic", "pull_request", 161.0),
    ):
        add_run(server, run, head_branch=branch, event=event)
        legs = {"01": [case("a", 1.0, mib), case("b", 2.0)]}
        for path, content in files_of(legs, run_id=run, branch=branch, event=event).items():
            add_artifact(server, "ciguard-record-p-01-1", {path: content}, run=run)
    add_job(server, "tests (01)")
    return server


@pytest.fixture
def environ(server: FakeGitHub) -> dict[str, Any]:
    return {"GITHUB_API_URL": server.address, "GITHUB_TOKEN": TOKEN, "no_proxy": "*"}


def test_run_ids_are_downloaded(
    ciguard: Ciguard, environ: dict[str, Any], tmp_path: Path, server: FakeGitHub
) -> None:
    add_run(server, 9, head_branch="main", event="push", head_sha="d" * 40)  # of a tag, called main
    server.merge_bases[f"{TIP}...{'d' * 40}"] = "0" * 40
    done = ciguard("compare", "5", "7", "--repo", REPOSITORY, cwd=tmp_path, **environ)
    assert "a     no verdict  100 MiB  161 MiB  +61 % (n=1)" in done.stdout
    page = f"https://github.com/{REPOSITORY}/actions/runs/7/attempts/1"
    assert ciguard("compare", "branch:main", page, cwd=tmp_path, **environ, expect=2).stderr
    named = ciguard(
        *("compare", "branch:main", page, "--repo", REPOSITORY), cwd=tmp_path, **environ
    )
    assert "base       branch:main, run 5" in named.stdout
    assert "the token" not in named.stderr


def test_run_id_refers_to_the_repository_of_the_checkout(
    ciguard: Ciguard, environ: dict[str, Any], tmp_path: Path
) -> None:
    origin = f"git@github.com:{REPOSITORY}.git"
    for words in (["init", "-q"], ["remote", "add", "origin", origin]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    done = ciguard("compare", "5", "7", cwd=tmp_path, **environ)
    assert "a     no verdict  100 MiB  161 MiB  +61 % (n=1)" in done.stdout


def test_this_and_base_refer_to_the_current_run(
    ciguard: Ciguard, environ: dict[str, Any], tmp_path: Path
) -> None:
    event = tmp_path / "event.json"
    event.write_text(
        '{"pull_request": {"number": 3, "head": {"ref": "topic", "sha": "cc"}, '
        '"base": {"ref": "main", "sha": "bb"}}}'
    )
    context: dict[str, Any] = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "7",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/tests.yml@refs/pull/3/merge",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(event),
        **environ,
    }
    done = ciguard("compare", "base", "this", cwd=tmp_path, **context)
    assert "base       base, run 5" in done.stdout
    assert "candidate  this, run 7" in done.stdout
    refused = ciguard("compare", "5", "base", cwd=tmp_path, **context, expect=2)
    assert "base cannot be the candidate" in refused.stderr


MISTAKES: list[tuple[tuple[str, ...], dict[str, str], int, str]] = [
    (("5", "7"), {}, 2, "--repo OWNER/NAME with a GITHUB_TOKEN"),
    (("5", "7", "--repo", "shop"), {}, 2, 'expected OWNER/NAME, found "shop"'),
    (("5", "7", "--repo", REPOSITORY), {"GITHUB_TOKEN": ""}, 2, "--history FILE"),
    (("5", "8", "--repo", REPOSITORY), {}, 3, "has no record among its artifacts"),
    (
        ("branch:nosuch", "7", "--repo", REPOSITORY),
        {},
        3,
        "no finished run of a commit that is on branch nosuch",
    ),
    (
        ("5", "https://other.example/o/r/actions/runs/7"),
        {},
        2,
        "is for https://github.com, and not sent to another",
    ),
    (("this", "7", "--repo", REPOSITORY), {}, 2, "this is not a run of GitHub Actions"),
    (("base", "7", "--repo", REPOSITORY), {}, 2, "base is chosen from the history"),
    (("nowhere", "7", "--repo", REPOSITORY), {}, 3, "a run id (123456, 123456/2)"),
    (("out/*.xml", "7", "--repo", REPOSITORY), {}, 3, "no such file"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one[-1])
def test_usage_errors(
    ciguard: Ciguard,
    environ: dict[str, Any],
    tmp_path: Path,
    mistake: tuple[tuple[str, ...], dict[str, str], int, str],
) -> None:
    words, more, code, output = mistake
    values: dict[str, Any] = {**environ, **more}
    done = ciguard("compare", *words, cwd=tmp_path, expect=code, **values)
    assert output in done.stderr
    assert "Traceback" not in done.stderr
    assert TOKEN not in done.stderr


def test_compare_result_files(ciguard: Ciguard, tmp_path: Path) -> None:
    for name, failed in (("old", False), ("new", True)):
        (tmp_path / name).mkdir()
        text = JUNIT.format(failures=int(failed), more="<failure>no</failure>" if failed else "")
        (tmp_path / name / "r.xml").write_text(text)
    for base, head in (("old", "new"), ("old/*.xml", "new/r.xml")):
        done = ciguard("compare", base, head, "--fail-on", "new-failure", cwd=tmp_path, expect=10)
        assert FAILING.format("pkg.mod.C::t") in done.stdout
    (tmp_path / "new" / "r.xml").write_text(JUNIT.format(failures=0, more="")[:150])
    cut = ciguard("compare", "old", "new", cwd=tmp_path)
    assert cut.stdout.startswith("INCOMPLETE")


def test_result_files_in_artifacts_are_compared(
    ciguard: Ciguard, environ: dict[str, Any], server: FakeGitHub, tmp_path: Path
) -> None:
    """In attempt 2 of run 7 the test passes again."""
    for run, bad, time in ((5, (), "10:04"), (7, ["a.t::one"], "10:04"), (7, (), "11:04")):
        content = {"r/r.xml": junit(SHARDS["01"], bad)}
        at = f"2026-11-21T{time}:00Z"
        add_artifact(server, "results-01", content, run=run, created_at=at)
    add_job(server, "lint", run=5)
    second = "2026-11-21T11:00:00Z"
    add_job(server, "tests (01)", attempt=2, started_at=second, completed_at="2026-11-21T11:05:00Z")

    def compare(head: str, pattern: str = "results-{shard}/**/*.xml", code: int = 0) -> str:
        words = ("compare", "5", head, "--repo", REPOSITORY, "--results", pattern)
        done = ciguard(*words, cwd=tmp_path, expect=code, **environ)
        return done.stderr if code else done.stdout

    assert FAILING.format("a.t::one") in compare("7/1")
    assert "newly failing" not in compare("7")
    error = compare("7", "x/{shard}/*.xml", code=3)
    assert "HEAD: 7: --results x/{shard}/*.xml: no artifact of run 7 has such a name; it" in error
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "r.xml").write_bytes(junit(SHARDS["01"]))
    assert "no artifacts of a run are read" in compare("5", code=2)


def test_result_file_names_are_matched_to_record_names(ciguard: Ciguard, tmp_path: Path) -> None:
    legs = {"01": [case("pkg/mod.py::C::t", 1.0), case("pkg/mod.py::u", 0.2)]}
    for path, content in files_of(legs).items():
        target = tmp_path / "base" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    (tmp_path / "r.xml").write_text(JUNIT.format(failures=1, more="<failure>no</failure>"))
    done = ciguard("compare", "base", "r.xml", cwd=tmp_path)
    assert "r.xml: 2 of 2 cases (100 %) matched by name" in done.stderr
    assert FAILING.format("pkg/mod.py::C::t") in done.stdout
    assert "gone" not in done.stdout


def test_empty_folder_and_invalid_path_are_errors(tmp_path: Path) -> None:
    lookup = RecordFinder({}, tmp_path, None)
    with pytest.raises(InputError, match="no record and no result file"):
        lookup.on_disk(PathReference("."))
    assert not lookup.exists("x" * 10_000)
    assert not lookup.exists("\0")
    with pytest.raises(UsageError, match="the repository is not known"):
        lookup.on_github(RunId(7), "HEAD: 7")


def test_absolute_pattern_finds_result_files(tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text(JUNIT.format(failures=0, more=""))
    found = RecordFinder({}, tmp_path / "elsewhere", None).on_disk(
        PathReference(f"{tmp_path}/*.xml", wild=True)
    )
    assert [len(one.results) for one in found.records] == [2]


def test_ancestors_from_github(server: FakeGitHub) -> None:
    shas = [f"{number:040x}" for number in range(5)]
    server.merge_bases[f"{shas[1]}...{shas[4]}"] = shas[1]
    server.commits_of[f"{shas[1]}...{shas[4]}"] = shas[2:5]
    with GitHub(server.address, SecretStr(TOKEN)) as github:
        assert known_ancestors(github, REPOSITORY, shas[1], shas[4]) == set(shas[1:])
        assert [one.id for one in completed_runs(github, REPOSITORY, branch="main")] == [5]


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_ancestors_from_git(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    shas = []
    for number in range(3):
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", str(number))
        shas.append(git(tmp_path, "rev-parse", "HEAD"))
    git(tmp_path, "checkout", "-q", "-b", "other", shas[0])
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "aside")
    aside = git(tmp_path, "rev-parse", "HEAD")
    removed = "f" * 40
    by_git = CheckoutFiles(tmp_path, {}).ancestors_among
    found = ancestry_of(shas[1], [*shas, aside, removed], by_git)
    assert found.source == "git"
    assert found.ancestors == {shas[0], shas[1]}
    assert found.non_ancestors == {shas[2], aside}
    assert found.is_ancestor(removed) is None
    between = CheckoutFiles(tmp_path, {}).known_ancestors
    assert between(shas[0], shas[2]) == set(shas)
    assert between(shas[1], aside) == between(removed, shas[2]) == frozenset()
    git(tmp_path, "clone", "-q", "--depth", "1", "--no-local", ".", "shallow")
    assert CheckoutFiles(tmp_path / "shallow", {}).known_ancestors(aside, aside) == frozenset()
    by_git = CheckoutFiles(tmp_path / "shallow", {}).ancestors_among
    shallow = ancestry_of(aside, [*shas, aside], by_git)
    assert shallow.ancestors == {aside}
    assert not shallow.non_ancestors


def test_github_is_queried_if_git_has_no_ancestry(tmp_path: Path) -> None:
    shas = [f"{number:040x}" for number in range(3)]
    requested = []

    def query(old: str, new: str) -> frozenset[str]:
        requested.append((old, new))
        return frozenset(shas[:2])

    by_git = CheckoutFiles(tmp_path, {}).ancestors_among
    found = ancestry_of(shas[2], shas[:2], by_git, query)
    assert found.source == "github"
    assert found.ancestors == {shas[0], shas[1]}
    assert requested == [(shas[0], shas[2])]
    assert ancestry_of(None, shas, by_git, query).source is None
    assert ancestry_of(shas[2], [], by_git, query).source is None
