"""On a GitHub Enterprise Server: artifacts of generation 3, by actions in the repository itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from init.test_command import WORKFLOW
from init.test_workflow_files import FILLED_IN

from ciguard.config.file import load
from ciguard.init.workflow_files import LOCAL_FILES
from ciguard.plan.outputs import fill_matrix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from init.conftest import Init

BIN = Path(sys.executable).parent
OWN = "git@git.example:o/shop.git"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", OWN], check=True)
    (folder / "test_one.py").write_text("def test_one(): pass\n", "utf-8")
    return folder


def uses(folder: Path) -> set[str]:
    text = yaml.safe_load((folder / WORKFLOW).read_text("utf-8"))
    steps: list[Mapping[str, Any]] = [
        step for job in text["jobs"].values() for step in job["steps"]
    ]
    return {step["uses"] for step in steps if "uses" in step}


def test_enterprise_server_is_detected_from_origin(repository: Path, call: Init) -> None:
    answer = call(repository, "--yes")
    assert "https://git.example is treated as a GitHub Enterprise Server" in answer.stderr
    assert load(repository, {}).workflow.artifacts == 3
    assert not any("actions/upload-artifact" in one for one in uses(repository))
    for path in LOCAL_FILES:
        assert f"./{Path(path).parent.as_posix()}" in uses(repository)
        steps = yaml.safe_load((repository / path).read_text("utf-8"))["runs"]["steps"]
        assert any(step.get("uses", "").endswith("-artifact@v3") for step in steps)
    assert "up to date" in call(repository).stdout


@pytest.mark.parametrize(
    ("origin", "configured", "local"),
    [
        ("https://github.com/o/shop", "", False),
        ("https://shop.ghe.com/o/shop", "", False),
        ("/srv/git/shop.git", "", False),
        (OWN, "artifacts = 4", False),
        ("https://github.com/o/shop", "artifacts = 3", True),
    ],
)
def test_configured_artifact_version_overrides_origin(
    repository: Path, origin: str, configured: str, local: bool, call: Init
) -> None:
    subprocess.run(
        ["git", "-C", str(repository), "remote", "set-url", "origin", origin], check=True
    )
    (repository / "ciguard.toml").write_text(f"[workflow]\n{configured}\n", "utf-8")
    call(repository, "--yes")
    assert any(one.startswith("./") for one in uses(repository)) is local
    assert all((repository / path).exists() is local for path in LOCAL_FILES)


@pytest.mark.parametrize("words", [(), ("--static",), ("--checkpoint", "15m")])
def test_workflow_passes_actionlint_and_zizmor(
    repository: Path, words: tuple[str, ...], call: Init
) -> None:
    call(repository, "--yes", *words)
    if words == ("--static",):  # its matrix is filled in by `plan`
        text = (repository / WORKFLOW).read_text("utf-8")
        (repository / WORKFLOW).write_text(fill_matrix(text, FILLED_IN, "ciguard.yml"), "utf-8")
    lint = [str(BIN / "actionlint"), "-no-color", "-shellcheck=", "-pyflakes="]
    found = subprocess.run(lint, cwd=repository, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
    # Below that it proposes `$/` for `./`, which Enterprise Servers do not know.
    audit = [str(BIN / "zizmor"), "--offline", "--no-progress", "--min-severity=medium", "."]
    found = subprocess.run(audit, cwd=repository, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
