"""A process whose child holds memory, and other Pythons of this machine, each with its own pytest.

Python 3.8 to 3.13 must all do: `make test` asks the oldest, `make soak` the others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Their parameters are signals that Windows does not have.
POSIX = ("probes", "resumed", "signals")
collect_ignore = [f"test_leg_{name}.py" for name in POSIX if sys.platform == "win32"]
OLDEST = "3.8"  # gets the oldest pytest that is promised
NEWER = ("3.9", "3.10", "3.11", "3.12", "3.13")
HOLDS = "import sys; kept = b'x' * (50 << 20); print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def holder() -> Iterator[int]:
    """A child of ours whose own child holds 50 MiB."""
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDS!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid


def answers(python: Path) -> bool:
    # A pyenv shim is on PATH for versions that are not chosen, and answers 127.
    try:
        return (
            subprocess.run([python, "-c", "pass"], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


def candidates(version: str) -> list[Path]:
    on_path = shutil.which(f"python{version}")
    found = [Path(on_path)] if on_path else []
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    prefixes = sorted((root / "versions").glob(f"{version}.*"))
    if shutil.which("pyenv"):
        reported = subprocess.run(
            ["pyenv", "prefix", version], capture_output=True, text=True, check=False
        )
        prefixes += [Path(reported.stdout.strip())] if reported.returncode == 0 else []
    return found + [prefix / "bin" / f"python{version}" for prefix in prefixes]


def _make(python: Path, home: Path, requirements: list[str]) -> str:
    """Make a virtual environment at `home`; "" or why there is none.

    It is built aside and moved, so that two test runs at once never see half of one. Only
    `bin/python -m` is used of it: scripts would still name the folder it was built in.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as folder:
        aside = Path(folder) / "venv"
        pip = [str(aside / "bin" / "python"), "-m", "pip", "install", "-q", "--retries", "1"]
        for command in ([str(python), "-m", "venv", str(aside)], [*pip, *requirements]):
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=200
                )
            except subprocess.TimeoutExpired:
                return f"{command[2]}: no end after 200 s"
            if done.returncode != 0:
                return f"{' '.join(command[1:4])}: {done.stderr.strip()[-500:]}"
        try:
            aside.rename(home)
        except OSError:
            assert home.is_dir(), "neither moved nor made by another test run"
    return ""


@pytest.fixture(
    scope="session",
    params=[OLDEST, *(pytest.param(version, marks=pytest.mark.soak) for version in NEWER)],
)
def foreign_python(request: pytest.FixtureRequest) -> Path:
    """A Python of each version with pytest, pytest-xdist and pytest-timeout; 3.8 has pytest 7."""
    version = str(request.param)
    pytest_spec = "pytest>=7,<8" if version == OLDEST else "pytest"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ciguard-tests"
    home = cache / f"py{version}-{'pytest7' if version == OLDEST else 'newest'}"
    python = home / "bin" / "python"
    if answers(python):
        return python
    if sys.platform == "win32":
        pytest.skip("virtual environments are looked for in bin/")
    base = next(filter(answers, candidates(version)), None)
    if base is None:
        pytest.skip(f"no Python {version} on this machine")
    shutil.rmtree(home, ignore_errors=True)  # its base Python is gone
    problem = _make(base, home, [pytest_spec, "pytest-xdist", "pytest-timeout"])
    if problem:
        pytest.skip(f"no pytest for Python {version}: {problem}")
    return python
