"""The actions of this repository: their pins, their libraries, and what they never import."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from init.test_isolation import shadowed_checkout
from packaging.requirements import Requirement

from ciguard import __version__
from ciguard.workflow.job_templates import ACTIONS

ROOT = Path(__file__).parents[2]
NAMES = ("plan", "run", "report", "history", "confirm", "coverage", "culprit", "site")
LOCK = ROOT / ".github" / "install" / "requirements.txt"
INSTALL = ROOT / ".github" / "install" / "install.sh"


def steps(name: str) -> list[dict[str, Any]]:
    content = yaml.safe_load((ROOT / "actions" / name / "action.yml").read_text("utf-8"))
    found: list[dict[str, Any]] = content["runs"]["steps"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_as_in_generated_workflows(name: str) -> None:
    text = (ROOT / "actions" / name / "action.yml").read_text("utf-8")
    used = re.findall(r"uses: (.+)", text)
    assert set(used) <= set(ACTIONS.values())
    assert not any("./" in one for one in used)  # that would be the user's checkout


@pytest.mark.parametrize("name", NAMES)
def test_script_of_an_action_holds_no_expression(name: str) -> None:
    assert not [step for step in steps(name) if "${{" in step.get("run", "")]


@pytest.mark.parametrize("name", NAMES)
def test_context_of_the_host_is_no_path_in_a_container(name: str) -> None:
    text = (ROOT / "actions" / name / "action.yml").read_text("utf-8")
    assert not re.search(r"\$\{\{ *(runner\.temp|github\.action_path|github\.workspace)", text)


def test_actions_pass_zizmor() -> None:
    program = str(Path(sys.executable).parent / "zizmor")
    command = [program, "--offline", "--no-progress", str(ROOT / "actions")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lock_holds_every_library_with_its_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {Requirement(one).name.lower() for one in project["dependencies"]}
    lock = LOCK.read_text("utf-8") + LOCK.with_name("uv.txt").read_text("utf-8")
    entries = re.split(r"\n(?=\S)", lock)
    locked = {one.partition("==")[0].lower(): one for one in entries if "==" in one}
    assert wanted | {"uv"} <= set(locked)
    assert all(one.count("--hash=sha256:") > 0 for one in locked.values())


def install(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Install as a step does, in a checkout that shadows modules."""
    checkout = shadowed_checkout(folder / "checkout")
    (folder / "output").touch()
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [shutil.which("bash") or "bash", str(INSTALL), sys.executable, str(folder / "environment")],
        cwd=checkout,
        env={
            **inherited,
            "GITHUB_OUTPUT": str(folder / "output"),
            "MARK": str(folder / "mark"),
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_prepared_interpreter_is_used_as_it_is(tmp_path: Path) -> None:
    done = install(tmp_path, CIGUARD_PYTHON="/opt/ciguard/bin/python")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text("utf-8") == "python=/opt/ciguard/bin/python\n"
    assert not (tmp_path / "environment").exists()


@pytest.mark.parametrize(
    ("there", "given", "found"),
    [
        ({}, "", ""),  # the action runs setup-python
        ({"python3": sys.executable}, "", "python3"),
        ({"python3": "/bin/false", "python3.12": sys.executable}, "", "python3.12"),
        ({"python3": sys.executable}, "/opt/ciguard/bin/python", "/opt/ciguard/bin/python"),
    ],
)
def test_python_of_the_runner_is_found(
    tmp_path: Path, there: dict[str, str], given: str, found: str
) -> None:
    for name, target in there.items():
        (tmp_path / name).symlink_to(target)
    output = tmp_path / "output"
    bash = shutil.which("bash") or "bash"
    environ = {"PATH": str(tmp_path), "GITHUB_OUTPUT": str(output), "CIGUARD_PYTHON": given}
    subprocess.run([bash, str(INSTALL.with_name("find_python.sh"))], env=environ, check=True)
    assert output.read_text("utf-8") == f"python={found}\n"


@pytest.mark.parametrize("name", ["plan", "report", "history", "confirm", "coverage", "culprit"])
def test_python_is_set_up_only_where_none_is_found(name: str) -> None:
    (setup,) = [step for step in steps(name) if "setup-python" in step.get("uses", "")]
    assert setup["if"] == "steps.find.outputs.python == ''"
    assert setup["with"]["update-environment"] is False


@pytest.mark.soak
@pytest.mark.parametrize("index", ["", "http://127.0.0.1:9/simple"])  # of uv; pip has its own
def test_installation_imports_nothing_of_the_checkout(tmp_path: Path, index: str) -> None:
    done = install(tmp_path, **({"UV_DEFAULT_INDEX": index} if index else {}))
    assert done.returncode == 0, done.stderr
    assert ("pip does" in done.stdout) == bool(index)
    assert not (tmp_path / "mark").exists()
    python = (tmp_path / "output").read_text("utf-8").strip().partition("=")[2]
    command = [python, "-I", "-m", "ciguard", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.stdout.strip().endswith(__version__), shown.stderr
    made = (tmp_path / "environment/pyvenv.cfg").stat().st_mtime_ns
    assert install(tmp_path).returncode == 0
    again = (tmp_path / "environment/pyvenv.cfg").stat().st_mtime_ns
    assert again == made, "a second action of the job installs nothing"
    assert (tmp_path / "output").read_text("utf-8") == f"python={python}\n" * 2


@pytest.mark.parametrize("token", ["", "cgr_0123456789"])
def test_run_action_hands_over_its_inputs_and_no_variable(tmp_path: Path, token: str) -> None:
    (step,) = [step for step in steps("run") if step.get("id") == "run"]
    program = "import json, os, sys\nprint(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
    (tmp_path / "ciguard-run.pyz").write_text(program, "utf-8")
    (tmp_path / "script.sh").write_text(step["run"], "utf-8")
    inputs = {
        **dict.fromkeys(step["env"], ""),
        "_CIGUARD_PLAN": str(tmp_path),
        "_CIGUARD_RECORD": "record",
        "_CIGUARD_SHARD": "03",
        "_CIGUARD_COMMAND": "dotnet test\nexit 0",
        "_CIGUARD_RESULTS": "out/**/*.trx\n\nmore results/*.xml\n",
        "_CIGUARD_LIMIT": "30m",
        "_CIGUARD_CLAIMS_TOKEN": token,
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    own = {"PATH": path, "SHARD": "of the job", "python": "3.13"}
    command = ["bash", "-eo", "pipefail", str(tmp_path / "script.sh")]
    done = subprocess.run(
        command, env={**own, **inputs}, capture_output=True, text=True, check=True
    )
    words, environ = json.loads(done.stdout)
    assert " ".join(words) == (
        f"--plan {tmp_path}/plan.json --shard 03 --record record --github "
        f"--script {tmp_path}/command --limit 30m "
        "--results out/**/*.trx --results more results/*.xml"
    )
    assert (tmp_path / "command").read_text("utf-8") == "dotnet test\nexit 0\n"
    assert {name: environ.get(name) for name in own} == own
    assert not [name for name in environ if name.startswith("_CIGUARD_")]
    assert environ.get("CIGUARD_CLAIMS_TOKEN", "") == token
    assert ("CIGUARD_CLAIMS_TOKEN" in environ) == bool(token)
