"""GET /api/v1/repos/{owner}/{name}/history: the history file of a repository."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from ciguard.errors import RemoteError
from ciguard.github.repository_ref import REPOSITORY
from ciguard.serve.api.access import caller_repository
from ciguard.serve.api.oidc import JobTokens, KeysUnavailable, TokenRefused
from ciguard.serve.api.problem_details import NOT_FOUND, problem, refusal
from ciguard.serve.object_cache import DamagedObject, read_checked
from ciguard.serve.state import histories, repositories

if TYPE_CHECKING:
    from starlette.requests import Request

    from ciguard.serve.objects import ObjectStore
    from ciguard.serve.state.database import Database

LOG: Final = logging.getLogger(__name__)
MEDIA_TYPE: Final = "application/octet-stream"


def history_response(
    request: Request, database: Database, objects: ObjectStore, jobs: JobTokens
) -> Response:
    """Answer with the file or a problem; check the caller first, to reveal no repository."""
    full_name = "{owner}/{name}".format(**request.path_params)
    try:
        caller = caller_repository(request.headers.get("Authorization"), database, jobs)
        if not REPOSITORY.fullmatch(full_name):
            return problem(HTTPStatus.NOT_FOUND, NOT_FOUND)  # PostgreSQL takes no NUL in a text
        with database.read() as connection:
            repository = repositories.find(connection, full_name)
            if repository is None or (repository.is_private and repository.id != caller):
                return problem(HTTPStatus.NOT_FOUND, NOT_FOUND)
            row = histories.current(connection, repository.id)
        if row is None:
            return _response(HTTPStatus.NO_CONTENT)
        content = read_checked(objects, row.object, row.sha256, "history")
        return _response(HTTPStatus.OK, content)
    except TokenRefused as error:
        return refusal(error)
    except (DamagedObject, KeysUnavailable) as error:
        LOG.warning("the history of %s: %s", full_name, error)
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, error.what)
    except RemoteError as error:
        LOG.warning("the history of %s: %s", full_name, error)
        detail = "the database or the store of objects cannot be reached"
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail)


def _response(status: HTTPStatus, content: bytes | None = None) -> Response:
    headers = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
    media_type = MEDIA_TYPE if status is HTTPStatus.OK else None
    return Response(content, status, headers, media_type)
