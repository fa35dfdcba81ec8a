"""The checkout of a repository: its remote, its commits, and their files, fetched from `origin`.

A commit that lacks a file is one answer, a file that cannot be read is an error: a policy file that
cannot be read must not count as "no policy". `ownership_problem` reads git's refusal to use a
checkout that belongs to another user (`safe.directory`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final, NamedTuple

from ciguard.errors import CiguardError, InputError, RemoteError
from ciguard.git.commands import git, with_token, without_secrets

REMOTE: Final = "origin"
MAX_DIFF_BYTES: Final = 1 << 25  # of both versions of the files that a change has
MAX_BYTES: Final = 1 << 20  # of a file; policies that people write by hand are smaller
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FILE_MODES: Final = ("100644", "100755")
_FIX: Final = "check the repository out in this job: actions/checkout with `fetch-depth: 2`"


class ChangedFile(NamedTuple):
    """A file that differs between two commits; its ids are "" if a commit does not have it."""

    path: str
    old_blob: str
    blob: str
    renamed_from: str = ""


@dataclass(frozen=True, slots=True)
class Checkout:
    """The git repository that contains `folder`; `environ` is the environment of git."""

    folder: Path
    environ: Mapping[str, str] = field(repr=False)

    def base_of_merge(self, tested_sha: str | None, head_sha: str | None) -> str | None:
        """Return the first parent of HEAD; None unless HEAD is `tested_sha`, a merge of `head_sha`.

        GitHub tests the merge of a pull request's head into the tip of its base branch. The base in
        the event may be older than that tip, whereas the SHA of a commit determines its parents.
        """
        head = self._git("rev-parse", "--verify", "HEAD^{commit}")
        if head.returncode or not tested_sha or _text(head.stdout) != tested_sha:
            return None
        content = self._git("cat-file", "commit", tested_sha)
        lines = _text(content.stdout).partition("\n\n")[0].splitlines()
        parents = [line.removeprefix("parent ") for line in lines if line.startswith("parent ")]
        return parents[0] if len(parents) > 1 and parents[1] == head_sha else None

    def remote(self) -> str:
        """Return the address of `origin`; "" if there is no such remote."""
        return _text(self._git("remote", "get-url", REMOTE).stdout)

    def ancestors_among(self, commit: str, candidates: Collection[str]) -> dict[str, bool]:
        """Map each candidate to whether it is an ancestor of `commit`; leave out unknown ones.

        In a shallow clone, git cannot prove that a commit is no ancestor: there, only ancestors are
        in the answer.
        """
        names = {*candidates, commit}
        if not all(map(_COMMIT.fullmatch, names)) or self._local_commit(commit) is None:
            return {}
        shallow = self._is_shallow()
        are_ancestors = {}
        for candidate in sorted(set(candidates)):
            code = self._git("merge-base", "--is-ancestor", candidate, commit).returncode
            if code == 0 or (code == 1 and not shallow):
                are_ancestors[candidate] = code == 0
        return are_ancestors

    def commits_between(self, old: str, new: str) -> frozenset[str]:
        """Return `old` and the commits up to `new`; none if git may not know all of them."""
        if self._is_shallow() or not self.ancestors_among(new, (old,)).get(old):
            return frozenset()
        listed = self._checked_output("rev-list", f"{old}..{new}")
        return frozenset((old, *_text(listed).split()))

    def merged_commits(self, old: str, new: str) -> list[tuple[str, str]]:
        """Return SHA and subject of the commits after `old`, by first parents, the oldest first.

        Raises:
            RemoteError: `old` is no ancestor, or the clone may lack commits.
        """
        if self._is_shallow() or not self.ancestors_among(new, (old,)).get(old):
            what = f"{old:.10} is no ancestor of {new:.10}, as far as this clone knows"
            raise RemoteError(
                what, where="git", fix="name two commits of a clone that is not shallow"
            )
        options = ("--first-parent", "--reverse", "--format=%H %P%x1f%s")
        listed = _text(self._checked_output("log", *options, f"{old}..{new}")).split("\n")
        entries = [line.partition("\x1f") for line in listed if line]
        if entries and entries[0][0].split()[1:2] != [old]:
            what = f"{old:.10} is not on the line of first parents of {new:.10}"
            raise RemoteError(what, where="git", fix="name a commit of the branch itself")
        return [(ids.split()[0], subject) for ids, _, subject in entries]

    def _is_shallow(self) -> bool:
        return _text(self._git("rev-parse", "--is-shallow-repository").stdout) != "false"

    def commit(self, revision: str) -> str:
        """Return the SHA of a revision; fetch it if it is a full SHA that the checkout lacks.

        Raises:
            InputError: the checkout has no such revision. RemoteError: it cannot be fetched.
        """
        sha = self._local_commit(revision)
        if sha is None and _COMMIT.fullmatch(revision):
            self._fetch(revision)
            sha = self._local_commit(revision)
        if sha is None:
            fix = "name a commit, a branch or a tag that is here, or a whole id that origin has"
            raise InputError(f"no commit {revision!r:.80}", where="git", fix=fix)
        return sha

    def _local_commit(self, revision: str) -> str | None:
        words = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        done = self._git("rev-parse", *words)
        return None if done.returncode else _text(done.stdout)

    def root(self) -> str:
        """Return the path of the top folder; raise RemoteError outside of a checkout."""
        return _text(self._checked_output("rev-parse", "--show-toplevel"))

    def prefix(self) -> str:
        """Return the path of the folder in the repository, with "/" at its end; "" for the root."""
        return _text(self._checked_output("rev-parse", "--show-prefix"))

    def add_worktree(self, path: Path, commit: str) -> None:
        """Check a commit out into a new folder; raise RemoteError where git fails."""
        self._checked_output("worktree", "add", "--detach", "--force", "--quiet", str(path), commit)

    def remove_worktree(self, path: Path) -> None:
        """Delete a worktree and all files in it, also one whose creation was interrupted."""
        if self._git("worktree", "remove", "--force", "--force", str(path)).returncode:
            shutil.rmtree(path, ignore_errors=True)
            self._git("worktree", "prune")

    def files_at(
        self, commit: str, names: Sequence[str], max_bytes: int = MAX_BYTES
    ) -> dict[str, bytes]:
        """Return those of the files that a commit has in this folder; fetch the commit if needed.

        Raises:
            RemoteError: the commit cannot be fetched, or a name is no regular file, or too large.
        """
        if not _COMMIT.fullmatch(commit):
            raise RemoteError(f"no commit: {commit!r:.80}", where="git", fix=_FIX)
        if self._git("cat-file", "-e", f"{commit}^{{tree}}").returncode:
            self._fetch(commit)
        prefix = self.prefix()
        paths = [f"{prefix}{name}" for name in names]
        listed = self._checked_output("ls-tree", "-z", "--full-tree", commit, "--", *paths)
        files = {}
        for entry in _text(listed).split("\0"):
            facts, _, path = entry.partition("\t")
            if path:
                mode, _, blob = facts.split(" ")
                files[path.removeprefix(prefix)] = self._blob(commit, path, mode, blob, max_bytes)
        return files

    def tracked(self, commit: str, name: str) -> str:
        """Return mode, type and id of a commit's entry of this name; "" if it has none."""
        listed = self._git("ls-tree", "-z", commit, "--", name)
        return "" if listed.returncode else _text(listed.stdout).partition("\t")[0]

    def diff(self, base: str) -> list[ChangedFile]:
        """Return the files of the folder in which HEAD differs from a commit; paths begin there.

        Raises:
            RemoteError: the checkout does not have the commit.
        """
        options = ("-r", "-z", "-M", "--relative", "--ignore-submodules")
        listed = self._checked_output("diff-tree", *options, base, "HEAD")
        changed, fields = [], iter(_text(listed).split("\0"))
        for facts in filter(None, fields):
            _, _, *ids, status = facts.split(" ")
            path = next(fields)
            names = (next(fields), path) if status.startswith("R") else (path, "")
            old_blob, blob = (each if each.strip("0") else "" for each in ids)
            changed.append(ChangedFile(names[0], old_blob, blob, names[1]))
        return changed

    def added_lines(self, file: ChangedFile) -> list[int]:
        """Return the numbers of the lines that a change adds or changes, from 1, in order.

        Raises:
            RemoteError: the checkout lacks a version of the file.
        """
        if not file.old_blob:
            return list(range(1, len(self.blobs([file.blob])[file.blob].splitlines()) + 1))
        options = ("-U0", "--inter-hunk-context=0", "--no-color", "--no-ext-diff", "--no-textconv")
        text = self._checked_output("diff", *options, file.old_blob, file.blob)
        hunks = re.findall(rb"(?m)^@@ -\S+ \+(\d+)(?:,(\d+))? @@", text)
        return [
            line
            for begin, count in hunks
            for line in range(int(begin), int(begin) + int(count or 1))
        ]

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Return contents by id; none for "".

        Raises:
            RemoteError: the checkout lacks one, or they have more than `MAX_DIFF_BYTES`.
        """
        stdin = "".join(f"{each}\n" for each in filter(None, ids)).encode()
        listed = self._checked_output("cat-file", "--batch-check=%(objectsize)", stdin=stdin)
        sizes = _text(listed).split("\n") if stdin else []
        if not all(map(str.isdecimal, sizes)) or sum(map(int, sizes)) > MAX_DIFF_BYTES:
            raise RemoteError("the files of the change are too large, or not all here", where="git")
        output, begin = self._checked_output("cat-file", "--batch", stdin=stdin), 0
        contents = {"": b""}
        for each, size in zip(filter(None, ids), map(int, sizes), strict=True):
            end = output.index(b"\n", begin) + 1
            contents[each], begin = output[end : end + size], end + size + 1
        return contents

    def _blob(self, commit: str, path: str, mode: str, blob: str, max_bytes: int) -> bytes:
        where = f"{commit[:10]}:{path}"
        if mode not in _FILE_MODES:
            raise RemoteError("is no plain file there", where=where)
        size = int(_text(self._checked_output("cat-file", "-s", blob)))
        if size > max_bytes:
            raise RemoteError(f"has {size} bytes, more than {max_bytes}", where=where)
        return self._checked_output("cat-file", "blob", blob)

    def _fetch(self, commit: str) -> None:
        depth = (
            ["--depth=1"] if self._is_shallow() else []
        )  # --depth would make a full clone shallow
        words = ["fetch", "--no-tags", "--quiet", *depth, REMOTE, commit]
        self._checked_output(*words, environ=with_token(self.environ, self.remote()))

    def _checked_output(
        self, *arguments: str, environ: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> bytes:
        done = self._git(*arguments, environ=environ, stdin=stdin)
        if done.returncode:
            output_text = without_secrets(done.stderr.decode("utf-8", "replace"))
            what = f"git {arguments[0]} failed: {output_text[:300] or 'no output'}"
            raise RemoteError(what, where="git", fix=_FIX)
        return done.stdout

    def _git(
        self, *arguments: str, environ: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> CompletedProcess[bytes]:
        try:
            # `git replace` would give other content under the SHA that was asked for.
            arguments = ("--no-replace-objects", *arguments)
            return git(self.folder, *arguments, environ=environ or self.environ, stdin=stdin)
        except CiguardError as error:
            raise RemoteError(error.what, where="git", fix=_FIX) from error


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape").removesuffix("\n")


def remote_url(folder: Path, environ: Mapping[str, str]) -> str:
    """Return the address of `origin` of a folder's checkout; "" if there is none."""
    try:
        return without_secrets(Checkout(folder, environ).remote())
    except RemoteError:
        return ""


def ownership_problem(stderr: bytes) -> tuple[str, str]:
    """Read git's refusal of a checkout of another user, as a job in a container meets it.

    Returns:
        (git's message, the `safe.directory` command that git advises); ("", "") of other output.
    """
    output = stderr.decode("utf-8", "replace")
    command = next((line.strip() for line in output.splitlines() if "safe.directory" in line), "")
    message = output.partition("\n")[0].partition(": ")[2]
    return (f"git: {message}", command) if command else ("", "")
