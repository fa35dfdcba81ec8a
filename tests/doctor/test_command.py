"""`ciguard doctor` as a user calls it, in folders that lack something, and beside a real server."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Ciguard, clean_environment
from fakegithub.actions import add_artifact, add_run
from fakegithub.server import serving
from fakegithub.state import TOKEN, FakeGitHub, Fault, Login
from init.move_in_samples import NO_ADDRESS

if TYPE_CHECKING:
    Look = Callable[..., dict[str, dict[str, Any]]]

ACTIONS = 'actions = "octo-org/ciguard@0123abc"\n'
# Lists in no time, for what is not about listing.
CONFIGURATION = f"""{ACTIONS}
[suite.unit]
framework = "command"
list = ["echo", "t"]
command = ["true", "{{units_file}}"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clone of an empty repository, with one test, configured."""
    for words in (["--bare", "-b", "main", "origin.git"], ["-b", "main", "shop"]):
        subprocess.run(["git", "init", "-q", *words], cwd=tmp_path, check=True)
    shop = tmp_path / "shop"
    origin = ["git", "remote", "add", "origin", str(tmp_path / "origin.git")]
    subprocess.run(origin, cwd=shop, check=True)
    (shop / "test_one.py").write_text("def test_one(): pass\n", "utf-8")
    (shop / "ciguard.toml").write_text(CONFIGURATION, "utf-8")
    return shop


def checks(text: str) -> dict[str, dict[str, Any]]:
    """By name; of several the last."""
    found = json.loads(text)
    assert found["schema"] == 1
    return {one["name"]: one for one in found["checks"]}


@pytest.fixture
def look(folder: Path, ciguard: Ciguard, environ: dict[str, Any]) -> Look:
    def looked(expect: int = 0) -> dict[str, dict[str, Any]]:
        words = ("doctor", "--format", "json", "--repo", "octo-org/shop")
        done = ciguard(*words, cwd=folder, expect=expect, **environ)
        assert TOKEN not in done.stdout + done.stderr
        return checks(done.stdout)

    return looked


def test_complete_project_passes_all_checks(
    folder: Path, ciguard: Ciguard, look: Look, server: FakeGitHub
) -> None:
    (folder / "ciguard.toml").write_text(ACTIONS, "utf-8")
    ciguard("init", "--yes", cwd=folder)
    found = look()
    assert {name: one["level"] for name, one in found.items()} == {
        "configuration": "ok",
        "git": "ok",
        "tests": "ok",
        "actions": "ok",
        "workflow": "ok",
        "history": "warning",  # there is none yet
        "GitHub": "ok",
        "token": "ok",
        "drill": "ok",
    }
    assert found["tests"]["what"] == "pytest lists 1 test"
    assert found["actions"]["what"].startswith("workflows use ")
    (folder / ".github/workflows/ciguard.yml").unlink()
    assert "workflows would use " in ciguard("doctor", "--offline", cwd=folder).stdout
    assert [one for one in server.request_log() if not one.startswith("GET ")] == []


def test_missing_parts_are_reported_with_a_fix(folder: Path, ciguard: Ciguard) -> None:
    (folder / "test_two.py").write_text("import nowhere\n", "utf-8")
    (folder / "ciguard.toml").unlink()
    done = ciguard("doctor", "--offline", cwd=folder, expect=3, **NO_ADDRESS)
    assert "warning  configuration  none: the defaults apply\n" in done.stdout
    assert "error    actions" in done.stdout
    said = " ".join(done.stdout.split())
    named = re.search(r"pytest lists 1 test by (\S+), and 1 error: test_two\.py: ", said)
    assert named
    assert Path(named[1]).is_file()
    assert "ModuleNotFoundError: No module named 'nowhere' fix: " in said
    assert "\n2 errors, " in done.stdout
    # A path is never broken.
    assert all(len(line) <= 80 or str(folder.parent) in line for line in done.stdout.splitlines())


def test_reason_on_stderr_is_quoted(folder: Path, ciguard: Ciguard) -> None:
    (folder / "ciguard.toml").write_text(ACTIONS, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n", "utf-8")
    done = ciguard("doctor", "--offline", cwd=folder, expect=3)
    said = " ".join(done.stdout.split())
    assert "no inventory: python -m pytest: error: unrecognized arguments: --no-such-option" in said


def test_local_history_file_is_a_warning(folder: Path, ciguard_process: Ciguard) -> None:
    text = f'{CONFIGURATION}[history]\nstore = "h.ciguard"\n'
    (folder / "ciguard.toml").write_text(text, "utf-8")
    done = ciguard_process("doctor", "--offline", cwd=folder)
    assert "warning  history        history.store is the file h.ciguard: " in done.stdout
    assert 'fix: set store = "branch:ciguard-history"' in done.stdout


def test_pool_without_memory_for_tests_is_an_error(folder: Path, ciguard: Ciguard) -> None:
    (folder / "ciguard.toml").write_text('[pool.one]\nmemory = "1GiB"\n', "utf-8")
    found = checks(ciguard("doctor", "--offline", "--format", "json", cwd=folder, expect=3).stdout)
    assert found["tests"]["what"] == "pool.one: memory 1.00 GiB is not above reserve 1.00 GiB"


def test_folder_without_repository_gets_git_init_as_fix(tmp_path: Path, ciguard: Ciguard) -> None:
    words = ("doctor", "--offline", "--format", "json")
    ceiling = str(tmp_path.parent)
    (tmp_path / "ciguard.toml").write_text(ACTIONS, "utf-8")
    done = ciguard(*words, cwd=tmp_path, expect=3, GIT_CEILING_DIRECTORIES=ceiling)
    found = checks(done.stdout)
    assert found["git"]["what"] == "this folder is in no git repository"
    assert found["git"]["fix"].startswith("git init, then git remote add origin ADDRESS")
    assert found["workflow"]["fix"].endswith("or begin one: git init")


def test_printed_commands_repair_what_was_found(folder: Path, ciguard: Ciguard) -> None:
    (folder / "ciguard.toml").unlink()
    subprocess.run(["rm", "-r", ".git"], cwd=folder, check=True)
    words = ("doctor", "--offline")
    around = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "CIGUARD_ACTIONS": ACTIONS[11:-2]}
    asked = ciguard(*words, cwd=folder, expect=3, **around)
    _, _, commands = asked.stdout.partition("\n\nCommands that repair this:\n")
    assert commands == "  git init\n  ciguard init\n"
    environ = clean_environment(**around)
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"y\n" * 9)
    for command in commands.splitlines():
        subprocess.run(["sh", "-c", command], cwd=folder, env=environ, stdin=terminal, check=True)
    os.close(keyboard)
    os.close(terminal)
    assert "Commands" not in ciguard(*words, cwd=folder, CIGUARD_ACTIONS=ACTIONS[11:-2]).stdout


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ({"gated": "pytest --cov --cov-fail-under=$MIN"}, "--new"),
        (
            {"gated": "pytest --cov --cov-fail-under=$MIN", "fast": "pytest -q", "slow": "pytest"},
            "--into .github/workflows/ci.yml --job fast --step 1",
        ),
    ],
)
def test_printed_init_neither_asks_for_a_job_nor_refuses(
    folder: Path, ciguard: Ciguard, jobs: dict[str, str], words: str
) -> None:
    (folder / "ciguard.toml").unlink()
    (folder / ".github/workflows").mkdir(parents=True)
    text = "on: push\njobs:\n"
    for job, run in jobs.items():
        text += f"  {job}:\n    runs-on: ubuntu-latest\n    steps:\n      - run: {run}\n"
    (folder / ".github/workflows/ci.yml").write_text(text, "utf-8")
    for words_of_git in ("add .", "-c user.name=a -c user.email=a@example.org commit -qm tests"):
        subprocess.run(["git", *words_of_git.split()], cwd=folder, check=True)
    actions = ACTIONS[11:-2]
    printed = ciguard("doctor", "--offline", cwd=folder, CIGUARD_ACTIONS=actions).stdout
    assert f"Commands that repair this:\n  ciguard init {words}\n" in printed
    ciguard("init", *words.split(), "--yes", cwd=folder, CIGUARD_ACTIONS=actions)
    assert (
        "Commands" not in ciguard("doctor", "--offline", cwd=folder, CIGUARD_ACTIONS=actions).stdout
    )


@pytest.mark.parametrize(
    ("conclusion", "artifact", "level", "what"),
    [
        ("failure", "ciguard-plan-drill-timeout-0123456789ab-1", "ok", "was run 8 of 2026-11-20"),
        ("success", "ciguard-plan-drill-timeout-0123456789ab-1", "error", "of 2026-11-20: success"),
        ("failure", "ciguard-plan-0123456789ab-1", "ok", "none among the last 1 run that"),
    ],
)
def test_last_drill_is_named(
    look: Look, server: FakeGitHub, *, conclusion: str, artifact: str, level: str, what: str
) -> None:
    facts = {"event": "workflow_dispatch", "created_at": "2026-11-20T10:00:00Z"}
    add_run(server, 8, conclusion=conclusion, **facts)
    add_artifact(server, artifact, {"plan.json": b""}, run=8)
    drill = look(expect=3 if level == "error" else 0)["drill"]
    assert drill["level"] == level
    assert what in drill["what"]


def test_dubious_ownership_error_of_git_is_shown(folder: Path, ciguard: Ciguard) -> None:
    """As in a container job, where the checkout belongs to the runner's user."""
    owner = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    words = ("doctor", "--format", "json")
    found = checks(ciguard(*words, cwd=folder, expect=3, **owner).stdout)
    for name in ("git", "workflow", "history"):
        assert "dubious ownership" in found[name]["what"]
        advice = found[name]["fix"] or found[name]["command"]
        assert advice.startswith("git config --global --add safe.directory ")
    said = ciguard("init", "--yes", cwd=folder, expect=2, **owner).stderr
    assert "dubious ownership" in said
    assert "git init" not in said


def test_pyproject_without_ciguard_section_is_no_configuration(
    folder: Path, ciguard: Ciguard
) -> None:
    words = ("doctor", "--offline", "--format", "json")
    (folder / "ciguard.toml").unlink()
    project = folder / "pyproject.toml"
    project.write_text('[project]\nname = "shop"\n', "utf-8")
    found = checks(ciguard(*words, cwd=folder, expect=3, **NO_ADDRESS).stdout)["configuration"]
    assert found["level"] == "warning"
    assert found["what"] == "none: the defaults apply"
    project.write_text(f"[tool.ciguard]\n{ACTIONS}", "utf-8")
    found = checks(ciguard(*words, cwd=folder).stdout)["configuration"]
    assert (found["level"], found["what"]) == ("ok", "pyproject.toml")


def test_workflow_only_checks_are_no_errors_without_an_origin(
    folder: Path, ciguard: Ciguard
) -> None:
    words = ("doctor", "--format", "json")
    (folder / "ciguard.toml").write_text("", "utf-8")
    found = checks(ciguard(*words, cwd=folder, expect=3, **NO_ADDRESS).stdout)
    assert found["actions"]["level"] == "error"
    subprocess.run(["git", "remote", "remove", "origin"], cwd=folder, check=True)
    found = checks(ciguard(*words, cwd=folder, expect=0, **NO_ADDRESS).stdout)
    assert {found[name]["level"] for name in ("git", "actions", "history")} == {"warning"}
    assert all(found[name]["fix"] for name in ("git", "actions", "history"))
    # By hand a file of the history is read: that it cannot be is an error, origin or not.
    (folder / "damaged").write_bytes(b"ciguard history")
    (folder / "ciguard.toml").write_text('[history]\nstore = "damaged"\n', "utf-8")
    found = checks(ciguard(*words, cwd=folder, expect=3).stdout)
    assert found["history"]["level"] == "error"


def test_configuration_error_skips_the_other_checks(folder: Path, ciguard: Ciguard) -> None:
    (folder / "ciguard.toml").write_text("[plan]\nshard = 2\n", "utf-8")
    done = ciguard("doctor", "--format", "json", cwd=folder, expect=3)
    found = checks(done.stdout)
    assert list(found) == ["git", "configuration"]
    assert found["configuration"]["fix"] == "did you mean shards?"


def test_changed_workflow_is_a_warning(folder: Path, ciguard: Ciguard) -> None:
    path = folder / ".github/workflows/ciguard.yml"
    ciguard("init", "--yes", cwd=folder)
    words = ("doctor", "--offline", "--format", "json")
    assert checks(ciguard(*words, cwd=folder).stdout)["workflow"]["level"] == "ok"
    text = path.read_text("utf-8")
    path.write_text(text.replace("if: always()", "if: success()"), "utf-8")
    found = checks(ciguard(*words, cwd=folder).stdout)["workflow"]
    assert found["level"] == "warning"
    assert "was edited or written by hand" in found["what"]
    assert found["fix"] == "to see the differences, run ciguard init"
    path.write_text(text, "utf-8")
    config = folder / "ciguard.toml"
    config.write_text(f"{CONFIGURATION}[workflow]\ncheckpoint = '15m'\n", "utf-8")
    found = checks(ciguard(*words, cwd=folder).stdout)["workflow"]
    assert found["level"] == "warning"
    assert "does not match the configuration and this version" in found["what"]


AGGREGATION = """
on: push
jobs:
  ciguard:
    steps: [{uses: octo-org/ciguard/actions/plan@0123abc}]
  test:
    needs: ciguard
    steps: [{uses: octo-org/ciguard/actions/run@0123abc}]
  all-green:
    needs: test
    if: always()
    steps: [{run: exit 1, if: "contains(needs.*.result, 'failure')"}]
  gate:
    needs: test
    if: always()
    steps: [{run: exit 1, if: needs.test.result == 'failure'}]
"""


def test_aggregation_job_without_the_planning_job_is_a_warning(
    folder: Path, ciguard: Ciguard
) -> None:
    ciguard("init", "--yes", cwd=folder)
    workflows = folder / ".github/workflows"
    (workflows / "tests.yaml").write_text(AGGREGATION, "utf-8")
    (workflows / "broken.yml").write_text("jobs: [", "utf-8")
    (workflows / "large.yml").write_text("#" * (1 << 20) + "\n", "utf-8")
    (workflows / "notes.txt").write_text("jobs: [", "utf-8")
    done = ciguard("doctor", "--offline", "--format", "json", cwd=folder)
    found = [one for one in json.loads(done.stdout)["checks"] if one["name"] == "aggregation"]
    assert {one["level"] for one in found} == {"warning"}
    broken, large, all_green, gate = found
    assert broken["what"].startswith(".github/workflows/broken.yml: not YAML: ")
    assert large["what"].startswith(".github/workflows/large.yml: 1,048,577 characters")
    assert all_green["what"].startswith(".github/workflows/tests.yaml: job all-green is green if")
    assert all_green["fix"] == "add `ciguard` to its needs"
    assert gate["fix"] == "add `ciguard` to its needs, and test needs.ciguard.result as well"


@pytest.mark.parametrize(
    ("required", "level", "what"),
    [
        (["lint", "ciguard"], "ok", "a required check fails if a test is lost"),
        (
            ["ciguard plan", "lint"],
            "warning",
            "no required check fails if a test is lost; green if a test is lost: ciguard plan "
            "(job plan)",
        ),
        (["lint"], "warning", "no required check fails if a test is lost"),
        ([], "", ""),
    ],
)
def test_required_check_that_is_green_over_a_lost_test_is_a_warning(
    folder: Path,
    ciguard: Ciguard,
    look: Look,
    server: FakeGitHub,
    *,
    required: list[str],
    level: str,
    what: str,
) -> None:
    ciguard("init", "--yes", cwd=folder)
    server.required_by_rules = required
    found = look()
    file = ".github/workflows/ciguard.yml"
    expected = {"name": "required check", "level": level, "what": f"{file}: {what}", "command": ""}
    fix = "require the check ciguard in the rules of the branch" if level == "warning" else ""
    assert found.get("required check") == ({**expected, "fix": fix} if level else None)


def test_enterprise_server_with_a_restricted_token(folder: Path, ciguard: Ciguard) -> None:
    ciguard("init", "--yes", cwd=folder)
    with serving(prefix="/api/v3") as server:
        server.tokens[TOKEN] = Login()
        refused = "Resource not accessible by integration"
        server.faults.append(Fault(path="/check-runs/", status=403, message=refused))
        site = server.address.removesuffix("/api/v3")
        subprocess.run(
            ["git", "remote", "set-url", "origin", f"{site}/octo-org/shop.git"],
            cwd=folder,
            check=True,
        )
        environ = {"GITHUB_TOKEN": TOKEN, "NO_PROXY": "*", "GITHUB_SERVER_URL": site}
        done = ciguard("doctor", "--format", "json", cwd=folder, expect=3, **environ)
    found = checks(done.stdout)
    assert found["history"]["level"] == "error"  # that server has no git
    assert found["token"]["what"].startswith("does not have checks: read")
    assert found["token"]["level"] == "warning"


def test_unreachable_server_is_an_error_unless_offline(folder: Path, ciguard: Ciguard) -> None:
    with serving() as server:
        address = server.address
    words = ["git", "remote", "set-url", "origin", f"{address}/octo-org/shop.git"]
    subprocess.run(words, cwd=folder, check=True)
    environ = {"GITHUB_API_URL": address, "GITHUB_TOKEN": TOKEN, "NO_PROXY": "*"}
    asked = ("doctor", "--format", "json", "--repo", "octo-org/shop")
    found = checks(ciguard(*asked, cwd=folder, expect=3, **environ).stdout)
    for name, what, fix in (
        ("GitHub", "no answer", "GITHUB_API_URL"),
        ("history", "cannot be fetched", "git ls-remote"),
    ):
        assert found[name]["level"] == "error"
        assert what in found[name]["what"]
        assert fix in found[name]["fix"]
    (folder / "ciguard.toml").write_text(ACTIONS, "utf-8")
    found = checks(ciguard(*asked, "--offline", cwd=folder, expect=0, **environ).stdout)
    assert "GitHub" not in found
    assert found["history"]["what"].startswith("not checked")


COMMENT = """
on: push
jobs:
  ciguard:
    steps: [{uses: octo-org/ciguard@0123abc}]
"""
BY_JOBS = "listed by the jobs that run them, not by the job that plans"


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [
        ("", {"configuration": "none: the defaults apply", "actions": "the repository of"}),
        (COMMENT, {"configuration": "none: a job that only comments needs none"}),
        (AGGREGATION, {"configuration": "none: the defaults apply", "tests": BY_JOBS}),
        (
            AGGREGATION.replace("plan@0123abc}", "plan@0123abc, with: {collect: here}}"),
            {"configuration": "none: the defaults apply", "tests": "pytest lists 1 test"},
        ),
    ],
)
def test_only_what_the_workflows_need_is_checked(
    folder: Path, ciguard: Ciguard, workflow: str, expected: dict[str, str]
) -> None:
    (folder / "ciguard.toml").unlink()
    (folder / ".github/workflows").mkdir(parents=True)
    (folder / ".github/workflows/tests.yml").write_text(workflow, "utf-8")
    if not workflow:
        (folder / "test_one.py").unlink()
    words = ("doctor", "--offline", "--format", "json")
    done = ciguard(*words, cwd=folder, expect=0 if workflow else 3, **NO_ADDRESS)
    found = {name: one["what"] for name, one in checks(done.stdout).items()}
    assert found.keys() & {"tests", "configuration", "actions"} == expected.keys()
    assert all(found[name].startswith(text) for name, text in expected.items())
