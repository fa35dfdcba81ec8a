"""Which repository on which GitHub is meant, and where its API is; pure.

Source: docs.github.com, "Getting started with the REST API" (an Enterprise Server has it under
`/api/v3` of its host, data residency under `api.` before a host of ghe.com).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ciguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

API_URL: Final = "https://api.github.com"
SERVER_URL: Final = "https://github.com"
# It becomes part of a path, where `..` would lead elsewhere; `_` is in managed users' names.
REPOSITORY: Final = re.compile(r"[A-Za-z0-9_-]+/(?!\.\.?$)[A-Za-z0-9._-]+")
RESIDENT: Final = ".ghe.com"
_SCP: Final = re.compile(r"(?:[\w.-]+@)?([\w.-]+):(?!//)(.+)")  # git@host:owner/name.git
_SSH_OF_GITHUB: Final = "ssh.github.com"  # where port 22 is closed


@dataclass(frozen=True, slots=True)
class RepositoryRef:
    """A repository (`owner/name`); both addresses are without a closing slash."""

    repository: str
    server_url: str
    api_url: str

    @property
    def is_enterprise_server(self) -> bool:
        """Say that it is one of a company's own machines: no github.com, no data residency."""
        return is_enterprise_server(self.server_url)


def is_address(text: str) -> bool:
    """Say that it is one of a server."""
    try:
        parts = urlsplit(text)
    except ValueError:  # half of an IPv6 address
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def is_enterprise_server(server_url: str) -> bool:
    """As `RepositoryRef.is_enterprise_server`."""
    host = urlsplit(server_url).hostname or ""
    return host != "github.com" and not host.endswith(RESIDENT)


def api_of(server_url: str) -> str:
    """Where the API of a server is."""
    parts = urlsplit(server_url)
    if parts.hostname == "github.com":
        return API_URL
    if (parts.hostname or "").endswith(RESIDENT):
        return f"{parts.scheme}://api.{parts.netloc}"
    return f"{server_url.rstrip('/')}/api/v3"


def parse_remote(url: str) -> tuple[str, str] | None:
    """Server and repository that a git remote names; None where it is no server's."""
    host, path, scheme = "", "", "https"
    if "://" in url:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port and parts.scheme in {"http", "https"} else ""
        except ValueError:
            return None
        if parts.scheme not in {"http", "https", "ssh", "git"} or not parts.hostname:
            return None
        host, path = f"{parts.hostname}{port}", parts.path
        scheme = "http" if parts.scheme == "http" else "https"
    elif found := _SCP.fullmatch(url):
        host, path = found[1], found[2]
    name = path.strip("/").removesuffix(".git")
    if not host or not REPOSITORY.fullmatch(name):
        return None
    return f"{scheme}://{'github.com' if host == _SSH_OF_GITHUB else host}", name


def resolve_repository(
    environ: Mapping[str, str], *, repository: str = "", server: str = "", remote: str = ""
) -> RepositoryRef:
    """What is meant: what was said, else the environment, else the remote of the checkout.

    The token of the environment is for the environment's server: another one that an address names
    is refused, lest it gets the token.

    Args:
        repository: `owner/name` as somebody said it; "" for nobody.
        server: as in an address that was given; "" for none.
        remote: address of the git remote; "" for none.

    Raises:
        UsageError: nothing names a repository, or the server is not that of the token.
    """
    from_remote = parse_remote(remote)
    ours = environ.get("GITHUB_SERVER_URL", "").rstrip("/")
    api_url = environ.get("GITHUB_API_URL", "").rstrip("/")
    if (
        not ours
        and not api_url
        and from_remote is not None
        and not environ.get("GITHUB_REPOSITORY")
    ):
        ours = from_remote[0]
    ours = ours or SERVER_URL
    if not is_address(ours):
        what = f'expected an http(s) address, found "{ours:.200}"'
        raise UsageError(what, where="GITHUB_SERVER_URL", fix="set it, or leave it out")
    if server and _host(server) != _host(ours):
        what = f"the token is for {ours}, and not sent to another server"
        fix = (
            f"set GITHUB_SERVER_URL={server}, GITHUB_API_URL={api_of(server)} and its GITHUB_TOKEN"
        )
        raise UsageError(what, where=server, fix=fix)
    name = repository or environ.get("GITHUB_REPOSITORY", "")
    if not name and from_remote is not None and _host(from_remote[0]) == _host(ours):
        name = from_remote[1]
    if not REPOSITORY.fullmatch(name):
        what = "the repository is not known"
        what = f'expected OWNER/NAME, found "{name:.80}"' if name else what
        fix = "pass --repo OWNER/NAME, or call it in a checkout whose remote origin is on GitHub"
        raise UsageError(what, where="--repo", fix=fix)
    return RepositoryRef(name, ours, api_url or api_of(ours))


def _host(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
