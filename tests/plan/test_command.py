"""`ciguard plan` as a user calls it: the real program, real suites, a clean environment."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import Ciguard, clean_environment
from plan.plan_requests import NONE, ids, plan_of

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "schemas" / "plan.schema.json"


def test_plan_without_configuration_collects_all_tests(project: Path, ciguard: Ciguard) -> None:
    plan = plan_of(ciguard("plan", "--shards", "2", "--format", "json", cwd=project).stdout)
    expected = subprocess.run(
        ["python", "-m", "pytest", "--collect-only", "-q"],
        cwd=project,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(ids(plan)) == sorted(line for line in expected.stdout.split("\n") if "::" in line)
    assert list(plan["suites"]) == [""]
    assert plan["suites"][""]["command"] == ["python", "-m", "pytest"]
    assert plan["inventory"]["files"] == {"tests/test_a.py": 8, "tests/test_empty.py": 0}
    assert len(plan["shards"]) == 2
    assert plan["repository"] is None


def test_python_without_pytest_is_named(project: Path, ciguard: Ciguard, tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho 'python: No module named pytest' >&2\nexit 1\n")
    python.chmod(0o755)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = ciguard("plan", "--shards", "2", cwd=project, expect=3, PATH=path)
    assert "fix: install pytest for this python" in done.stderr


def test_a_collection_error_is_an_error(project: Path, ciguard: Ciguard) -> None:
    (project / "tests" / "test_broken.py").write_text("import nowhere", "utf-8")
    (project / "tests" / "test_bad.py").write_text("def test(: pass", "utf-8")
    done = ciguard("plan", "--shards", "2", "-o", "plan.json", cwd=project, expect=3)
    assert "nowhere" in done.stderr
    assert "test_bad.py" in done.stderr
    assert done.stderr.count("fix: make every test collectable") == 2
    assert "Traceback (most recent call last)" not in done.stderr.replace("E   ", "")
    assert not (project / "plan.json").exists()


def test_what_the_framework_leaves_out_is_said_once(project: Path, ciguard: Ciguard) -> None:
    """Skipped at import, or deselected: no file "without a planned test"."""
    tests = project / "tests"
    (tests / "test_empty.py").write_text(
        "import pytest\npytest.importorskip('x', reason='needs x')"
    )
    (tests / "test_unit.py").write_text("import unittest\nraise unittest.SkipTest('not today')\n")
    slow = (
        "import pytest\n@pytest.mark.parametrize('x', 'abc')\n@pytest.mark.slow\ndef test(x): pass"
    )
    (tests / "test_slow.py").write_text(slow)
    options = "[pytest]\naddopts = -m 'not slow'\nmarkers = slow\n"
    (project / "pytest.ini").write_text(options)
    (project / "ciguard.toml").write_text(
        '[suite.""]\nargs = ["--deselect", "tests/test_a.py::TestC::test_1"]'
    )
    done = ciguard("plan", "-o", "plan.json", cwd=project)
    why = "addopts: -m 'not slow', --deselect 'tests/test_a.py::TestC::test_1'"
    assert plan_of((project / "plan.json").read_text())["suites"][""]["omitted"] == {
        "needs x": {"tests/test_empty.py": 0},
        "not today": {"tests/test_unit.py": 0},
        why: {"tests/test_a.py": 1, "tests/test_slow.py": 3},
    }
    shown = " ".join(done.stdout.split())
    assert f"deselected 4 tests by {why}" in shown
    assert "skipped files tests/test_empty.py (needs x), tests/test_unit.py (not today)" in shown
    assert "without a planned test" not in shown


def test_an_empty_inventory_is_nothing_to_do(tmp_path: Path, ciguard: Ciguard) -> None:
    done = ciguard("plan", "--inventory", "-", *NONE, cwd=tmp_path, stdin="\n\n", expect=5)
    assert "there is no test to plan" in done.stderr
    assert not done.stdout
    ciguard("plan", *NONE, cwd=tmp_path, expect=5)


def test_retries_of_a_suite_with_result_files_are_a_warning(listed: Path, ciguard: Ciguard) -> None:
    suite = '[suite.web]\nframework = "command"\nlist = ["cat", "units.txt"]\ncommand = ["true"]\n'
    for more, output in (("", False), ('results = ["*.xml"]\n', True)):
        (listed / "ciguard.toml").write_text(f"{suite}{more}[policy]\nretries = 1\n")
        done = ciguard("plan", "--shards", "2", "--history", "none", "--format", "json", cwd=listed)
        note = {"kind": "retries_without_effect", "facts": {"suites": ["web"]}}
        assert (note in plan_of(done.stdout)["warnings"]) is output
        assert ("policy.retries has no effect on web" in done.stderr) is output
    with (listed / "ciguard.toml").open("a") as file:
        file.write('[suite.""]\n')
    done = ciguard("plan", "--inventory", "units.txt", *NONE, "--format", "json", cwd=listed)
    assert "policy.retries" not in done.stderr, "none of its units is planned"


def test_unusual_ids_survive_planning(tmp_path: Path, ciguard: Ciguard) -> None:
    names = ["a\nb", "quote\"s'", "😀", "x" * 5000, "::", "t[a::b/c]", "\u2028", "-o"]
    packed = gzip.compress(json.dumps([{"unit": name} for name in names]).encode())
    (tmp_path / "units.json.gz").write_bytes(packed)
    words = ("plan", "--inventory", "units.json.gz", *NONE, "--shards", "3", "--group", "none")
    plan = plan_of(ciguard(*words, "--format", "json", cwd=tmp_path).stdout)
    assert sorted(ids(plan)) == sorted(names)
    ciguard(*words, cwd=tmp_path)


def test_artifact_and_output_hold_the_same_plan(listed: Path, ciguard: Ciguard) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE, "-o", "one.json", "--artifact", "deep/art")
    ciguard(*words, cwd=listed)
    folder = listed / "deep" / "art"
    assert sorted(path.name for path in folder.iterdir()) == ["ciguard-run.pyz", "plan.json"]
    assert (folder / "plan.json").read_bytes() == (listed / "one.json").read_bytes()
    first = (folder / "ciguard-run.pyz").read_bytes()
    ciguard(*words, cwd=listed)
    assert (folder / "ciguard-run.pyz").read_bytes() == first


def test_dash_means_stdout(listed: Path, ciguard: Ciguard) -> None:
    done = ciguard("plan", "--inventory", "units.txt", *NONE, "-o", "-", cwd=listed)
    assert len(ids(plan_of(done.stdout))) == 30


def test_unwritable_output_path_is_an_error(listed: Path, ciguard: Ciguard) -> None:
    (listed / "file").write_text("")
    done = ciguard(
        *("plan", "--inventory", "units.txt", *NONE, "-o", "file/plan.json"), cwd=listed, expect=3
    )
    assert "file/plan.json: cannot be written" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_an_error(listed: Path, ciguard: Ciguard) -> None:
    folder = listed / "locked"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    done = ciguard(
        *("plan", "--inventory", "units.txt", *NONE, "-o", "locked/plan.json"), cwd=listed, expect=3
    )
    assert "locked/plan.json: cannot be written" in done.stderr


def test_github_option_writes_outputs_and_summary(listed: Path, ciguard: Ciguard) -> None:
    sha = "a" * 40
    (listed / "outputs").write_text("before=1\n")
    done = ciguard(
        *("plan", "--inventory", "units.txt", *NONE, "--shards", "2", "--github"),
        *("--artifact", "art"),
        cwd=listed,
        GITHUB_ACTIONS="true",
        GITHUB_OUTPUT="outputs",
        GITHUB_STEP_SUMMARY="summary.md",
        GITHUB_REPOSITORY="o/r",
        GITHUB_WORKFLOW_REF="o/r/.github/workflows/tests.yml@refs/heads/main",
        GITHUB_SHA=sha,
        GITHUB_RUN_ID="7",
        GITHUB_RUN_ATTEMPT="3",
        GITHUB_REF_NAME="main",
        GITHUB_EVENT_NAME="push",
    )
    plan = json.loads((listed / "art" / "plan.json").read_bytes())
    lines = (listed / "outputs").read_text().splitlines()
    assert lines[0] == "before=1"
    reported = {
        line.partition("<<")[0]: lines[at + 1] for at, line in enumerate(lines) if "<<" in line
    }
    assert reported["plan_id"] == plan["id"]
    assert reported["plan_artifact"] == f"ciguard-plan-{plan['id']}-3"
    include = json.loads(reported["matrix"])["include"]
    assert [entry["shard"] for entry in include] == ["01", "02"]
    assert [(entry["timeout_minutes"], entry["step_timeout_minutes"]) for entry in include] == [
        (50, 45)
    ] * 2
    assert (plan["repository"], plan["workflow"], plan["head_sha"]) == ("o/r", "tests.yml", sha)
    assert f"- plan: {plan['id']}, o/r" in (listed / "summary.md").read_text()
    assert "::warning title=ciguard plan::there is no history" in done.stderr


@pytest.mark.parametrize(
    ("form", "begin"),
    [
        ("text", "30 tests in "),
        ("markdown", "### 30 tests in "),
        ("html", "<!doctype html>"),
        ("json", "{"),
    ],
)
def test_plan_is_printed_in_each_format(
    listed: Path, ciguard: Ciguard, form: str, begin: str
) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE, "--dry-run", "--format", form)
    assert ciguard(*words, cwd=listed).stdout.lower().startswith(begin.lower())


def test_a_dry_run_writes_nothing(listed: Path, ciguard: Ciguard) -> None:
    before = sorted(path.name for path in listed.iterdir())
    words = ("plan", "--inventory", "units.txt", *NONE, "--dry-run")
    done = ciguard(*words, "--shards", "2", cwd=listed)
    assert "in 2 shards" in done.stdout
    assert "was not written" not in done.stderr
    assert sorted(path.name for path in listed.iterdir()) == before
    refused = ciguard(*words, "-o", "plan.json", cwd=listed, expect=2)
    assert "--dry-run: nothing is written" in refused.stderr
