"""From what a person called a run to its records: the disk, or GitHub.

One door for all commands; what a run id is in a history is their own business.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ciguard import files
from ciguard.codec import placing
from ciguard.codec.foreign import records_of_results
from ciguard.errors import InputError, UsageError
from ciguard.github.place import Place as OnGitHub
from ciguard.github.place import place_of
from ciguard.lookup.references import Place, RunId, checked_repository
from ciguard.repository.checkout import remote_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun
    from ciguard.model import Record
    from ciguard.model.jobs import Job

RESULTS: Final = (".xml", ".trx", ".zip")  # in a folder; a pattern may name any
TOKEN_FIX: Final = "set GITHUB_TOKEN, with actions: read for the repository"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What there is of a run.

    Attributes:
        foreign: the records were made of other programs' result files.
        problems: what of it could not be had or read.
        jobs: as GitHub knows them; empty where it was not asked, or did not say.
    """

    records: tuple[Record, ...]
    foreign: bool = False
    problems: tuple[str, ...] = ()
    jobs: tuple[Job, ...] = ()


class Lookup:
    """Finds records below a folder and, with a token, on GitHub.

    Args:
        repository: `owner/name`; None for the one that this process is part of, else the one that
            the checkout around the folder comes from.

    Raises:
        UsageError: the repository cannot be meant.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path, repository: str | None) -> None:
        self._environ = environ
        self._folder = folder
        if repository is not None:
            checked_repository(repository, "--repo")
        self._said = repository or ""

    @property
    def can_ask(self) -> bool:
        """Say that GitHub can be asked of a run id that nothing else is known of."""
        return bool(self._token and self._known is not None)

    @cached_property
    def _known(self) -> OnGitHub | None:
        """Where a run id is looked for; None where nobody says."""
        try:
            return self._place()
        except UsageError:
            return None

    def _place(self, reference: RunId | None = None) -> OnGitHub:
        remote = remote_url(self._folder, self._environ)
        named = reference.repository if reference is not None else ""
        server = reference.server if reference is not None else ""
        return place_of(self._environ, repository=named or self._said, server=server, remote=remote)

    @property
    def _token(self) -> str:
        return self._environ.get("GITHUB_TOKEN") or self._environ.get("GH_TOKEN") or ""

    def exists(self, text: str) -> bool:
        """Say whether a path is there; a name that no file can have is none."""
        try:
            return (self._folder / text).exists()
        except (OSError, ValueError):
            return False

    def around(self) -> ActionsRun | None:
        """The run that this process is part of, if any."""
        # Here and below: pydantic and httpx cost 0.2 s that a comparison of files need not pay.
        from ciguard.github.payload import current_run  # noqa: PLC0415

        return current_run(self._environ)

    def current(self, where: str) -> ActionsRun:
        """The run that this process is part of.

        Raises:
            UsageError: it is part of none.
        """
        run = self.around()
        if run is None or run.run_id is None:
            fix = "name the run by its id, its address or the folder of its records"
            raise UsageError("this is no run of GitHub Actions", where=where, fix=fix)
        return run

    def on_disk(self, place: Place) -> Recorded:
        """Records, or result files, that a path or a pattern names.

        Raises:
            InputError: nothing is there.
        """
        root = self._folder / place.text
        if not place.wild and (root.is_dir() or root.suffix not in RESULTS):
            records = files.read_record_tree(root)
            if records or not root.is_dir():
                return Recorded(records)
        found = tuple(self._results(place))
        if not found:
            what = "no such file" if place.wild else "no record and no result file is there"
            fix = "name a folder of records, or files in JUnit XML or TRX"
            raise InputError(what, where=place.text, fix=fix)
        return Recorded(records_of_results(found, place.text), foreign=True)

    def _results(self, place: Place) -> Iterator[placing.Placed]:
        root = self._folder / place.text
        if place.wild:
            try:
                yield from files.placed_results(self._folder, [place.text])
            except UsageError:  # nothing of it says a shard, and nobody needs one here
                begin = Path(root.anchor) if Path(place.text).is_absolute() else self._folder
                inside = place.text.removeprefix(root.anchor)
                for item in sorted(begin.glob(inside)):
                    yield from self._plain(item)
        elif root.is_dir():
            for item in sorted(root.rglob("*")):
                if item.suffix in RESULTS:
                    yield from self._plain(item)
        else:
            yield from self._plain(root)

    def _plain(self, item: Path) -> Iterator[placing.Placed]:
        if stat.S_ISREG(item.lstat().st_mode):
            yield placing.Placed(item.name, files.read(item), shard="")

    def on_github(self, reference: RunId, where: str) -> Recorded:
        """A run's records, downloaded, and its jobs.

        Raises:
            UsageError: nobody said of which repository, or there is no token.
            GitHubError: GitHub refused, or did not answer.
            InputError: it has no record.
        """
        from ciguard.github.artifacts import records_of_run  # noqa: PLC0415
        from ciguard.github.refusals import GitHubError  # noqa: PLC0415
        from ciguard.github.runs import RunOnGitHub  # noqa: PLC0415

        place = self._place(reference)
        repository = place.repository
        with self.github(place, where) as github:
            found = records_of_run(github, repository, reference.run_id, reference.run_attempt)
            jobs: tuple[Job, ...] = ()
            problems = found.problems
            try:
                jobs = RunOnGitHub(github, repository, reference.run_id).jobs()
            except GitHubError as error:
                problems = (*problems, f"its jobs are not known: {error.what}")
        if not found.records:
            what = f"run {reference.run_id} of {repository} has no record among its artifacts"
            fix = "legs of `ciguard run` upload one each; name result files instead"
            raise InputError("; ".join([what, *problems]), where=where, fix=fix)
        if reference.run_attempt is not None:
            jobs = tuple(job for job in jobs if job.run_attempt <= reference.run_attempt)
        return Recorded(found.records, problems=problems, jobs=jobs)

    def github(self, place: OnGitHub, where: str) -> GitHub:
        """A client; whoever takes it closes it.

        Raises:
            UsageError: there is no token.
        """
        from pydantic import SecretStr  # noqa: PLC0415

        from ciguard.github.client import GitHub  # noqa: PLC0415

        if not self._token:
            raise UsageError("there is no token for GitHub", where=where, fix=TOKEN_FIX)
        return GitHub(place.api_url, SecretStr(self._token))

    def asker(self) -> Callable[[str, str], frozenset[str]] | None:
        """Asks GitHub for the commits between two; None where it cannot be asked."""
        place = self._known
        if place is None or not self._token:
            return None

        def ask(old: str, new: str) -> frozenset[str]:
            from ciguard.github.runs import known_ancestors  # noqa: PLC0415

            with self.github(place, "commits") as github:
                return known_ancestors(github, place.repository, old, new)

        return ask

    def newest_of(self, branch: str, where: str) -> RunId:
        """The newest run of a branch that is done, of the workflow around us where there is one.

        Raises:
            UsageError, GitHubError: as of `on_github`.
            InputError: there is none.
        """
        from ciguard.github.runs import finished_runs  # noqa: PLC0415

        around = self.around()
        workflow = around.workflow if around is not None and _is_file(around.workflow) else ""
        place = self._place()
        with self.github(place, where) as github:
            found = finished_runs(github, place.repository, workflow=workflow, branch=branch)
        own = [run for run in found if run.event not in ("pull_request", "pull_request_target")]
        newest = max(own, key=lambda run: run.id, default=None)
        if newest is None:
            of = f" of {workflow}" if workflow else ""
            what = f"no run{of} on branch {branch} that is done"
            raise InputError(what, where=where, fix="name a run by its id")
        return RunId(newest.id, None, place.repository)


def _is_file(workflow: str) -> bool:
    return workflow.endswith((".yml", ".yaml"))
