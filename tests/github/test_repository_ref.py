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
def test_what_a_remote_names(url: str, expected: tuple[str, str] | None) -> None:
    assert parse_remote(url) == expected


@pytest.mark.parametrize(
    ("server", "api", "own"),
    [
        (GITHUB, "https://api.github.com", False),
        ("https://shop.ghe.com", "https://api.shop.ghe.com", False),
        (OWN, "https://git.example/api/v3", True),
        ("http://git.example:8080/", "http://git.example:8080/api/v3", True),
    ],
)
def test_where_the_api_of_a_server_is(server: str, api: str, own: bool) -> None:
    assert api_of(server) == api
    assert RepositoryRef("o/r", server, api).is_enterprise_server is own


def test_what_is_said_goes_before_the_environment_and_that_before_the_remote() -> None:
    environ = {"GITHUB_REPOSITORY": "env/r"}
    remote = "git@github.com:remote/r.git"
    assert resolve_repository(environ, repository="said/r", remote=remote).repository == "said/r"
    assert resolve_repository(environ, remote=remote).repository == "env/r"
    assert resolve_repository({}, remote=remote) == RepositoryRef(
        "remote/r", GITHUB, "https://api.github.com"
    )


def test_a_checkout_of_an_enterprise_server_names_it() -> None:
    place = resolve_repository({}, remote="git@git.example:o/r.git")
    assert place == RepositoryRef("o/r", OWN, "https://git.example/api/v3")
    reported = {"GITHUB_SERVER_URL": OWN, "GITHUB_API_URL": "https://api.git.example"}
    assert resolve_repository(reported, repository="o/r").api_url == "https://api.git.example"


def test_a_remote_elsewhere_is_not_the_repository_of_our_server() -> None:
    environ = {"GITHUB_SERVER_URL": GITHUB}
    with pytest.raises(UsageError, match="the repository is not known"):
        resolve_repository(environ, remote="git@git.example:o/r.git")


@pytest.mark.parametrize(
    "server",
    [OWN, "http://github.com", "https://github.com.evil.example", "https://github.com:444"],
)
def test_the_token_is_not_for_another_server(server: str) -> None:
    with pytest.raises(UsageError, match="not sent to another server") as refused:
        resolve_repository({"GITHUB_TOKEN": "secret"}, repository="o/r", server=server)
    assert f"GITHUB_API_URL={api_of(server)}" in refused.value.fix
    reported = resolve_repository({"GITHUB_SERVER_URL": server}, repository="o/r", server=server)
    assert reported.server_url == server


@pytest.mark.parametrize("server", ["https://[::1", "git.example", "https://"])
def test_a_server_that_is_no_address_is_named(server: str) -> None:
    with pytest.raises(UsageError, match="expected an http") as refused:
        resolve_repository({"GITHUB_SERVER_URL": server}, repository="o/r")
    assert refused.value.where == "GITHUB_SERVER_URL"


@pytest.mark.parametrize("name", ["o", "o/..", "o/r/x", "../r", "o/r?x=1", "o r/x"])
def test_a_repository_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="OWNER/NAME"):
        resolve_repository({}, repository=name)
