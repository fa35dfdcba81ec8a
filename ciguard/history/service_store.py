"""A history that a ciguard service keeps: read by HTTPS, and written by the service alone.

A job waits two seconds for the service and then continues without it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Final

import httpx

from ciguard.errors import InputError, RemoteError
from ciguard.git.commands import without_secrets
from ciguard.history.daemon_thread import in_thread
from ciguard.history.file import DamagedHistory, NotAHistory, StoredBytes
from ciguard.history.service_credentials import TOKEN_VARIABLE, Credentials, credentials, origin_of
from ciguard.model.service_address import is_safe
from ciguard.text import one_line

ANSWER_S: Final = 2.0  # until the first byte: connecting, and the service's own work
DOWNLOAD_S: Final = 20.0  # of the whole file after that
UPLOAD_S: Final = 20.0  # of the records of a run
MAX_BYTES: Final = 1 << 29  # 100 times the history of 41,192 tests
ADDRESS_FIX: Final = "write https://HOST/api/v1/repos/OWNER/NAME/history"
_NO_CONTENT: Final = 204  # a repository that no run was added to yet


@dataclass(frozen=True, slots=True)
class ServiceStore:
    """The history at an address of a service."""

    address: str
    environ: Mapping[str, str] = field(repr=False)

    @property
    def location(self) -> str:
        """Return the address, without a password."""
        return without_secrets(self.address)

    def recovery_advice(self, error: DamagedHistory) -> str:
        """Return how the service repairs the history; other content means a wrong address."""
        if isinstance(error, NotAHistory):
            return ADDRESS_FIX
        return "run `ciguard serve check --repair` where the service runs"

    def read(self) -> StoredBytes:
        """Read the history file; the store is empty before the first run.

        Raises:
            InputError: a token must not be sent to this address.
            RemoteError: the service is unreachable, refuses, or takes too long.
        """
        if not is_safe(self.address) or "@" in self.address:
            what = "not the https address of a history"
            fix = f"{ADDRESS_FIX}; set {TOKEN_VARIABLE} to a token"
            raise InputError(what, where=self.location, fix=fix)
        shown = credentials(self.environ, origin_of(self.address))
        answered = Event()
        download = in_thread(lambda: self._download(shown, answered))
        download.add_done_callback(lambda _: answered.set())
        if not answered.wait(ANSWER_S):
            raise self._unreachable(f"no answer within {ANSWER_S:g} s")
        try:
            return StoredBytes(download.result(DOWNLOAD_S))
        except TimeoutError:
            raise self._unreachable(f"not all of it within {DOWNLOAD_S:g} s") from None

    def push_records(self, run: str, archive: bytes) -> None:
        """Send the artifacts of a run (`RUN_ID/RUN_ATTEMPT`), a zip of zips, after `read`.

        Raises:
            RemoteError: the service is unreachable, refuses, or has other records of the run.
        """
        address = f"{self.address.removesuffix('/history')}/runs/{run}/records"
        shown = credentials(self.environ, origin_of(address))
        upload = in_thread(
            lambda: httpx.put(address, content=archive, headers=shown.headers(), timeout=UPLOAD_S)
        )
        try:
            answer = upload.result(UPLOAD_S)
        except (TimeoutError, httpx.HTTPError) as error:
            words = one_line(shown.redact(str(error) or type(error).__name__))
            raise self._unreachable(words) from error
        if not answer.is_success:
            raise self._refusal(answer.status_code, shown, _detail(answer.content))

    def _download(self, shown: Credentials, answered: Event) -> bytes | None:
        headers = {"Accept-Encoding": "identity", **shown.headers()}
        try:
            with (
                httpx.Client(timeout=ANSWER_S) as client,
                client.stream("GET", self.address, headers=headers) as response,
            ):
                answered.set()
                content = _read_all(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            words = one_line(shown.redact(str(error) or type(error).__name__))
            raise self._unreachable(words) from error
        if content is None:
            raise self._unreachable(f"more than {MAX_BYTES >> 20} MiB")
        if response.is_success:
            return None if response.status_code == _NO_CONTENT else content
        raise self._refusal(response.status_code, shown, _detail(content))

    def _refusal(self, status: int, shown: Credentials, detail: str) -> RemoteError:
        """Return the error for an answer without a history, with its fix."""
        why = f" ({one_line(shown.redact(detail))})" if detail else ""
        if status == 401:  # noqa: PLR2004
            what = f"the service refuses the token{why}"
            fix = f"give the job `permissions: id-token: write`, or set {TOKEN_VARIABLE}"
        elif status == 404:  # noqa: PLR2004
            what = "the service has no such repository, or the job may not read it"
            fix = "check OWNER/NAME in the address"
            if not shown.token:
                fix += (
                    "; a private repository needs `permissions: id-token: write` or "
                    f"{TOKEN_VARIABLE}"
                )
        elif 300 <= status < 400:  # noqa: PLR2004
            what = f"the service redirects (HTTP {status}), which is not followed"
            fix = "write the address that it redirects to"
        else:
            what = f"the service cannot answer: HTTP {status}{why}"
            fix = "see the log of the service"
        if shown.problem:
            what = f"{what}; {shown.problem}"
        return RemoteError(what, where=self.location, fix=fix)

    def _unreachable(self, words: str) -> RemoteError:
        fix = "check that the service runs, and that this machine reaches it"
        return RemoteError(f"the service cannot be read: {words}", where=self.location, fix=fix)


def _read_all(response: httpx.Response) -> bytes | None:
    """Read the body; None if it is too long.

    Raises:
        TimeoutError: the caller no longer waits.
    """
    until = time.monotonic() + DOWNLOAD_S
    content = bytearray()
    for part in response.iter_raw():
        content += part
        if len(content) > MAX_BYTES:
            return None
        if time.monotonic() > until:
            raise TimeoutError
    return bytes(content)


def _detail(content: bytes) -> str:
    """Return the sentence of an RFC 9457 answer; "" of any other."""
    try:
        detail = json.loads(content)["detail"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return detail if isinstance(detail, str) else ""
