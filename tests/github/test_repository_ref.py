"""Which repository on which GitHub, and that no token goes to another server."""

from __future__ import annotations

import pytest

from ciguard.errors import UsageError
from ciguard.github.repository_ref import RepositoryRef, api_of, parse_remote, resolve_repository

GITHUB = "https://github.com"
OWN = "https://git.example"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/o/r", (GITHUB, "o/r")),
        ("https://github.com/o/r.git/", (GITHUB, "o/r")),
        ("https://user:secret@github.com/o/r.git", (GITHUB, "o/r")),
        ("git@github.com:o/r.git", (GITHUB, "o/r")),
        ("ssh://git@github.com/o/r.git", (GITHUB, "o/r")),
        ("ssh://git@ssh.github.com:443/o/r.git", (GITHUB, "o/r")),
        ("https://git.example:8443/o/r", ("https://git.example:8443", "o/r")),
        ("http://git.example/o/r", ("http://git.example", "o/r")),
        ("git@git.example:o/r", (OWN, "o/r")),
        ("/srv/git/r.git", None),
        ("file:///srv/git/r.git", None),
        ("C:\\git\\r", None),
        ("https://github.com/o/r/more", None),
        ("https://github.com/o/..", None),
        ("https://[::1/o/r", None),
        ("https://git.example:x/o/r", None),
        ("", None),
    ],
)
def test_remote_url_gives_server_and_repository(url: str, expected: tuple[str, str] | None) -> None:
    assert parse_remote(url) == expected


@pytest.mark.parametrize(
    ("server", "api"),
    [
        (GITHUB, "https://api.github.com"),
        ("https://shop.ghe.com", "https://api.shop.ghe.com"),
        (OWN, "https://git.example/api/v3"),
        ("http://git.example:8080/", "http://git.example:8080/api/v3"),
    ],
)
def test_api_url_of_a_server(server: str, api: str) -> None:
    assert api_of(server) == api


def test_option_overrides_environment_and_environment_the_remote() -> None:
    environ = {"GITHUB_REPOSITORY": "env/r"}
    remote = "git@github.com:remote/r.git"
    assert resolve_repository(environ, repository="said/r", remote=remote).repository == "said/r"
    assert resolve_repository(environ, remote=remote).repository == "env/r"
    of_remote = resolve_repository({}, remote=remote)
    assert of_remote == RepositoryRef("remote/r", GITHUB, "https://api.github.com")


def test_enterprise_server_is_read_from_the_remote() -> None:
    place = resolve_repository({}, remote="git@git.example:o/r.git")
    assert place == RepositoryRef("o/r", OWN, "https://git.example/api/v3")
    reported = {"GITHUB_SERVER_URL": OWN, "GITHUB_API_URL": "https://api.git.example"}
    assert resolve_repository(reported, repository="o/r").api_url == "https://api.git.example"


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "GH_TOKEN"])
def test_token_is_not_sent_to_the_server_of_a_remote(name: str) -> None:
    remote = "https://git.example/o/r.git"
    with pytest.raises(UsageError, match="not sent to another server"):
        resolve_repository({name: "secret"}, remote=remote)
    resident = resolve_repository({name: "secret"}, remote="https://shop.ghe.com/o/r")
    assert resident.api_url == "https://api.shop.ghe.com"
    named = {name: "secret", "GITHUB_SERVER_URL": OWN}
    assert resolve_repository(named, remote=remote).server_url == OWN


def test_remote_on_another_server_is_ignored() -> None:
    environ = {"GITHUB_SERVER_URL": GITHUB}
    with pytest.raises(UsageError, match="the repository is not known"):
        resolve_repository(environ, remote="git@git.example:o/r.git")


@pytest.mark.parametrize(
    "server",
    [OWN, "http://github.com", "https://github.com.evil.example", "https://github.com:444"],
)
def test_token_is_not_sent_to_another_server(server: str) -> None:
    with pytest.raises(UsageError, match="not sent to another server") as refused:
        resolve_repository({"GITHUB_TOKEN": "secret"}, repository="o/r", server=server)
    assert f"GITHUB_API_URL={api_of(server)}" in refused.value.fix
    reported = resolve_repository({"GITHUB_SERVER_URL": server}, repository="o/r", server=server)
    assert reported.server_url == server


@pytest.mark.parametrize("server", ["https://[::1", "git.example", "https://"])
def test_invalid_server_url_is_a_usage_error(server: str) -> None:
    with pytest.raises(UsageError, match="expected an http") as refused:
        resolve_repository({"GITHUB_SERVER_URL": server}, repository="o/r")
    assert refused.value.where == "GITHUB_SERVER_URL"


@pytest.mark.parametrize("name", ["o", "o/..", "o/r/x", "../r", "o/r?x=1", "o r/x"])
def test_invalid_repository_name_is_rejected(name: str) -> None:
    with pytest.raises(UsageError, match="OWNER/NAME"):
        resolve_repository({}, repository=name)
