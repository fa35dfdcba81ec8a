"""Facts that git knows of the repository for `ciguard init`: its files and its default branch."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ciguard.errors import InputError, UsageError
from ciguard.git.checkout import ownership_problem
from ciguard.git.commands import answer_of, output_of

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
    top = output_of(folder, "rev-parse", "--show-toplevel")
    where = str(folder.resolve())
    if top is None:
        what, fix = ownership_refusal(folder)
        raise UsageError(
            what or "not the top folder of a git repository",
            where=where,
            fix=fix or "run it in a clone of the repository, or begin one: git init",
        )
    if (output_of(folder, "rev-parse", "--show-prefix") or "").strip():
        fix = f"run ciguard in its top folder: cd {shlex.quote(top.rstrip())}"
        raise UsageError("not the top folder of a git repository", where=where, fix=fix)
    excluded = [f"--exclude={name}" for name in INSTALLED]
    options = ("-z", "--cached", "--others", "--exclude-standard", *excluded)
    listed = output_of(folder, "ls-files", *options) or ""
    return [name for name in listed.split("\0") if name]


def default_branch(folder: Path, notify: Callable[[str], None] = lambda _: None) -> str:
    """Return the default branch of origin; if git does not know it, guess `main` or `master`.

    The branch that is checked out is guessed only if neither exists: `ciguard init` usually runs on
    a new branch, which is not the default one.

    Args:
        notify: receives a message on a guess, if origin exists or another branch is checked out.
    """
    remote = output_of(folder, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    if remote:
        return remote.strip().removeprefix("origin/")
    current = (output_of(folder, "branch", "--show-current") or "").strip()
    for prefix in ("refs/remotes/origin/", "refs/heads/"):
        for name in COMMON_BRANCHES:
            if output_of(folder, "rev-parse", "-q", "--verify", f"{prefix}{name}") is not None:
                if name != current or guess_of(folder):
                    notify(GUESSED_BRANCH.format(name))
                return name
    return current or COMMON_BRANCHES[0]


def guess_of(folder: Path) -> str:
    """Return a remark on `default_branch` if origin exists and git does not know its HEAD."""
    origin, head = ("remote", "get-url", "origin"), "refs/remotes/origin/HEAD"
    is_guess = output_of(folder, *origin) and not output_of(folder, "symbolic-ref", head)
    return " (a guess: git remote set-head origin --auto)" if is_guess else ""


def ownership_refusal(folder: Path) -> tuple[str, str]:
    """Return (problem, fix) if git refuses a folder that another user owns; otherwise ("", "")."""
    answer = answer_of(folder, "rev-parse", "--git-dir")
    return ("", "") if answer is None else ownership_problem(answer.stderr)


def require_committed(folder: Path, path: str) -> None:
    """Raise InputError for uncommitted changes: `git revert` could not restore the file."""
    status = output_of(folder, "status", "--porcelain", "--", path)
    if status or not output_of(folder, "ls-files", "--", path):
        what = "has changes that are not committed"
        raise InputError(what, where=path, fix="commit it first, so that git revert can undo it")
