"""A client of GitHub's REST API: a path in, a validated value out, `GitHubError` on failure."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, Self, TypeVar

import gidgethub
import httpx
import pydantic

from ciguard.errors import UsageError
from ciguard.github.api_errors import (
    GitHubError,
    error_of_response,
    unexpected_response,
    unreachable,
)
from ciguard.github.connection import NOT_SENT, Connection, TokenForHost
from ciguard.github.downloads import Budget, Download
from ciguard.github.models import GitHubJson
from ciguard.github.repository_ref import is_address
from ciguard.github.retry import RetryPolicy

if TYPE_CHECKING:
    import ssl

    from ciguard.github.response_cache import CallBudget, ResponseCache

Answer = TypeVar("Answer", bound=GitHubJson)
T = TypeVar("T")

PAGE_SIZE: Final = 100  # GitHub's maximum, for the fewest calls
INSTALLATION: Final = "ghs_"  # prefix of tokens of Apps; docs "GitHub's token formats"
# Downloads at once; GitHub allows 100 requests, and its storage is not the bottleneck.
MAX_CONCURRENT: Final = 4


class GitHub:
    """A synchronous client; use it as a context manager, from one thread, outside any event loop.

    The token is sent only to the host of `api_url`, and is in no error and no repr.

    Args:
        api_url: `GITHUB_API_URL`; GitHub Enterprise Server has `https://HOST/api/v3`.
        sleep: waits for a rate limit; a caller may report the wait, a test need not wait.
        timeout_s: limit for connecting, and between two pieces of an answer.
        cache: answers with ETags, for conditional requests; None for no cache.
        calls: limit of requests; None for no limit.

    Raises:
        UsageError: the address or the token is malformed.
        GitHubError: (every call) GitHub refused, did not answer, or is not GitHub; exit code 4.
    """

    def __init__(
        self,
        api_url: str,
        token: pydantic.SecretStr,
        *,
        retry_policy: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen, so sharing it is harmless
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        timeout_s: float = 30.0,
        cache: ResponseCache | None = None,
        calls: CallBudget | None = None,
    ) -> None:
        self._api_url = api_url.rstrip("/")
        self._token = _validate_token(token)
        auth = TokenForHost(token, _parse_api_url(self._api_url))
        self._client = httpx.AsyncClient(auth=auth, timeout=timeout_s, verify=_ssl_context())
        self._connection = Connection(
            self._client,
            api_url=self._api_url,
            retry_policy=retry_policy,
            sleep=sleep,
            cache=cache,
            calls=calls,
        )
        self._runner = asyncio.Runner()
        # Callers may ignore such an error: then their verdict is not final.
        self.transient_errors: list[GitHubError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._runner.run(self._client.aclose())
        self._runner.close()

    @property
    def is_app_token(self) -> bool:
        """Return whether the token is of an App, as GITHUB_TOKEN: it cannot read its own user."""
        return self._token.startswith(INSTALLATION)

    @property
    def remaining_calls(self) -> int | None:
        """Return how many calls the rate limit allows after the last answer; None if unknown."""
        return None if (limit := self._connection.rate_limit) is None else limit.remaining

    def item(self, model: type[Answer], path: str) -> Answer:
        return self._object(model, f"GET {path}", self._connection.getitem(path))

    def items(
        self, model: type[Answer], path: str, *, key: str = "items", limit: int | None = None
    ) -> tuple[Answer, ...]:
        """GET a whole list in GitHub's order, following `Link`: one call per 100.

        Args:
            path: with its query, if it has one.
            key: key of the list, if GitHub wraps it in an object.
            limit: number of items; None for all.

        Raises:
            GitHubError: also if the list is shorter than its total count: the missing items could
                matter.
        """
        description = f"GET {path}"
        separator = "&" if "?" in path else "?"
        contents = self._run_request(
            description, self._all(f"{path}{separator}per_page={PAGE_SIZE}", key, limit)
        )
        return tuple(self._validate(model, content, description) for content in contents)

    def tail_text(self, path: str, *, tail_bytes: int, max_bytes: int) -> str:
        """Return the end of a text in GitHub's storage, as of a job's log: at most two requests.

        Raises:
            GitHubError: also if the storage lacks the text (404 and XML), has deleted it (410), or
                the text is longer than `max_bytes`.
        """
        description = f"GET {path}"
        address = self._run_request(description, self._connection.location(path))
        reading = self._connection.tail_bytes_of(
            address, tail_bytes=tail_bytes, max_bytes=max_bytes
        )
        # The address grants access for a minute: errors name the call that returned it.
        return self._run_request(description, reading).decode("utf-8", "replace")

    def download_all(
        self,
        paths: Sequence[tuple[str, str]],
        on_archive: Callable[[int, IO[bytes]], None],
        *,
        max_bytes: int,
        budget: Budget,
    ) -> dict[int, GitHubError]:
        """Download files from GitHub's storage to temporary files, MAX_CONCURRENT at once.

        After an error that affects all, no further download begins.

        Args:
            paths: path and digest ("" if unknown) of each file.
            on_archive: receives the position and the stream of each complete file, which is deleted
                afterwards.
            max_bytes: limit of each file.

        Returns:
            Errors of files that were not downloaded, by position.
        """
        errors: dict[int, GitHubError] = {}
        remaining = iter(enumerate(paths))
        lasting: list[GitHubError] = []

        async def work() -> None:
            for position, (path, digest) in remaining:
                if lasting:
                    errors[position] = lasting[0]
                    continue
                with tempfile.TemporaryFile() as stream:
                    download = Download(stream, budget, digest, max_bytes)
                    try:
                        await self._translate_errors(
                            f"GET {path}", self._connection.fetch(path, download)
                        )
                    except GitHubError as error:
                        errors[position] = error
                        lasting.extend([error] if error.is_lasting else [])
                        continue
                    stream.seek(0)
                    on_archive(position, stream)

        async def work_concurrently() -> None:
            workers = [asyncio.create_task(work()) for _ in range(min(MAX_CONCURRENT, len(paths)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()

        self._runner.run(work_concurrently())
        return errors

    def post(self, model: type[Answer], path: str, data: Mapping[str, Any]) -> Answer:
        """POST; raise MaybeDone if GitHub may have carried it out without an answer."""
        return self._object(model, f"POST {path}", self._connection.post(path, data=data))

    def patch(self, model: type[Answer], path: str, data: Mapping[str, Any]) -> Answer:
        return self._object(model, f"PATCH {path}", self._connection.patch(path, data=data))

    def delete(self, path: str) -> None:
        self._run_request(f"DELETE {path}", self._connection.delete(path))

    async def _all(self, path: str, key: str, limit: int | None) -> list[Any]:
        items: list[Any] = []
        async for item in self._connection.getiter(path, iterable_key=key):
            items.append(item)
            if limit is not None and len(items) == limit:
                return items
        total = self._connection.total_count
        if total is not None and total > len(items):
            what = f"a list of {total:,} of which {len(items):,} came"
            raise GitHubError(what, where=f"GET {path}", fix="run this again")
        return items

    def _object(
        self, model: type[Answer], description: str, request: Coroutine[Any, Any, Any]
    ) -> Answer:
        return self._validate(model, self._run_request(description, request), description)

    def _run_request(self, description: str, request: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(self._translate_errors(description, request))

    async def _translate_errors(self, description: str, request: Coroutine[Any, Any, T]) -> T:
        """Do one request; each failure of the network or of GitHub becomes a GitHubError."""
        try:
            return await self._send(description, request)
        except GitHubError as error:
            if error.is_transient:
                self.transient_errors.append(error)
            raise

    async def _send(self, description: str, request: Coroutine[Any, Any, T]) -> T:
        try:
            return await request
        except gidgethub.HTTPException as error:
            status, words = int(error.status_code), self._redact_token(str(error))
            wait_s = self._connection.rate_limit_wait_s
            raise error_of_response(
                description, status, words, error.headers, wait_s=wait_s
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._connection_error(description, error) from error
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            # gidgethub raises these for an answer that is not GitHub's: broken JSON, an unknown
            # charset or status, a 422 or a list of another shape.
            words = self._redact_token(f"{type(error).__name__}: {error}")
            raise unexpected_response(description, words, api_url=self._api_url) from error

    def _connection_error(
        self, description: str, error: httpx.HTTPError | httpx.InvalidURL
    ) -> GitHubError:
        if isinstance(error, httpx.HTTPStatusError):
            words = self._redact_token(_message(error.response))
            return error_of_response(
                description, error.response.status_code, words, error.response.headers
            )
        perhaps_done = description.startswith("POST ") and not isinstance(error, NOT_SENT)
        words = self._redact_token(f"{type(error).__name__}: {error}".removesuffix(": "))
        return unreachable(description, words, api_url=self._api_url, perhaps_done=perhaps_done)

    def _validate(self, model: type[Answer], content: object, description: str) -> Answer:
        try:
            return model.model_validate(content)
        except pydantic.ValidationError as error:
            mistakes = "; ".join(
                f"{'.'.join(str(part) for part in mistake['loc'])}: {mistake['msg']}"
                for mistake in error.errors()
            )
            raise unexpected_response(description, mistakes, api_url=self._api_url) from error

    def _redact_token(self, text: str) -> str:
        """Remove the token from a foreign text: a server may echo the request."""
        return text.replace(self._token, "***")


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    """Return one context for all clients: certificates take 20 of the 23 ms of a client."""
    return httpx.create_ssl_context()


def _message(response: httpx.Response) -> str:
    """Return GitHub's message, or the name of the status: a gateway answers with its own page."""
    try:
        return str(response.json()["message"])
    except (ValueError, LookupError, TypeError):
        return response.reason_phrase


def _validate_token(token: pydantic.SecretStr) -> str:
    """Return the token; refuse characters of no header: the HTTP library would print the token."""
    text = token.get_secret_value()
    fix = "set GITHUB_TOKEN: ${{ github.token }} in the step's env"
    if not text:
        raise UsageError("there is no token for GitHub", where="GITHUB_TOKEN", fix=fix)
    if not (text.isascii() and text.isprintable() and " " not in text):
        what = "the token has a blank, a line end or another invalid character"
        raise UsageError(what, where="GITHUB_TOKEN", fix=fix)
    return text


def _parse_api_url(api_url: str) -> httpx.URL:
    if not is_address(api_url):
        raise UsageError(f'expected an http(s) address, found "{api_url}"', where="GITHUB_API_URL")
    try:
        return httpx.URL(api_url)
    except httpx.InvalidURL as error:
        what = f'not an address: "{api_url}" ({error})'
        raise UsageError(what, where="GITHUB_API_URL") from error
