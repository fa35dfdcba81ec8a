"""A history in an orphan branch of a git remote: one commit with one file.

Every write is a new commit without parents, so the branch never grows. A write is pushed only if
the branch still has the commit that was read (compare-and-swap); `stores.update` repeats a lost
one. Working tree, index, branches and tags of the clone stay unchanged, and a shallow or partial
clone suffices.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from ciguard.errors import CiguardError, InputError, RemoteError
from ciguard.git.checkout import ownership_problem
from ciguard.git.commands import TRANSFER_S, git, with_token, without_secrets
from ciguard.history.file import FILE_NAME, DamagedHistory, StoredBytes

DEFAULT: Final = "ciguard-history"
REMOTE: Final = "origin"
_AUTHOR: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "ciguard"), ("EMAIL", "ciguard@localhost.invalid"))
}
_REF_MISSING: Final = "couldn't find remote ref"  # of fetch
# These override settings of the clone that would fetch more than the one commit.
_MINIMAL_FETCH: Final = (
    *("--no-tags", "--no-recurse-submodules", "--no-prune", "--no-filter", "--no-auto-gc"),
    "--refmap=",
)


class _TransientError(RemoteError):
    """The network or the server failed; a retry may succeed."""

    is_lasting = False


class NoRemoteError(InputError):
    """The error of a folder without the remote, such as a project that is not on GitHub yet."""


@dataclass(frozen=True, slots=True)
class BranchStore:
    """The branch `name` of the remote `origin` of the clone that contains `folder`.

    A request that fails because of the network is sent `tries` times in all.
    """

    name: str
    folder: Path
    environ: Mapping[str, str] = field(repr=False)
    transfer_timeout_s: float = TRANSFER_S
    tries: int = 3
    wait_s: float = 1.0  # before the second try; then twice as long

    @property
    def location(self) -> str:
        """Return the branch as on the command line."""
        return f"branch:{self.name}"

    def recovery_advice(self, error: DamagedHistory) -> str:  # noqa: ARG002  # the same for all
        """Return how to delete the branch: `read` has checked that no other file is in it."""
        delete = f"git push {REMOTE} --delete {self.name}"
        return f"remove it: {delete}; then restore a copy, or let later runs fill it"

    def read(self) -> StoredBytes:
        """Read the branch's file; a missing branch is an empty store.

        Raises:
            RemoteError: the remote cannot be reached, or the branch contains other files.
            InputError: not a branch name, no git, or no repository here.
        """
        ref = self._ref()
        # A unique name: other programs in this clone use FETCH_HEAD as well.
        private_ref = f"refs/ciguard/{secrets.token_hex(8)}"
        arguments = ("fetch", "--quiet", *_MINIMAL_FETCH, REMOTE, f"+{ref}:{private_ref}")
        try:
            fetched = self._query_remote(*arguments)
            if fetched.returncode and _REF_MISSING in _text(fetched):
                return StoredBytes(None)
            self._check(fetched, "the branch cannot be fetched")
            commit = self._output_of("rev-parse", "--verify", f"{private_ref}^{{commit}}")
        finally:
            self._git("update-ref", "-d", private_ref)
        self._check_no_other_files(commit)
        shown = self._git("cat-file", "blob", f"{commit}:{FILE_NAME}")
        self._check(shown, f"its {FILE_NAME} cannot be fetched")
        return StoredBytes(shown.stdout, commit)

    def _check_no_other_files(self, commit: str) -> None:
        """Refuse a branch with other files, which a write would remove; a README is allowed."""
        listed = self._git("ls-tree", "-z", "--name-only", commit)
        self._check(listed, "the branch cannot be read")
        names = listed.stdout.decode("utf-8", "replace").split("\0")[:-1]
        foreign_names = [name for name in names if not name.startswith(("README", FILE_NAME))]
        if FILE_NAME in names and not foreign_names:
            return
        what = f"the branch holds no {FILE_NAME}"
        if FILE_NAME in names:
            first = f"{foreign_names[0]!r:.80}"
            what = f"a write would delete the other files of the branch: {first}"
        raise RemoteError(what, where=self.location, fix=f"name another branch: branch:{DEFAULT}")

    def write(self, content: bytes, expected: StoredBytes) -> bool:
        """Push a new commit if the branch still has the commit that was read.

        Raises:
            RemoteError: the push was refused for another reason.
        """
        ref = self._ref()
        blob = self._output_of("hash-object", "-w", "--stdin", stdin=content)
        entry = f"100644 blob {blob}\t{FILE_NAME}\n".encode()
        tree = self._output_of("mktree", stdin=entry)
        commit = self._output_of("commit-tree", tree, "-m", "ciguard history", extra=_AUTHOR)
        pushed = self._query_remote(
            *("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed"),
            *("--recurse-submodules=no", f"--force-with-lease={ref}:{expected.version}"),
            *(REMOTE, f"{commit}:{ref}"),
        )
        if pushed.returncode and LOST_RACE.search(_text(pushed)):
            return False
        self._check(pushed, "the branch cannot be written", writing=True)
        return True

    def _ref(self) -> str:
        ref = f"refs/heads/{self.name}"
        if not self.name or self._git("check-ref-format", ref).returncode:
            what = f"no branch name: {self.name!r:.80}"
            raise InputError(what, where="--history", fix=f"write branch:{DEFAULT}")
        return ref

    def _query_remote(self, *arguments: str) -> CompletedProcess[bytes]:
        """Run git against the remote; retry after transient failures.

        A push whose answer was lost may have succeeded. The retry then finds another commit than
        expected and counts as a lost race; the next read finds the runs already added.
        """
        from ciguard.github.retry import retry_context  # noqa: PLC0415 - only a branch needs it

        environ = with_token(self.environ, self._address(pushing=arguments[0] == "push"))
        done = None
        try:
            for attempt in retry_context(
                on=_TransientError,
                attempts=self.tries,
                timeout=None,
                wait_initial=self.wait_s,
                wait_jitter=self.wait_s / 2,
            ):
                with attempt:
                    done = self._git(*arguments, environ=environ, limit_s=self.transfer_timeout_s)
                    if done.returncode and TRANSIENT.search(_text(done)):
                        raise _TransientError(f"git {arguments[0]} failed for the moment")
        except _TransientError:
            pass  # the caller reports git's last output
        assert done is not None
        return done

    def _git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
        limit_s: float = TRANSFER_S,
    ) -> CompletedProcess[bytes]:
        environment = self.environ if environ is None else environ
        try:
            return git(self.folder, *arguments, environ=environment, stdin=stdin, limit_s=limit_s)
        except CiguardError as error:
            raise type(error)(error.what, where=self.location, fix=error.fix) from error

    def _address(self, *, pushing: bool) -> str:
        option = ["--push"] if pushing else []
        get_url = self._git("remote", "get-url", *option, REMOTE)
        if not get_url.returncode:
            return get_url.stdout.decode("utf-8", "replace").strip()
        git_dir = self._git("rev-parse", "--git-dir")
        what, fix = ownership_problem(git_dir.stderr)
        if what:
            raise InputError(what, where=self.location, fix=fix)
        what = f"this clone has no remote {REMOTE!r}"
        if git_dir.returncode:
            what = "the current folder is in no git repository"
        fix = "run it in a clone of the repository, or keep the history in a file"
        raise NoRemoteError(what, where=self.location, fix=fix)

    def _output_of(
        self, *arguments: str, stdin: bytes = b"", extra: Mapping[str, str] | None = None
    ) -> str:
        done = self._git(*arguments, stdin=stdin, environ={**self.environ, **(extra or {})})
        self._check(done, f"git {arguments[0]} failed")
        return done.stdout.decode("ascii").strip()

    def _check(self, process: CompletedProcess[bytes], what: str, *, writing: bool = False) -> None:
        if process.returncode:
            output_text = without_secrets(_text(process))
            fix = advice(output_text, writing=writing)
            raise RemoteError(f"{what}: {summarize(output_text)}", where=self.location, fix=fix)


def _text(process: CompletedProcess[bytes]) -> str:
    return (process.stdout[-2000:] + process.stderr[-2000:]).decode("utf-8", "replace")


# Meanings of a refusal. The words are those of git's `remote-curl.c`, `send-pack.c`,
# `receive-pack.c`, and of GitHub's pre-receive hooks as its users quote them (GH001, GH003, GH006,
# GH013).
# A line of `git push --porcelain` that begins with "!": another writer was faster. A refusal by the
# remote as "non-fast-forward" is no lost race: that server never accepts a forced push.
LOST_RACE: Final = re.compile(
    r"^!\t[^\t]*\t(?:\[rejected\] \((?:stale info|fetch first|non-fast-forward)\)|"
    r"\[remote rejected\] \((?:fetch first|cannot lock ref|failed to (?:update|lock)|"
    r"reference already exists|incorrect old value))",
    re.MULTILINE,
)
# A retry may succeed.
TRANSIENT: Final = re.compile(
    r"Could not resolve host|Temporary failure in name resolution|Failed to connect|"
    r"Couldn't connect|Connection (?:reset|refused|timed out|closed)|returned error: (?:429|5\d\d)|"
    r"early EOF|RPC failed|unexpected disconnect|hung up unexpectedly|Operation (?:too slow|timed)|"
    r"SSL_ERROR_SYSCALL|gnutls_handshake|GnuTLS recv error|Internal Server Error"
)
_RULE: Final = re.compile(
    r"GH003|GH006|GH013|protected branch|rule violations|hook declined|non-fast-forward|"
    r"[Ff]orce.push"
)
_TOO_LARGE: Final = re.compile(r"GH001|file size limit|exceeds the (?:maximum|limit)|too large")
_NO_PERMISSION: Final = re.compile(
    r"returned error: 40[134]|denied|not granted|Authentication failed|could not read "
    r"(?:Username|Password)|read.only|[Rr]epository not found"
)

_PREFIX: Final = re.compile(r"^(?:remote: *)?(?:fatal: |error: |ERROR: )?")
_NOISE: Final = re.compile(r"(?:To |Done$|hint: |failed to push some refs|Everything up-to-date)")


def summarize(output_text: str) -> str:
    """Return the lines with a reason, without prefixes and addresses, as one line."""
    lines = []
    for line in output_text.splitlines():
        reason = line.rpartition("\t")[2] if line.startswith("!\t") else line
        text = _PREFIX.sub("", reason).strip()
        if text and not _NOISE.match(text):
            lines.append(text)
    return "; ".join(lines)


def advice(output_text: str, *, writing: bool) -> str:
    """Return what to do about a failure; "" if unknown."""
    # The size before the rules: GitHub refuses a large file with the words of a rule, too.
    if writing and _TOO_LARGE.search(output_text):
        return "see `ciguard history show`: tests whose ids change from run to run make it large"
    if writing and _RULE.search(output_text):
        return (
            "leave this branch out of the repository's rules and hooks, or let this token force a "
            "push to it: every write replaces the one commit"
        )
    if not _NO_PERMISSION.search(output_text):
        return "" if writing else "check its address, the network and your access: git ls-remote"
    if writing:
        return (
            "the job needs `permissions: contents: write` and GITHUB_TOKEN in its environment; "
            "a pull request's from a fork cannot have it"
        )
    return "the job needs `permissions: contents: read` and GITHUB_TOKEN in its environment"
