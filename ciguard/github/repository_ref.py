"""The repository, the server and the API address that options and environment name. Pure.

Source: docs.github.com, "Getting started with the REST API" (an Enterprise Server has it under
`/api/v3` of its host, data residency under `api.` before a host of ghe.com).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ciguard.errors import UsageError

API_URL: Final = "https://api.github.com"
SERVER_URL: Final = "https://github.com"
# A name becomes part of a path, so `..` is refused; `_` is in names of managed users.
REPOSITORY: Final = re.compile(r"[A-Za-z0-9_-]+/(?!\.\.?$)[A-Za-z0-9._-]+")
RESIDENT: Final = ".ghe.com"
_SCP: Final = re.compile(r"(?:[\w.-]+@)?([\w.-]+):(?!//)(.+)")  # git@host:owner/name.git
_SSH_OF_GITHUB: Final = "ssh.github.com"  # where port 22 is closed


@dataclass(frozen=True, slots=True)
class RepositoryRef:
    """A repository (`owner/name`) on a server; its addresses have no closing slash."""

    repository: str
    server_url: str
    api_url: str


def token_of(environ: Mapping[str, str]) -> str:
    """Return the token for GitHub; "" if the environment has none."""
    return environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or ""


def required_token(environ: Mapping[str, str], where: str) -> str:
    """Return the token for GitHub.

    Raises:
        UsageError: the environment has none.
    """
    token = token_of(environ)
    if not token:
        fix = "set GITHUB_TOKEN or GH_TOKEN to one that may read the repository's actions"
        raise UsageError("there is no token for GitHub", where=where, fix=fix)
    return token


def is_address(text: str) -> bool:
    """Return whether a text is an http(s) address of a server."""
    try:
        parts = urlsplit(text)
    except ValueError:  # half of an IPv6 address
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def is_enterprise_server(server_url: str) -> bool:
    """Return whether a company runs the server: neither github.com nor data residency."""
    host = urlsplit(server_url).hostname or ""
    return host != "github.com" and not host.endswith(RESIDENT)


def api_of(server_url: str) -> str:
    """Return the address of the API of a server."""
    parts = urlsplit(server_url)
    if parts.hostname == "github.com":
        return API_URL
    if (parts.hostname or "").endswith(RESIDENT):
        return f"{parts.scheme}://api.{parts.netloc}"
    return f"{server_url.rstrip('/')}/api/v3"


def parse_remote(url: str) -> tuple[str, str] | None:
    """Parse the address of a git remote: return server and repository; None without a server."""
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
    elif match := _SCP.fullmatch(url):
        host, path = match[1], match[2]
    name = path.strip("/").removesuffix(".git")
    if not host or not REPOSITORY.fullmatch(name):
        return None
    return f"{scheme}://{'github.com' if host == _SSH_OF_GITHUB else host}", name


def resolve_repository(
    environ: Mapping[str, str], *, repository: str = "", server: str = "", remote: str = ""
) -> RepositoryRef:
    """Return the repository: by option or address, by environment, or by the git remote.

    The token of the environment is for the server of the environment, otherwise for GitHub's own:
    an address or a git remote on another server is refused, so that it does not receive the token.

    Args:
        repository: `owner/name` of an option or address; "" for none.
        server: server of an address; "" for none.
        remote: address of the git remote; "" for none.

    Raises:
        UsageError: no repository is named, or `server` is not that of the token.
    """
    from_remote = parse_remote(remote)
    server_url = environ.get("GITHUB_SERVER_URL", "").rstrip("/")
    api_url = environ.get("GITHUB_API_URL", "").rstrip("/")
    has_variable = bool(server_url or api_url or environ.get("GITHUB_REPOSITORY"))
    if not has_variable and from_remote is not None:
        server_url = from_remote[0]
        is_open = not server_url.startswith("https://")
        if token_of(environ) and (is_open or is_enterprise_server(server_url)):
            server, server_url = server_url, SERVER_URL
    server_url = server_url or SERVER_URL
    if not is_address(server_url):
        what = f'expected an http(s) address, found "{server_url:.200}"'
        raise UsageError(what, where="GITHUB_SERVER_URL", fix="set it, or leave it out")
    if server and _host(server) != _host(server_url):
        what = f"the token is for {server_url}, and not sent to another server"
        fix = (
            f"set GITHUB_SERVER_URL={server}, GITHUB_API_URL={api_of(server)} and its GITHUB_TOKEN"
        )
        raise UsageError(what, where=server, fix=fix)
    name = repository or environ.get("GITHUB_REPOSITORY", "")
    if not name and from_remote is not None and _host(from_remote[0]) == _host(server_url):
        name = from_remote[1]
    if not REPOSITORY.fullmatch(name):
        what = "the repository is not known"
        what = f'expected OWNER/NAME, found "{name:.80}"' if name else what
        fix = "pass --repo OWNER/NAME, or call it in a checkout whose remote origin is on GitHub"
        raise UsageError(what, where="--repo", fix=fix)
    return RepositoryRef(name, server_url, api_url or api_of(server_url))


def _host(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
