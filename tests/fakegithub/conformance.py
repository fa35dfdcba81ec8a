"""Requests and answers, compared with GitHub's own OpenAPI description."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakegithub.server import serving
from openapi_core import Config, OpenAPI
from openapi_core.templating.responses.exceptions import ResponseNotFound
from openapi_core.testing import MockRequest, MockResponse

if TYPE_CHECKING:
    from fakegithub.state import Exchange, FakeGitHub

_DESCRIPTION: Final = (
    Path(__file__).parents[1] / "samples/recorded/github/api.github.com.subset.json"
)

# Any call can meet these; the description leaves them out of some operations.
_EVERYWHERE: Final = frozenset({304, 401, 403, 404})
# Not in the subset, or no part of the API.
_NOT_DESCRIBED: Final = re.compile(
    r"/user|/meta|/storage/.*|/app(/.*)?|/installation/repositories|/repositories/\d+|/repos/[^/]+/[^/]+|/repos/[^/]+/[^/]+/(installation|contents/.*|git/blobs/.*|branches/.*|rules/.*|issues|issues/\d+|actions/artifacts|commits/[^/]+/check-runs)"
)
# A pull request or a run in a list has 200 keys, of which its repository has most.
_SHORTENED: Final = re.compile(
    r"/repos/[^/]+/[^/]+/(commits/[^/]+/pulls|actions/(workflows/[^/]+/)?runs)"
)


@cache
def _description() -> OpenAPI:
    # GitHub's description is taken as it is; validating it would take longer than the tests.
    trusting = Config(spec_validator_cls=None)  # type: ignore[arg-type] # its documented way
    return OpenAPI.from_dict(json.loads(_DESCRIPTION.read_bytes()), config=trusting)


@contextlib.contextmanager
def conforming() -> Iterator[FakeGitHub]:
    """Serve a GitHub; what was exchanged by the end must be what GitHub's description allows."""
    with serving() as github:
        yield github
    assert mistakes(github.exchanges) == []


def mistakes(exchanges: Iterable[Exchange]) -> list[str]:
    """Return what in these requests and answers GitHub's description does not allow."""
    return [
        f"{one.request.method} {one.request.path} -> {one.answer.status}: {error}"
        for one in exchanges
        if not _NOT_DESCRIBED.fullmatch(one.request.path)
        for error in _errors_of_shape(_Shape(_text_without_numbers(one), one))
    ]


def _text_without_numbers(exchange: Exchange) -> str:
    text = re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "0", repr((exchange.request, exchange.answer)))
    return f"{exchange.answer.status} {text}"


@dataclass(frozen=True)
class _Shape:
    """An exchange, equal to those that differ from it in numbers only: one check takes 15 ms."""

    text: str
    example: Exchange = field(compare=False)


@cache
def _errors_of_shape(shape: _Shape) -> tuple[str, ...]:
    errors = _errors(_description(), shape.example)
    return tuple(f"{error!r} {error.__cause__!r}" for error in errors)


def _errors(description: OpenAPI, exchange: Exchange) -> Iterable[Exception]:
    requested, answered = exchange.request, exchange.answer
    request = MockRequest(
        "https://api.github.com",
        requested.method,
        requested.path,
        # `created` is a date-time by its format, and by its words a range such as `>=2026-11-21`.
        args={name: text for name, text in requested.query.items() if name != "created"},
        headers=dict(requested.headers),
        data=requested.body or None,
        content_type=requested.headers.get("content-type", ""),
    )
    yield from description.iter_request_errors(request)
    if _SHORTENED.fullmatch(requested.path):
        return
    if answered.status == 0 or answered.text is not None:
        return  # a broken connection, or a text that a test wants to be wrong
    response = MockResponse(
        answered.content,
        answered.status,
        headers=dict(answered.headers),
        content_type=answered.content_type,
    )
    for error in description.iter_response_errors(request, response):
        known = not isinstance(error, ResponseNotFound)
        if known or not (answered.spoilt or answered.status in _EVERYWHERE):
            yield error
