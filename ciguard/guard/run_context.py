"""Where a run is judged: which run it is, by which configuration, with which files at hand.

A command makes it of its folder and environment, a service of what GitHub says of the run: what is
judged by it is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from ciguard import console
from ciguard.github.events import current_run
from ciguard.sources.repository_files import CheckoutFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ciguard.config.file import Config
    from ciguard.config.invocation import Invocation
    from ciguard.github.events import ActionsRun
    from ciguard.sources.repository_files import RepositoryFiles


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a run is judged in.

    Attributes:
        run: the workflow run that is judged, or that judges it; None outside of GitHub Actions.
        config: of the tree that is judged.
        environ: variables that set keys of the base's configuration as well.
        today: on which quarantines end.
        warn: is handed what keeps no verdict away, as one line.
        is_remote: it is judged from outside of the repository's own jobs.
    """

    run: ActionsRun | None
    config: Config
    files: RepositoryFiles
    environ: Mapping[str, str] = field(repr=False)
    today: date
    warn: Callable[[str], None]
    is_remote: bool = False

    @property
    def is_from_fork(self) -> bool:
        """Say whether what is judged is another repository's own claim."""
        if self.run is None:
            return False
        return self.run.is_subject_from_fork or (self.is_remote and self.run.is_fork)


def context_of(invocation: Invocation) -> RunContext:
    """What the command is called in.

    Raises:
        UsageError: the folder's own configuration has mistakes.
        InputError: variables or payload of GitHub Actions are malformed.
    """
    run = current_run(invocation.environ)
    return RunContext(
        run,
        invocation.config(),
        CheckoutFiles(invocation.folder, invocation.environ, run),
        invocation.environ,
        datetime.now(UTC).date(),
        lambda text: console.err(f"warning: {text}"),
    )
