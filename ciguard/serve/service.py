"""The service as handlers and workers use it: settings, database, objects and GitHub clients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ciguard.serve.github_clients import GitHubClients
from ciguard.serve.objects import ObjectStore, open_objects
from ciguard.serve.settings import Settings
from ciguard.serve.state.database import Database, open_database


@dataclass(frozen=True, slots=True)
class Service:
    """The service of one process; threads share it."""

    settings: Settings
    database: Database
    objects: ObjectStore
    github: GitHubClients


@contextlib.contextmanager
def open_service(settings: Settings, environ: Mapping[str, str]) -> Iterator[Service]:
    """Open the store and the database of the settings, whose tables are migrated.

    Args:
        environ: credentials of S3.

    Raises:
        UsageError, RemoteError, InputError: as `open_objects`, `open_database`.
    """
    github = GitHubClients(settings)
    objects = open_objects(settings.results, environ)
    with contextlib.closing(open_database(settings.database)) as database:
        yield Service(settings, database, objects, github)
