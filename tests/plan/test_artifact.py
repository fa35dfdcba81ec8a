from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

from ciguard.plan.outputs import EXCLUDED, PROGRAM, artifact_name, members, zipped
from ciguard.run.frameworks.registry import FRAMEWORKS, PACKED

PACKAGE = files("ciguard")
LARGEST_BYTES = 300_000


def names() -> set[str]:
    with zipfile.ZipFile(io.BytesIO(zipped(members(PACKAGE)))) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


def test_pyz_contains_only_the_modules_that_a_leg_needs() -> None:
    found = names()
    folder = Path(str(PACKAGE))
    complete = {
        f"ciguard/{path.relative_to(folder).as_posix()}"
        for place in ("model", "run")
        for path in (folder / place).rglob("*.*")
        if path.suffix in (".py", ".cjs", ".mjs", ".rb", ".jar", ".cs")
    }
    elsewhere = {f"ciguard/{name}" for name in EXCLUDED}
    assert elsewhere - complete == {"ciguard/run/plugins/CiguardListener.java"}
    assert found == (complete - elsewhere) | {
        "__main__.py",
        "ciguard/run/plugins/packed.txt",
        "ciguard/__init__.py",
        "ciguard/errors.py",
        "ciguard/text.py",
        "ciguard/codec/__init__.py",
        "ciguard/codec/record/__init__.py",
        "ciguard/codec/record/lines.py",
        "ciguard/codec/plan_file.py",
    }
    assert "ciguard/run/frameworks/command.py" in found


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    """Wherever the package lies, whatever its files' times and modes are."""
    copied = tmp_path / "ciguard"
    shutil.copytree(Path(str(PACKAGE)), copied)
    for path in copied.rglob("*.py"):
        path.chmod(0o755)
        path.touch()
    (copied / "run" / "__pycache__").mkdir(exist_ok=True)
    (copied / "run" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (copied / "run" / ".hidden").write_bytes(b"x")
    one, other = (zipped(members(place)) for place in (PACKAGE, copied))
    assert one == other


def test_changed_source_changes_the_pyz() -> None:
    contents = members(PACKAGE)
    changed = {**contents, "ciguard/errors.py": contents["ciguard/errors.py"] + b"\n"}
    assert zipped(contents) != zipped(changed)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_pyz_has_the_plugins_of_its_own_suites(framework: str, tmp_path: Path) -> None:
    contents = members(PACKAGE, {framework})
    plugins = {name.rpartition("/")[2] for name in contents if "/run/plugins/" in name}
    assert plugins >= set(FRAMEWORKS[framework].plugin_files)
    assert ("ciguard_go.py" in plugins) == (framework == "go")
    assert ("ciguard_ruby.rb" in plugins) == (framework in ("rspec", "minitest"))
    assert len(zipped(contents)) < LARGEST_BYTES
    program = tmp_path / PROGRAM
    program.write_bytes(zipped(contents))
    code = "from ciguard.run.plugin_files import extract_plugins; extract_plugins('inside')"
    environ = {"PYTHONPATH": str(program)}
    subprocess.run([sys.executable, "-S", "-c", code], check=True, cwd=tmp_path, env=environ)
    there = {path.name for path in (tmp_path / "inside").iterdir()}
    assert there == plugins - {"__init__.py", PACKED}
    sources = "".join(path.read_text() for path in (tmp_path / "inside").glob("*.py"))
    needed = {f"{name}.py" for name in re.findall(r"(?:from|import) (ciguard_\w+)", sources)}
    assert needed <= there, "what a plugin imports is packed with it"


def test_pyz_is_small_and_runs_without_dependencies(tmp_path: Path) -> None:
    program = tmp_path / PROGRAM
    program.write_bytes(zipped(members(PACKAGE, {"pytest"})))
    assert program.stat().st_size < LARGEST_BYTES
    done = subprocess.run(
        [sys.executable, "-I", "-S", program, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "--shard KEY" in done.stdout


def test_artifact_name_is_valid_on_github() -> None:
    name = artifact_name("0123456789ab", 2)
    assert name == "ciguard-plan-0123456789ab-2"
    assert not re.search(r'[":<>|*?\r\n\\/]', name)
