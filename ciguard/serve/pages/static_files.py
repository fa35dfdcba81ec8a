"""Stylesheet and scripts, under names with their hash: browsers cache them for a year.

htmx 4.0.1 is an unchanged copy, with its licence beside it; pages load no file from another server.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ciguard.render.templates import template_folder

PREFIX: Final = "/-/static/"  # no owner's name begins with a hyphen
CACHE: Final = "public, max-age=31536000, immutable"


@lru_cache(maxsize=1)
def static_files() -> tuple[Mapping[str, str], Mapping[str, tuple[bytes, str]]]:
    """Return addresses by file name; contents and media types by the last part of an address."""
    addresses: dict[str, str] = {}
    files: dict[str, tuple[bytes, str]] = {}
    folder = template_folder() / "serve" / "static"
    for path in sorted(folder.iterdir(), key=lambda file: file.name):
        content = path.read_bytes()
        name = f"{hashlib.sha256(content).hexdigest()[:16]}-{path.name}"
        media_type = mimetypes.types_map.get(f".{path.name.rpartition('.')[2]}", "text/plain")
        files[name] = (content, media_type)
        addresses[path.name] = PREFIX + name
    return addresses, files


def static_address(name: str) -> str:
    return static_files()[0][name]


async def serve_static(request: Request) -> Response:
    """Answer with a file by its name with hash; 404 for another version."""
    file = static_files()[1].get(request.path_params["name"])
    if file is None:
        return Response("not found\n", HTTPStatus.NOT_FOUND, media_type="text/plain")
    return Response(file[0], headers={"Cache-Control": CACHE}, media_type=file[1])


ROUTES: Final = (Route(PREFIX + "{name}", serve_static),)
