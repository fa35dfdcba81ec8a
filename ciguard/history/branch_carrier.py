"""A history in an orphan branch of a git repository's `origin`: one commit with one file.

Every write is a new commit without parents, so the branch never grows; it is pushed only where the
branch still is what was read (compare-and-swap). The working tree, the index and the local branches
are not touched, and a shallow clone will do.
"""

from __future__ import annotations

import base64
import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ciguard.codec.history import FILE_NAME
from ciguard.errors import InputError, RemoteError
from ciguard.history.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

REMOTE: Final = "origin"
TIMEOUT_S: Final = 300
_AUTHOR: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "ciguard"), ("EMAIL", "ciguard@localhost.invalid"))
}
_ABSENT: Final = 2  # of ls-remote --exit-code
# What `git push --porcelain` says where somebody else was there first.
_LOST_RACE: Final = re.compile(
    r"stale info|fetch first|non-fast-forward|cannot lock ref|failed to (update|lock)|"
    r"reference already exists|incorrect old value"
)


def with_token(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """The environment in which git may speak to `url`: with the token, if that is GitHub.

    A token goes by the environment (GIT_CONFIG_*), never by the command line, which other processes
    can read; and only to the server that the workflow says is GitHub.
    """
    told = {**environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
    token = environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN")
    there, github = urlsplit(url), urlsplit(server)
    same = (there.scheme, there.hostname, there.port) == (
        github.scheme, github.hostname, github.port,
    )  # fmt: skip
    if not token or not same or github.scheme not in {"https", "http"}:
        return told
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    key = f"http.{github.scheme}://{github.netloc}/.extraheader"
    known = environ.get("GIT_CONFIG_COUNT", "")
    count = int(known) if known.isdigit() else 0
    # The empty value first: a header that the checkout left would be sent as well, and GitHub
    # refuses two.
    for value in ("", f"AUTHORIZATION: basic {secret}"):
        told[f"GIT_CONFIG_KEY_{count}"] = key
        told[f"GIT_CONFIG_VALUE_{count}"] = value
        count += 1
    told["GIT_CONFIG_COUNT"] = str(count)
    return told


def without_secrets(text: str) -> str:
    """What git said, without names and passwords in addresses."""
    return re.sub(r"//[^/@\s]+@", "//", text).strip()


@dataclass(frozen=True, slots=True)
class BranchCarrier:
    """The branch `name` of `origin` of the repository around `folder`."""

    name: str
    folder: Path
    environ: Mapping[str, str] = field(repr=False)

    @property
    def place(self) -> str:
        """As it is written on the command line."""
        return f"branch:{self.name}"

    def read(self) -> Kept:
        """The branch's file; without such a branch there is nothing yet.

        Raises:
            RemoteError: `origin` cannot be reached, or its branch holds no history.
            InputError: not a branch name, no git, or no repository here.
        """
        ref = self._ref()
        found = self._git("ls-remote", "--exit-code", REMOTE, ref, remote=True)
        if found.returncode == _ABSENT:
            return Kept(None)
        self._done(found, "the branch cannot be looked up")
        fetched = self._git("fetch", "--no-tags", "--quiet", REMOTE, ref, remote=True)
        self._done(fetched, "the branch cannot be fetched")
        commit = self._said("rev-parse", "--verify", "FETCH_HEAD^{commit}")
        shown = self._git("cat-file", "blob", f"{commit}:{FILE_NAME}")
        self._done(shown, f"the branch holds no {FILE_NAME}", "name another branch")
        return Kept(shown.stdout, commit)

    def write(self, content: bytes, seen: Kept) -> bool:
        """Push a new commit, if the branch still is what was read.

        Raises:
            RemoteError: the push was refused for another reason.
        """
        ref = self._ref()
        blob = self._said("hash-object", "-w", "--stdin", given=content)
        entry = f"100644 blob {blob}\t{FILE_NAME}\n".encode()
        tree = self._said("mktree", given=entry)
        commit = self._said("commit-tree", tree, "-m", "ciguard history", extra=_AUTHOR)
        pushed = self._git(
            "push", "--porcelain", "--no-verify", f"--force-with-lease={ref}:{seen.version}",
            REMOTE, f"{commit}:{ref}", remote=True,
        )  # fmt: skip
        if pushed.returncode and _LOST_RACE.search(_text(pushed)):
            return False
        fix = "the job needs `permissions: contents: write` and GITHUB_TOKEN in its environment"
        self._done(pushed, "the branch cannot be written", fix)
        return True

    def _ref(self) -> str:
        ref = f"refs/heads/{self.name}"
        if not self.name or self._git("check-ref-format", ref).returncode:
            what = f"no branch name: {self.name!r:.80}"
            raise InputError(what, where="--history", fix="write branch:ciguard-history")
        return ref

    def _git(
        self,
        *words: str,
        given: bytes = b"",
        remote: bool = False,
        extra: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        environ = with_token(self.environ, self._url() if remote else "")
        try:
            return subprocess.run(
                ["git", *words],
                cwd=self.folder,
                env={**environ, **(extra or {})},
                input=given,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise InputError("git is not installed", where=self.place) from error
        except subprocess.TimeoutExpired as error:
            what = f"git {words[0]} took more than {TIMEOUT_S} s"
            raise RemoteError(what, where=self.place) from error

    def _url(self) -> str:
        found = self._git("remote", "get-url", REMOTE)
        if found.returncode:
            what = without_secrets(_text(found))
            fix = f"run it in a clone that has a remote {REMOTE}, or name a file"
            raise InputError(what, where=self.place, fix=fix)
        return found.stdout.decode("utf-8", "replace").strip()

    def _said(self, *words: str, given: bytes = b"", extra: Mapping[str, str] | None = None) -> str:
        done = self._git(*words, given=given, extra=extra)
        self._done(done, f"git {words[0]} failed")
        return done.stdout.decode("ascii").strip()

    def _done(self, process: subprocess.CompletedProcess[bytes], what: str, fix: str = "") -> None:
        if process.returncode:
            said = without_secrets(_text(process))
            raise RemoteError(f"{what}: {said}", where=self.place, fix=fix)


def _text(process: subprocess.CompletedProcess[bytes]) -> str:
    return (process.stdout[-2000:] + process.stderr[-2000:]).decode("utf-8", "replace")
