"""Files of the repository as another commit has them: git, in the checkout or from `origin`.

A file that is absent is told from one that cannot be had: a policy that seems to be absent must not
be taken for none.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ciguard.errors import CiguardError, InputError, RemoteError
from ciguard.git.commands import git, with_token, without_secrets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from subprocess import CompletedProcess

REMOTE: Final = "origin"
MAX_BYTES: Final = 1 << 20  # of a file; who writes policy by hand writes less
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FILE_MODES: Final = ("100644", "100755")
_FIX: Final = "check the repository out in this job: actions/checkout with `fetch-depth: 2`"


@dataclass(frozen=True, slots=True)
class Checkout:
    """The git repository around `folder`; `environ` is what git is given."""

    folder: Path
    environ: Mapping[str, str] = field(repr=False)

    def base_of_merge(self, tested_sha: str | None, head_sha: str | None) -> str | None:
        """The first parent of the commit that is checked out; None where it is no such merge.

        GitHub tests the merge of a pull request's head into its base's tip, and what an event says
        of the base may be older than that. A commit's name vouches for its parents.
        """
        head = self._git("rev-parse", "--verify", "HEAD^{commit}")
        if head.returncode or not tested_sha or _text(head.stdout) != tested_sha:
            return None
        content = self._git("cat-file", "commit", tested_sha)
        lines = _text(content.stdout).partition("\n\n")[0].splitlines()
        parents = [line.removeprefix("parent ") for line in lines if line.startswith("parent ")]
        return parents[0] if len(parents) > 1 and parents[1] == head_sha else None

    def remote(self) -> str:
        """The address of `origin`; "" where there is none."""
        return _text(self._git("remote", "get-url", REMOTE).stdout)

    def ancestors_among(self, commit: str, candidates: Collection[str]) -> dict[str, bool]:
        """Of each commit whether it is an ancestor of that one; nothing of those git cannot tell.

        A checkout that is not whole knows of no "no".
        """
        names = {*candidates, commit}
        if not all(map(_COMMIT.fullmatch, names)) or self._is_missing(commit):
            return {}
        shallow = _text(self._git("rev-parse", "--is-shallow-repository").stdout) != "false"
        found = {}
        for other in sorted(set(candidates)):
            code = self._git("merge-base", "--is-ancestor", other, commit).returncode
            if code == 0 or (code == 1 and not shallow):
                found[other] = code == 0
        return found

    def _is_missing(self, commit: str) -> bool:
        return bool(self._git("cat-file", "-e", f"{commit}^{{commit}}").returncode)

    def commit(self, revision: str) -> str:
        """The id of the commit that is meant; one that is given whole is fetched if it is not here.

        Raises:
            InputError: nothing here is called so. RemoteError: it cannot be fetched.
        """
        found = self._commit(revision)
        if found is None and _COMMIT.fullmatch(revision):
            self._fetch(revision)
            found = self._commit(revision)
        if found is None:
            fix = "name a commit, a branch or a tag that is here, or a whole id that origin has"
            raise InputError(f"no commit {revision!r:.80}", where="git", fix=fix)
        return found

    def _commit(self, revision: str) -> str | None:
        words = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        found = self._git("rev-parse", *words)
        return None if found.returncode else _text(found.stdout)

    def prefix(self) -> str:
        """The folder within the repository, with "/" at its end; "" is its root."""
        return _text(self._checked_output("rev-parse", "--show-prefix"))

    def add_worktree(self, path: Path, commit: str) -> None:
        """Check a commit out into a new folder. Raises RemoteError where git does not."""
        self._checked_output("worktree", "add", "--detach", "--force", "--quiet", str(path), commit)

    def remove_worktree(self, path: Path) -> None:
        """Take a worktree away, with all that has been made in it, however far it came."""
        if self._git("worktree", "remove", "--force", "--force", str(path)).returncode:
            shutil.rmtree(path, ignore_errors=True)
            self._git("worktree", "prune")

    def files_at(
        self, commit: str, names: Sequence[str], max_bytes: int = MAX_BYTES
    ) -> dict[str, bytes]:
        """Those of the files that a commit has in this folder; it is fetched where it is not here.

        Raises:
            RemoteError: the commit cannot be had, or a file of it is no file, or too large.
        """
        if not _COMMIT.fullmatch(commit):
            raise RemoteError(f"no commit: {commit!r:.80}", where="git", fix=_FIX)
        if self._git("cat-file", "-e", f"{commit}^{{tree}}").returncode:
            self._fetch(commit)
        prefix = self.prefix()
        paths = [f"{prefix}{name}" for name in names]
        listed = self._checked_output("ls-tree", "-z", "--full-tree", commit, "--", *paths)
        found = {}
        for entry in _text(listed).split("\0"):
            facts, _, path = entry.partition("\t")
            if path:
                mode, _, blob = facts.split(" ")
                found[path.removeprefix(prefix)] = self._blob(commit, path, mode, blob, max_bytes)
        return found

    def tracked(self, commit: str, name: str) -> str:
        """Mode and id of what a commit has under this name of the folder; "" for nothing."""
        listed = self._git("ls-tree", "-z", commit, "--", name)
        return "" if listed.returncode else _text(listed.stdout).partition("\t")[0]

    def _blob(self, commit: str, path: str, mode: str, blob: str, max_bytes: int) -> bytes:
        where = f"{commit[:10]}:{path}"
        if mode not in _FILE_MODES:
            raise RemoteError("is no plain file there", where=where)
        size = int(_text(self._checked_output("cat-file", "-s", blob)))
        if size > max_bytes:
            raise RemoteError(f"has {size} bytes, more than {max_bytes}", where=where)
        return self._checked_output("cat-file", "blob", blob)

    def _fetch(self, commit: str) -> None:
        shallow = _text(self._git("rev-parse", "--is-shallow-repository").stdout) == "true"
        depth = ["--depth=1"] if shallow else []  # a whole clone would become shallow by it
        words = ["fetch", "--no-tags", "--quiet", *depth, REMOTE, commit]
        self._checked_output(*words, environ=with_token(self.environ, self.remote()))

    def _checked_output(self, *arguments: str, environ: Mapping[str, str] | None = None) -> bytes:
        done = self._git(*arguments, environ=environ)
        if done.returncode:
            output_text = without_secrets(done.stderr.decode("utf-8", "replace"))
            what = f"git {arguments[0]} failed: {output_text[:300] or 'no output'}"
            raise RemoteError(what, where="git", fix=_FIX)
        return done.stdout

    def _git(
        self, *arguments: str, environ: Mapping[str, str] | None = None
    ) -> CompletedProcess[bytes]:
        try:
            # A replaced object would be another one under the name that was vouched for.
            arguments = ("--no-replace-objects", *arguments)
            return git(self.folder, *arguments, environ=environ or self.environ)
        except CiguardError as error:
            raise RemoteError(error.what, where="git", fix=_FIX) from error


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape").removesuffix("\n")


def remote_url(folder: Path, environ: Mapping[str, str]) -> str:
    """The address of `origin` of the checkout around a folder; "" where there is none."""
    try:
        found = Checkout(folder, environ).remote()
    except RemoteError:
        return ""
    return without_secrets(found)
