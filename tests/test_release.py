"""A release: the steps of its workflow, what it builds, and the versions that its files have."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from conftest import Ciguard
from packaging.version import Version

from ciguard import __version__
from ciguard.compare import json as comparison
from ciguard.doctor import checks
from ciguard.experiment import view as experiment
from ciguard.guard import json as verdict
from ciguard.history.file import HISTORY_SCHEMA
from ciguard.model import SCHEMA
from ciguard.workflow.job_templates import ACTIONS

ROOT = Path(__file__).parent.parent
WORKFLOW = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
# Read from the tag of the action's repository, 2026-11, and in Click's release workflow, 2026-08.
ATTEST = "actions/attest-build-provenance@a2bbfa25375fe432b6a289bc6b6cd05ecd0c4c32 # v4.1.0"
PUBLISH = "pypa/gh-action-pypi-publish@ba38be9e461d3875417946c167d0b5f3d385a247 # v1.14.1"

# The newest version on the package index, "" before the first; the commit with its tag sets it.
PUBLISHED = ""


def run_step(name: str, folder: Path, tag: str) -> subprocess.CompletedProcess[str]:
    steps = yaml.safe_load(WORKFLOW)["jobs"]["build"]["steps"]
    (script,) = [step["run"] for step in steps if step.get("name") == name]
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "GITHUB_REF_NAME": tag},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("tag", "code"), [(f"v{__version__}", 0), ("v9.9.9", 1)])
def test_release_needs_the_tag_of_its_version(tag: str, code: int) -> None:
    answer = run_step("Compare the tag with the version", ROOT, tag)
    assert answer.returncode == code, answer.stderr
    assert ("::error::the tag is v9.9.9" in answer.stdout) is bool(code)


@pytest.mark.parametrize(("tag", "code"), [(f"v{__version__}", 0), ("v9.9.9", 1)])
def test_release_notes_are_the_section_of_the_changelog(
    tmp_path: Path, tag: str, code: int
) -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    (tmp_path / "CHANGELOG.md").write_text(f"{text}\n## 0.0.1\n\nAn older one.\n", "utf-8")
    answer = run_step("Take the notes from the changelog", tmp_path, tag)
    assert answer.returncode == code, answer.stderr
    notes = (tmp_path / "notes.md").read_text("utf-8")
    assert ("The first version: plan" in notes) is (code == 0)
    assert "An older one" not in notes


def test_changelog_keeps_its_form_and_dates_what_is_published() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    first, *titles = re.findall(r"(?m)^## \[(.+)\](?: - (\d{4}-\d\d-\d\d))?$", text)
    assert (first, len(titles)) == (("Unreleased", ""), text.count("\n## ") - 1)
    for version, date in titles:
        assert bool(date) is (Version(version) <= Version(PUBLISHED or "0"))
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"(?m)^#{3,} (.*)$", text)) <= kinds


def test_texts_install_by_name_what_is_published() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("templates/*.j2")]
    by_name = re.compile(r"""(?:pip install|uvx|pipx run) ["']?ciguard-shards""")
    found = {page.name for page in pages if by_name.search(page.read_text("utf-8"))}
    assert ("README.md" in found) if PUBLISHED else not found
    readme = (ROOT / "README.md").read_text("utf-8")
    assert ("is not on the package" in readme) is not bool(PUBLISHED)
    install = readme.partition("## Install")[2].partition("\n## ")[0]
    assert "HOST/" not in install
    assert re.findall(r"(?m)^    (\w+)", install)[:2] == ["uv", "pipx"]


def test_release_uses_the_pins_of_generated_workflows() -> None:
    assert set(re.findall(r"uses: (.+)", WORKFLOW)) <= {*ACTIONS.values(), ATTEST, PUBLISH}


def test_only_jobs_that_run_no_code_of_the_repository_may_write() -> None:
    jobs = yaml.safe_load(WORKFLOW)["jobs"]
    writing = {name for name, job in jobs.items() if "write" in job["permissions"].values()}
    assert writing == {"publish", "release"}
    for name in writing:
        assert not any("checkout" in step.get("uses", "") for step in jobs[name]["steps"])
    assert [name for name, job in jobs.items() if "id-token" in job["permissions"]] == ["publish"]


def test_packages_are_attested_on_the_index_and_no_tag_moves() -> None:
    jobs = yaml.safe_load(WORKFLOW)["jobs"]
    last = jobs["publish"]["steps"][-1]
    # The action attests (PEP 740) unless it is told not to, or has a password.
    assert last["uses"] == PUBLISH.partition(" ")[0]
    assert last["with"] == {"packages-dir": "dist/packages"}
    (create,) = [step["run"] for step in jobs["release"]["steps"] if "run" in step]
    assert create.startswith('gh release create "$GITHUB_REF_NAME" dist/*.* dist/packages/* ')
    assert "git/refs" not in WORKFLOW


@pytest.mark.soak
def test_release_builds_wheel_source_program_and_bill_of_materials(tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "clone")], check=True)
    folder = tmp_path / "clone"
    (folder / ".venv").symlink_to(Path(sys.executable).parent.parent)
    answer = subprocess.run(
        ["make", "-o", ".venv/.installed", "dist", "sbom"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    stem = f"packages/ciguard_shards-{__version__}"
    built = (path for path in (folder / "dist").rglob("*") if path.is_file())
    assert {path.relative_to(folder / "dist").as_posix() for path in built} == {
        *(f"{stem}.tar.gz", f"{stem}-py3-none-any.whl"),
        *("ciguard-run.pyz", "ciguard-shards.cdx.json"),
    }
    materials = json.loads((folder / "dist/ciguard-shards.cdx.json").read_text("utf-8"))
    root = materials["metadata"]["component"]
    assert (root["name"], root["version"]) == ("ciguard-shards", __version__)
    pins = set((ROOT / "constraints.txt").read_text("utf-8").split())
    assert {f"{one['name']}=={one['version']}" for one in materials["components"]} <= pins
    program = folder / "dist/ciguard-run.pyz"
    assert "ciguard/run/__main__.py" in zipfile.ZipFile(program).namelist()
    helped = subprocess.run(
        [sys.executable, str(program), "--help"], capture_output=True, text=True, check=True
    )
    assert "--shard" in helped.stdout


def test_table_of_file_versions_matches_the_code() -> None:
    text = (ROOT / "docs/reference/json.md").read_text("utf-8").partition("## Versions of")[2]
    head, _, *rows = (line.split("|")[1:-1] for line in text.splitlines() if line[:1] == "|")
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert [cell.strip() for cell in head[1:-1]] == re.findall(r"(?m)^## \[([^]]+)\]", changelog)[
        ::-1
    ]
    assert {name.strip(): int(row[-2]) for row in rows for name in row[0].split(",")} == {
        **dict.fromkeys(("plan", "record"), SCHEMA),
        "history": HISTORY_SCHEMA,
        "verdict": verdict.SCHEMA,
        "comparison": comparison.SCHEMA,
        "experiment": experiment.SCHEMA,
        "doctor": checks.SCHEMA,
    }


def test_other_project_of_the_same_package_name_is_refused(
    tmp_path: Path, ciguard_process: Ciguard
) -> None:
    other = tmp_path / "ciguard-1.4.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: ciguard\nVersion: 1.4\n")
    done = ciguard_process("plan", cwd=tmp_path, expect=2, PYTHONPATH=str(tmp_path))
    assert "the distribution ciguard 1.4 of another project is installed in" in done.stderr
    assert "a separate environment" in done.stderr


def test_distribution_has_a_script_of_its_own_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"][project["name"]] == project["scripts"]["ciguard"]
