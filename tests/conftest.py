"""What all tests share: golden files, and the real command line in a clean environment."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Protocol
from unittest.mock import patch

import pytest
from bytecode import write_bytecode
from fakegithub.state import TOKEN, FakeGitHub, Login
from hypothesis import settings

from ciguard import cli

try:
    import fcntl
except ImportError:  # Windows: its tests run in one process
    fcntl = None  # type: ignore[assignment]

SCRUBBED = (
    *("CI", "CIGUARD_", "GIT_", "GITHUB_", "RUNNER_", "PYTEST_"),
    *("NO_COLOR", "FORCE_COLOR"),
)
TEMPORARY = "PYTEST_DEBUG_TEMPROOT"  # where sessions that tests start have their folders

# More than half of the processor time in which a session starts, and no session here needs them.
UNUSED_PLUGINS = ("anyio", "hypothesispytest", "platformdirs", "pytest-split", "xdist.looponfail")
ADDOPTS = " ".join(f"-p no:{name}" for name in UNUSED_PLUGINS)

# A busy machine is no mistake. Each run draws other examples, so that few are enough.
settings.register_profile("untimed", settings.default, deadline=None, max_examples=20)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    if hasattr(os, "fork"):
        write_bytecode(config)
    if file := config.getoption("--resume"):
        config.pluginmanager.register(PassedTests(Path(file)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
    parser.addoption("--resume", metavar="FILE", help="run what FILE does not name as passed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: nearly all that is made stays, in every worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what passed in an interrupted run of the same command (`make soak`)."""
    file = config.getoption("--resume")
    passed = set(Path(file).read_text("utf-8").splitlines()) if file and Path(file).exists() else ()
    config.hook.pytest_deselected(items=[one for one in items if one.nodeid in passed])
    items[:] = [one for one in items if one.nodeid not in passed]


class PassedTests:
    """Plug-in of the process with the reports: it appends each test that passed, teardown too."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.passed_calls: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed_calls.add(report.nodeid)
        if report.when == "teardown" and report.passed and report.nodeid in self.passed_calls:
            with self.file.open("a", encoding="utf-8") as passed:
                passed.write(f"{report.nodeid}\n")


@pytest.fixture(scope="session", autouse=True)
def _inner_sessions(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have the sessions that tests start tidy up among themselves, not a database of last time."""
    os.environ[TEMPORARY] = str(tmp_path_factory.mktemp("sessions"))


class Golden(Protocol):
    def __call__(self, actual: str, path: Path, *, scrub: Mapping[str, str] = ...) -> None: ...


@pytest.fixture
def server() -> Iterator[FakeGitHub]:
    """A GitHub that knows TOKEN as GITHUB_TOKEN."""
    from fakegithub.conformance import conforming  # noqa: PLC0415 # most workers need none

    with conforming() as github:
        github.tokens[TOKEN] = Login()
        yield github


@pytest.fixture
def environ(server: FakeGitHub) -> dict[str, str]:
    """What leads a command to it."""
    return {"GITHUB_API_URL": server.address, "GITHUB_TOKEN": TOKEN, "NO_PROXY": "*"}


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with a golden file; `--update-golden` writes it instead.

    `scrub` maps a regular expression to what stands for it: versions, paths, times, by name.
    """
    update = request.config.getoption("--update-golden")

    def compare(actual: str, path: Path, *, scrub: Mapping[str, str] = {}) -> None:  # never changed
        for pattern, name in scrub.items():
            actual = re.sub(pattern, name, actual)
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
        assert path.is_file(), f"{path} is not there: write it with --update-golden, and read it"
        assert actual == path.read_text(encoding="utf-8")

    return compare


def clean_environment(**added: str) -> dict[str, str]:
    """Ours without what a CI machine adds, so that tests say the same everywhere."""
    stored = {name: value for name, value in os.environ.items() if not name.startswith(SCRUBBED)}
    stored["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{stored.get('PATH', '')}"
    ours = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ADDOPTS, "COLUMNS": "80"}
    return {**stored, TEMPORARY: os.environ[TEMPORARY], **ours, **added}


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that `make` filled once for all workers of a test run."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with folder.with_suffix(".lock").open("w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made := folder.with_suffix(".made")).exists():
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


class Ciguard(Protocol):
    def __call__(
        self, *words: str | Path, cwd: Path, expect: int = 0, stdin: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]: ...


def call_in_process(
    *words: str | Path, cwd: Path, stdin: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    """A call of the program without a process of its own: any verb but `run`.

    Starting an interpreter takes as long as ten calls.
    """
    given, out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(3))
    given.write(stdin)
    given.seek(0)
    with (
        patch.dict(os.environ, clean_environment(**environ), clear=True),
        patch.object(sys, "stdin", given),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = cli.run([str(word) for word in words])
    out.seek(0)
    err.seek(0)
    return subprocess.CompletedProcess(list(map(str, words)), code, out.read(), err.read())


@pytest.fixture(scope="session")
def ciguard(ciguard_process: Ciguard) -> Ciguard:
    """The program in this process; another exit code than `expect` fails with all it printed.

    A leg is a process all the same: it takes over signals and children of its process.
    """

    def call(
        *words: str | Path, cwd: Path, expect: int = 0, stdin: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        if words[:1] == ("run",):
            return ciguard_process(*words, cwd=cwd, expect=expect, stdin=stdin, **environ)
        done = call_in_process(*words, cwd=cwd, stdin=stdin, **environ)
        assert done.returncode == expect, f"{words}\n{done.stdout}\n{done.stderr}"
        return done

    return call


@pytest.fixture(scope="session")
def ciguard_process() -> Ciguard:
    """The program as users start it, for one test a verb."""

    def call(
        *words: str | Path, cwd: Path, expect: int = 0, stdin: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "ciguard", *map(str, words)],
            cwd=cwd,
            env=clean_environment(**environ),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == expect, f"{words}\n{done.stdout}\n{done.stderr}"
        return done

    return call
