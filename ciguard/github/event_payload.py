"""The run that this process is part of: variables, and the event's payload from its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ciguard.errors import InputError
from ciguard.github.events import ActionsRun

if TYPE_CHECKING:
    from collections.abc import Mapping


def current_run(environ: Mapping[str, str]) -> ActionsRun | None:
    """The workflow run around us; None outside GitHub Actions.

    Raises:
        InputError: the payload cannot be read or is no JSON object, or a variable is malformed.
    """
    path = environ.get("GITHUB_EVENT_PATH", "")
    payload: Any = {}
    if path:
        try:
            payload = json.loads(Path(path).read_bytes())
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            raise InputError(what, where=f"GITHUB_EVENT_PATH: {path}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"no JSON: {error}", where=f"GITHUB_EVENT_PATH: {path}") from error
        if not isinstance(payload, dict):
            raise InputError("expected a JSON object", where=f"GITHUB_EVENT_PATH: {path}")
    return ActionsRun.from_environ(environ, payload)
