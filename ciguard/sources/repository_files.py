"""Files of the judged repository: of a checkout, by git or GitHub's API, or by the API alone.

A job that only judges needs no checkout, and the service has none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ciguard.errors import RemoteError
from ciguard.git.checkout import MAX_BYTES, Checkout
from ciguard.github.repository_ref import token_of
from ciguard.sources import local

if TYPE_CHECKING:
    from ciguard.github.client import GitHub
    from ciguard.github.contents import CommitTree
    from ciguard.github.events import ActionsRun


class RepositoryFiles(Protocol):
    """A source of files: of the judged tree, and of commits before it."""

    def own(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return those of the files that the judged tree has.

        Raises:
            CiguardError: an existing file cannot be read.
        """

    def at(self, commit: str, names: Sequence[str], max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
        """Return those of the files that a commit has.

        Raises:
            RemoteError: the commit cannot be read, or a name is no regular file, or too large.
        """

    def base_of_merge(self, tested_sha: str | None, head_sha: str | None) -> str | None:
        """Return the base of the tested merge by git; None if unknown."""

    def is_edited(self, name: str, base_sha: str, tested_sha: str) -> bool:
        """Return whether the tested commit has a file that differs from that of the base."""

    def ancestors_among(self, commit: str, candidates: Collection[str]) -> Mapping[str, bool]:
        """Map each candidate to whether it is an ancestor of `commit`; leave out unknown ones."""

    def known_ancestors(self, old: str, new: str) -> frozenset[str]:
        """Return the commits between two; of GitHub's list, at most 102; none if unknown.

        Raises:
            RemoteError: GitHub refused or did not answer.
        """


@dataclass(frozen=True, slots=True)
class CheckoutFiles:
    """The files of a checkout: of the folder in which a command is called.

    Attributes:
        run: the current workflow run; without a run, GitHub is not asked.
    """

    folder: Path
    environ: Mapping[str, str] = field(repr=False)
    run: ActionsRun | None = None

    @property
    def _checkout(self) -> Checkout:
        return Checkout(self.folder, self.environ)

    def own(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return those of the files that the folder has."""
        paths = {name: self.folder / name for name in names}
        return {name: local.read(path) for name, path in paths.items() if path.is_file()}

    def at(self, commit: str, names: Sequence[str], max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
        """Read the files by git, in the checkout or from `origin`; otherwise by GitHub's API."""
        try:
            return self._checkout.files_at(commit, names, max_bytes)
        except RemoteError as error:
            # Imported here: pydantic and httpx take 0.2 s, which a complete checkout saves.
            from ciguard.github.contents import CommitTree  # noqa: PLC0415
            from ciguard.sources.inputs import explaining_client  # noqa: PLC0415

            run, token = self.run, token_of(self.environ)
            if run is None or not token:
                raise
            prefix = self._prefix()
            try:
                with explaining_client(run.api_url, token) as github:
                    paths = [f"{prefix}{name}" for name in names]
                    files = CommitTree(github, run.repository, commit).files(paths, max_bytes)
            except RemoteError as other:
                what = f"{error.what}; and by GitHub's API: {other.what}"
                raise RemoteError(what, where=error.where, fix=error.fix) from other
            return {path.removeprefix(prefix): content for path, content in files.items()}

    def base_of_merge(self, tested_sha: str | None, head_sha: str | None) -> str | None:
        """Return the first parent of the checked-out commit, as `Checkout.base_of_merge`."""
        return self._checkout.base_of_merge(tested_sha, head_sha)

    def is_edited(self, name: str, base_sha: str, tested_sha: str) -> bool:
        """Compare the tracked files; a file that no commit has was made by the workflow."""
        tested = self._checkout.tracked(tested_sha, name)
        return bool(tested) and tested != self._checkout.tracked(base_sha, name)

    def ancestors_among(self, commit: str, candidates: Collection[str]) -> Mapping[str, bool]:
        """Return the ancestors by git; {} without git or a checkout."""
        try:
            return self._checkout.ancestors_among(commit, candidates)
        except RemoteError:
            return {}

    def known_ancestors(self, old: str, new: str) -> frozenset[str]:
        """Return the commits by git; otherwise by GitHub, if a token and a repository are known."""
        with suppress(RemoteError):
            if listed := self._checkout.commits_between(old, new):
                return listed
        from ciguard.sources.record_finder import RecordFinder  # noqa: PLC0415

        query = RecordFinder(self.environ, self.folder, None).ancestor_query()
        return query(old, new) if query is not None else frozenset()

    def _prefix(self) -> str:
        """Return the path of the folder in the workspace: "a/b/", or "" for its root."""
        workspace = self.environ.get("GITHUB_WORKSPACE")
        folder = self.folder.resolve()
        if not workspace or not folder.is_relative_to(Path(workspace).resolve()):
            return ""
        inside = folder.relative_to(Path(workspace).resolve()).as_posix()
        return "" if inside == "." else f"{inside}/"


@dataclass(frozen=True, slots=True)
class ContentsFiles:
    """The files of a repository without a checkout, by GitHub's API; names start at its root.

    Attributes:
        sha: commit of the judged tree: the tested merge, otherwise the head.
        trees: those that were read, by commit.
    """

    github: GitHub
    repository: str
    sha: str
    trees: dict[str, CommitTree] = field(default_factory=dict, repr=False)

    def own(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return those of the files that the judged commit has."""
        return self.at(self.sha, names)

    def at(self, commit: str, names: Sequence[str], max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
        """Read the files: one call for each of their folders, one for each file."""
        from ciguard.github.contents import CommitTree  # noqa: PLC0415

        tree = self.trees.setdefault(commit, CommitTree(self.github, self.repository, commit))
        return tree.files(names, max_bytes)

    def base_of_merge(self, tested_sha: str | None, head_sha: str | None) -> str | None:  # noqa: ARG002
        """Return None: only records name the merge, and a pull request can forge its records."""
        return None

    def is_edited(self, name: str, base_sha: str, tested_sha: str) -> bool:
        """Compare the files of both commits."""
        tested = self.at(tested_sha, (name,))
        return bool(tested) and tested != self.at(base_sha, (name,))

    def ancestors_among(self, commit: str, candidates: Collection[str]) -> Mapping[str, bool]:  # noqa: ARG002
        """Return nothing: `known_ancestors` needs one call only."""
        return {}

    def known_ancestors(self, old: str, new: str) -> frozenset[str]:
        """Return the commits by GitHub, in one call."""
        from ciguard.github.run_client import known_ancestors  # noqa: PLC0415

        return known_ancestors(self.github, self.repository, old, new)


def changed_files(
    files: RepositoryFiles, commits: tuple[str, str], names: Sequence[str]
) -> dict[str, bool]:
    """Map each file in one of two commits to whether it differs; {} if a commit is unreadable."""
    try:
        before, after = (files.at(commit, names) for commit in commits)
    except RemoteError:
        return {}
    existing = {*before, *after}
    return {name: before.get(name) != after.get(name) for name in names if name in existing}
