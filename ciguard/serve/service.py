"""The service as handlers and workers use it: settings, database, objects and GitHub clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections to the database."""
        self.database.close()


def open_service(settings: Settings, environ: Mapping[str, str]) -> Service:
    """Open the store and the database of the settings; migrate the tables.

    Args:
        environ: credentials of S3.

    Raises:
        UsageError, RemoteError, InputError: as `open_objects`, `open_database`.
    """
    github = GitHubClients(settings)
    objects = open_objects(settings.results, environ)
    return Service(settings, open_database(settings.database), objects, github)
