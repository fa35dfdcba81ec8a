"""The house itself: what starts fast, what ships in the wheel, and what a bare machine needs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import made_once

ROOT = Path(__file__).parent.parent
HEAVY = ("gidgethub", "httpx", "jinja2", "numpy", "pydantic", "re2", "rich", "stamina", "yaml")


def modules_loaded_by(statement: str) -> set[str]:
    """Names in sys.modules of a fresh interpreter after the statement."""
    program = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(answer.stdout.split())


def test_command_line_imports_no_heavy_library() -> None:
    loaded = modules_loaded_by("import ciguard.cli")
    assert "click" in loaded
    assert not loaded & set(HEAVY)


def test_guard_imports_no_numpy() -> None:
    assert "numpy" not in modules_loaded_by("import ciguard.guard.command")


def test_heavy_library_import_is_detected() -> None:
    assert "yaml" in modules_loaded_by("import ciguard.cli, yaml")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The wheel of this checkout, built without a network."""

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(ROOT)]
        answer = subprocess.run(
            [*command, "--outdir", str(folder)], capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr

    (path,) = made_once(tmp_path_factory, "wheel", build).glob("*.whl")
    return zipfile.Path(path)


def test_wheel_contains_only_package_and_templates(wheel: zipfile.Path) -> None:
    names = set(wheel.root.namelist())
    for path in [*ROOT.glob("ciguard/**/*.py"), *ROOT.glob("templates/**/*.j2")]:
        name = path.relative_to(ROOT).as_posix()
        assert (f"ciguard/{name}" if name.startswith("templates/") else name) in names
    tops = {name.split("/")[0] for name in names}
    assert {re.sub(r"-.*\.dist-info$", ".dist-info", top) for top in tops} == {
        "ciguard",
        "ciguard_shards.dist-info",
    }
    assert not [name for name in names if "__pycache__" in name or name.endswith(".keep")]


def test_wheel_has_name_and_license(wheel: zipfile.Path) -> None:
    (information,) = [item for item in wheel.iterdir() if item.name.endswith(".dist-info")]
    metadata = (information / "METADATA").read_text(encoding="utf-8")
    assert re.search(r"(?m)^Name: ciguard-shards$", metadata)
    assert re.search(r"(?m)^License-Expression: Apache-2\.0$", metadata)
    assert "Apache License" in (information / "licenses/LICENSE").read_text(encoding="utf-8")


def test_an_installed_wheel_renders_its_own_templates(wheel: zipfile.Path, tmp_path: Path) -> None:
    wheel.root.extractall(tmp_path)
    program = (
        "from ciguard.render import templates\n"
        "print(templates.template_folder())\n"
        "templates.environment().get_template('document.html.j2')\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert Path(answer.stdout.strip()) == tmp_path / "ciguard/templates"


def test_constraints_pin_versions_without_urls() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    invalid = [
        line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9A-Za-z.!+]+", line)
    ]
    assert invalid == []
    names = [line.split("==")[0].lower() for line in lines]
    assert len(set(names)) == len(names)


def own_tests() -> list[Path]:
    found = ROOT.glob("tests/**/*.py")
    return [path for path in found if path.relative_to(ROOT).parts[1] not in {"layouts", "samples"}]


def sleeps(text: str) -> list[int]:
    """Lines with a sleep of a fixed length outside a loop: a wait that hopes."""
    tree = ast.parse(text)
    polled = {
        inner
        for loop in ast.walk(tree)
        if isinstance(loop, ast.While | ast.For)
        for inner in ast.walk(loop)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"time.sleep", "sleep"}
        and node not in polled
    ]


def test_no_test_uses_a_fixed_sleep() -> None:
    waits = {
        path.relative_to(ROOT).as_posix(): lines
        for path in own_tests()
        if "sleep(" in (text := path.read_text("utf-8")) and (lines := sleeps(text))
    }
    assert waits == {}


def test_fixed_sleep_is_detected() -> None:
    assert sleeps("import time\ntime.sleep(1)") == [2]
    assert sleeps("while not ready():\n    time.sleep(0.01)") == []


LEG_CHECK = ("-q", "--no-tips", "--violations", "-t=3.8-")


@pytest.mark.parametrize(
    ("text", "verdict"), [("'ab'.removeprefix('a')\n", 1), ("'ab'.strip('a')\n", 0)]
)
def test_vermin_check_detects_code_newer_than_python_3_8(
    text: str, verdict: int, tmp_path: Path
) -> None:
    (tmp_path / "leg.py").write_text(text, "utf-8")
    vermin = Path(sys.executable).parent / "vermin"
    answer = subprocess.run(
        [str(vermin), *LEG_CHECK, str(tmp_path / "leg.py")], capture_output=True, check=False
    )
    assert answer.returncode == verdict


def test_makefile_checks_every_leg_file_with_vermin() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"vermin {' '.join(LEG_CHECK)} $(LEG)" in makefile
    for name in ("errors.py", "model", "run", "codec/record/lines.py", "codec/plan_file.py"):
        assert f"ciguard/{name}" in makefile


# Lines that git knows of; each issue raises a ceiling by its own budget at the most.
CEILINGS = [
    (("ciguard", "templates"), "py js mjs cjs rb java cs css html j2", 93_783),
    (("tests",), "py", 92_231),
]


@pytest.mark.parametrize(("folders", "suffixes", "ceiling"), CEILINGS)
def test_lines_stay_below_their_ceiling(
    folders: tuple[str, ...], suffixes: str, ceiling: int
) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *folders], cwd=ROOT, capture_output=True, check=True
    )
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    wanted = [path for path in paths if path.suffix[1:] in suffixes.split() and path.is_file()]
    lines = sum(path.read_bytes().count(b"\n") for path in wanted)
    assert lines <= ceiling


def test_interrupted_soak_continues_with_what_did_not_pass(tmp_path: Path) -> None:
    words = ("pytest", "tests/test_console.py", "--resume", str(tmp_path / "passed"))
    first, second = (
        subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        for _ in range(2)
    )
    passed = (tmp_path / "passed").read_text().splitlines()
    assert f"{len(passed)} passed" in first.stdout
    assert f"{len(passed)} deselected" in second.stdout


NAMED_FILE = re.compile(r"\b(?:ciguard|templates|benchmarks|demo|docs)/[\w./-]*\w\.(?:py|j2|md)\b")
TEXT_OF_SOURCE = re.compile(r'<#.*?#>|""".*?"""|#[^\n]*', re.DOTALL)


def test_files_named_in_comments_and_docstrings_exist() -> None:
    sources = [
        path
        for folder in ("ciguard", "templates", "tests", "benchmarks", "demo")
        for suffix in ("*.py", "*.j2")
        for path in (ROOT / folder).rglob(suffix)
        if "samples" not in path.parts
    ]
    named = {
        name: path
        for path in sources
        for text in TEXT_OF_SOURCE.findall(path.read_text("utf-8"))
        for name in NAMED_FILE.findall(text)
    }
    assert len(named) > 20
    assert {name: path for name, path in named.items() if not (ROOT / name).is_file()} == {}
