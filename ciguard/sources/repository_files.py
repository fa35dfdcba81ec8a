"""Files of the judged repository: of a checkout, by git or GitHub's API; or by the API alone.

A job that only judges need not check anything out, and a service has no checkout at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ciguard.errors import RemoteError
from ciguard.git.checkout import Checkout
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun


class RepositoryFiles(Protocol):
    """Where the files of what is judged, and of commits before it, are read."""

    def own(self, names: Sequence[str]) -> dict[str, bytes]:
        """Those of the files that the judged tree itself has.

        Raises:
            CiguardError: one is there and cannot be read.
        """

    def at(self, commit: str, names: Sequence[str]) -> dict[str, bytes]:
        """Those of the files that a commit has.

        Raises:
            RemoteError: it cannot be known, or a file of it is no file.
        """

    def by_git(self, commit: str, name: str, max_bytes: int) -> bytes | None:
        """A file of a commit that whoever checked the repository out has; None without one.

        Raises:
            RemoteError: the commit cannot be had, or the file is too large.
        """

    def base_of_merge(self, tested_sha: str | None, head_sha: str | None) -> str | None:
        """The base of the tested merge, by the word of git alone; None where it is not known."""

    def is_edited(self, name: str, base_sha: str, tested_sha: str) -> bool:
        """Say whether a file that is in the tested commit is another one on the base."""

    def ancestors_among(self, commit: str, candidates: Collection[str]) -> Mapping[str, bool]:
        """Of each commit whether it is an ancestor of that one; nothing of those not known."""

    def known_ancestors(self, old: str, new: str) -> frozenset[str]:
        """Commits between two, as GitHub lists them; none where it is not asked.

        Raises:
            RemoteError: GitHub did not say.
        """


@dataclass(frozen=True, slots=True)
class CheckoutFiles:
    """The folder that a command is called in.

    Attributes:
        run: the workflow run around us: without one, GitHub is not asked.
    """

    folder: Path
    environ: Mapping[str, str] = field(repr=False)
    run: ActionsRun | None = None

    @property
    def _checkout(self) -> Checkout:
        return Checkout(self.folder, self.environ)

    def own(self, names: Sequence[str]) -> dict[str, bytes]:
        """What lies in the folder."""
        paths = [self.folder / name for name in names]
        return {path.name: local.read(path) for path in paths if path.is_file()}

    def at(self, commit: str, names: Sequence[str]) -> dict[str, bytes]:
        """By git, in the checkout or from `origin`; else from GitHub's API."""
        try:
            return self._checkout.files_at(commit, names)
        except RemoteError as error:
            # Imported here: pydantic and httpx cost 0.2 s that a checkout need not pay.
            from ciguard.github.contents import files_at  # noqa: PLC0415
            from ciguard.sources.inputs import explaining_client, token_of  # noqa: PLC0415

            run, token = self.run, token_of(self.environ)
            if run is None or not token:
                raise
            prefix = self._prefix()
            try:
                with explaining_client(run.api_url, token) as github:
                    paths = [f"{prefix}{name}" for name in names]
                    found = files_at(github, run.repository, commit, paths)
            except RemoteError as other:
                what = f"{error.what}; and by GitHub's API: {other.what}"
                raise RemoteError(what, where=error.where, fix=error.fix) from other
            return {path.removeprefix(prefix): content for path, content in found.items()}

    def by_git(self, commit: str, name: str, max_bytes: int) -> bytes | None:
        """Who has the proposal's file in a folder has checked it out."""
        return self._checkout.files_at(commit, (name,), max_bytes).get(name)

    def base_of_merge(self, tested_sha: str | None, head_sha: str | None) -> str | None:
        """The first parent of the commit that is checked out."""
        return self._checkout.base_of_merge(tested_sha, head_sha)

    def is_edited(self, name: str, base_sha: str, tested_sha: str) -> bool:
        """Compare what the commits track; what is in no commit was brought by the workflow."""
        now = self._checkout.tracked(tested_sha, name)
        return bool(now) and now != self._checkout.tracked(base_sha, name)

    def ancestors_among(self, commit: str, candidates: Collection[str]) -> Mapping[str, bool]:
        """As git knows them."""
        try:
            return self._checkout.ancestors_among(commit, candidates)
        except RemoteError:  # no git, no checkout: nothing is known by it
            return {}

    def known_ancestors(self, old: str, new: str) -> frozenset[str]:
        """As GitHub lists them, where there is a token and a repository of GitHub's."""
        from ciguard.sources.record_finder import RecordFinder  # noqa: PLC0415

        query = RecordFinder(self.environ, self.folder, None).ancestor_query()
        return query(old, new) if query is not None else frozenset()

    def _prefix(self) -> str:
        """Where the folder is in the repository, as far as the workspace tells; "a/b/" or ""."""
        workspace = self.environ.get("GITHUB_WORKSPACE")
        here = self.folder.resolve()
        if not workspace or not here.is_relative_to(Path(workspace).resolve()):
            return ""
        inside = here.relative_to(Path(workspace).resolve()).as_posix()
        return "" if inside == "." else f"{inside}/"


@dataclass(frozen=True, slots=True)
class ContentsFiles:
    """A repository without a checkout, by GitHub's API; the root of it, for there is no folder.

    Attributes:
        sha: of the judged tree: the merge that was tested, else the head.
    """

    github: GitHub
    repository: str
    sha: str

    def own(self, names: Sequence[str]) -> dict[str, bytes]:
        """What the judged commit has."""
        return self.at(self.sha, names)

    def at(self, commit: str, names: Sequence[str]) -> dict[str, bytes]:
        """One call for each folder above them, one for each."""
        from ciguard.github.contents import files_at  # noqa: PLC0415

        return files_at(self.github, self.repository, commit, names)

    def by_git(self, commit: str, name: str, max_bytes: int) -> bytes | None:
        """There is no git: a plan that lies in the repository comes by the API, too."""
        from ciguard.github.contents import files_at  # noqa: PLC0415

        return files_at(self.github, self.repository, commit, (name,), max_bytes).get(name)

    def base_of_merge(self, tested_sha: str | None, head_sha: str | None) -> str | None:  # noqa: ARG002
        """Not known: the records name the merge, and whoever proposes a change wrote them."""
        return None

    def is_edited(self, name: str, base_sha: str, tested_sha: str) -> bool:
        """Compare the files of both commits."""
        now = self.at(tested_sha, (name,))
        return bool(now) and now != self.at(base_sha, (name,))

    def ancestors_among(self, commit: str, candidates: Collection[str]) -> Mapping[str, bool]:  # noqa: ARG002
        """Nothing: `known_ancestors` answers it in one call."""
        return {}

    def known_ancestors(self, old: str, new: str) -> frozenset[str]:
        """As GitHub lists them."""
        from ciguard.github.run_client import known_ancestors  # noqa: PLC0415

        return known_ancestors(self.github, self.repository, old, new)


def changed_files(
    files: RepositoryFiles, commits: tuple[str, str], names: Sequence[str]
) -> dict[str, bool]:
    """Of each file that one of two commits has, whether they differ; {} where one cannot be had."""
    try:
        before, now = (files.at(commit, names) for commit in commits)
    except RemoteError:
        return {}
    return {name: before.get(name) != now.get(name) for name in names if {name} & {*before, *now}}
