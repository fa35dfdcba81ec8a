"""Facts that git knows of the repository for `ciguard init`: its files and its default branch."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.git.checkout import ownership_problem
from ciguard.git.commands import program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMON_BRANCHES: Final = ("main", "master")
# Folders of packages: files there are not the project's, also if .gitignore does not name them.
INSTALLED: Final = (".venv", "venv", "env", "node_modules", "vendor", ".tox", ".nox")
GUESSED_BRANCH: Final = (
    "git does not know origin's default branch: {} is used instead; "
    "git remote set-head origin --auto tells git"
)


def repository_files(folder: Path) -> list[str]:
    """Return the paths that git tracks or would add, "/"-separated.

    Raises:
        UsageError: not the top folder of a git repository; GitHub reads workflows only there.
    """
    top = git(folder, "rev-parse", "--show-toplevel")
    where = str(folder.resolve())
    if top is None:
        what, fix = ownership_refusal(folder)
        raise UsageError(
            what or "not the top folder of a git repository",
            where=where,
            fix=fix or "run it in a clone of the repository, or begin one: git init",
        )
    if (git(folder, "rev-parse", "--show-prefix") or "").strip():
        fix = f"run ciguard in its top folder: cd {shlex.quote(top.rstrip())}"
        raise UsageError("not the top folder of a git repository", where=where, fix=fix)
    excluded = [f"--exclude={name}" for name in INSTALLED]
    options = ("-z", "--cached", "--others", "--exclude-standard", *excluded)
    listed = git(folder, "ls-files", *options) or ""
    return [name for name in listed.split("\0") if name]


def default_branch(folder: Path, notify: Callable[[str], None] = lambda _: None) -> str:
    """Return the default branch of origin; if git does not know it, guess `main` or `master`.

    The branch that is checked out is guessed only if neither exists: `ciguard init` usually runs on
    a new branch, which is not the default one.

    Args:
        notify: receives a message on a guess, if origin exists or another branch is checked out.
    """
    remote = git(folder, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    if remote:
        return remote.strip().removeprefix("origin/")
    current = (git(folder, "branch", "--show-current") or "").strip()
    for prefix in ("refs/remotes/origin/", "refs/heads/"):
        for name in COMMON_BRANCHES:
            if git(folder, "rev-parse", "-q", "--verify", f"{prefix}{name}") is not None:
                if name != current or guess_of(folder):
                    notify(GUESSED_BRANCH.format(name))
                return name
    return current or COMMON_BRANCHES[0]


def guess_of(folder: Path) -> str:
    """Return a remark on `default_branch` if origin exists and git does not know its HEAD."""
    origin, head = ("remote", "get-url", "origin"), "refs/remotes/origin/HEAD"
    is_guess = git(folder, *origin) is not None and git(folder, "symbolic-ref", head) is None
    return " (a guess: git remote set-head origin --auto)" if is_guess else ""


def git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git; None if git fails or is not installed."""
    answer = _run_git(folder, *arguments)
    if answer is None or answer.returncode != 0:
        return None
    return answer.stdout.decode("utf-8", "replace")


def ownership_refusal(folder: Path) -> tuple[str, str]:
    """Return (problem, fix) if git refuses a folder that another user owns; else ("", "")."""
    answer = _run_git(folder, "rev-parse", "--git-dir")
    return ("", "") if answer is None else ownership_problem(answer.stderr)


def _run_git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes] | None:
    try:
        return subprocess.run(
            [program("git"), "-C", str(folder), *arguments], capture_output=True, check=False
        )
    except FileNotFoundError:
        return None
