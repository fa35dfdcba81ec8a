"""A repository whose workflow is moved, and the samples of workflows."""

from __future__ import annotations

import subprocess
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "samples/move_in"
CASES = sorted(path.name for path in SAMPLES.iterdir())
MOVED = [case for case in CASES if (SAMPLES / case / "expected.yml").exists()]
CI = ".github/workflows/ci.yml"
OWN = ".github/workflows/ciguard.yml"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ADDRESS = f"octo-org/ciguard@{COMMIT} # v0.2.0"
ACTIONS = f'actions = "{ADDRESS}"\n'
# As where ciguard is no checkout of a repository on github.com, wherever these tests run.
NO_ADDRESS = {
    "CIGUARD_ACTIONS": "",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "url./nowhere/.insteadOf",
    "GIT_CONFIG_VALUE_0": "https://github.com/",
    "GIT_CONFIG_KEY_1": "url./nowhere/.insteadOf",
    "GIT_CONFIG_VALUE_1": "git@github.com:",
}
WORKFLOW = (SAMPLES / "plain/ci.yml").read_bytes()


def commit(folder: Path, message: str = "change") -> None:
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], check=True)


def write(folder: Path, workflow: bytes) -> None:
    (folder / CI).write_bytes(workflow)
    commit(folder)


def configure(folder: Path, case: str) -> None:
    """Add what a sample has besides: files of tools, suites of frameworks without an adapter."""
    for own in (SAMPLES / case).iterdir():
        if own.name not in ("ci.yml", "expected.yml") and own.suffix != ".txt":
            text = own.read_text("utf-8")
            start = ACTIONS if own.name == "ciguard.toml" else ""
            (folder / own.name).write_text(start + text, "utf-8")


JOB = b"on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n"
PYTEST = b"      - run: pytest\n"


def job_with(*lines: bytes) -> bytes:
    """The job with lines of its own above its steps, and one that runs pytest."""
    text = b"".join(b"    " + line + b"\n" for line in lines)
    return JOB.replace(b"    steps", text + b"    steps") + PYTEST
