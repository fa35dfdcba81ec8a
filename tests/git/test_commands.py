"""The door to git: tokens, ends, and who is asked."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from history.git_servers import environment

from ciguard.errors import InputError, RemoteError
from ciguard.git.commands import git, with_token, without_secrets


def test_git_configuration_in_the_environment_is_preserved() -> None:
    environ = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GH_TOKEN": "t"}
    reported = with_token(environ, "https://github.com/o/r")
    assert reported["GIT_CONFIG_COUNT"] == "3"
    assert reported["GIT_CONFIG_KEY_0"] == "a.b"
    assert reported["GIT_CONFIG_KEY_2"] == "http.https://github.com/.extraheader"
    rest = ("https://github.com.evil/o/r", "git@github.com:o/r", "/a/path")
    for url in (*rest, "https://[github.com/o/r", "https://github.com:99999999/o/r"):
        assert with_token(environ, url)["GIT_CONFIG_COUNT"] == "1"


def test_passwords_in_urls_are_removed() -> None:
    assert without_secrets("to https://u:p@h/x ") == "to https://h/x"


def test_git_timeout_kills_the_process_tree(tmp_path: Path) -> None:
    """Git leaves the network to another program, which would outlive it and hold its pipes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(RemoteError, match="git ls-remote took more than"):
            git(
                tmp_path,
                *("--no-replace-objects", "ls-remote", url),
                environ=environment(tmp_path),
                limit_s=0.5,
            )
        connection, _ = silent.accept()
        with connection:
            connection.settimeout(60)
            while connection.recv(4096):  # the request; then the end, for its sender is gone
                pass


def test_missing_git_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="git is not installed") as caught:
        git(tmp_path, "version", environ={"PATH": str(tmp_path)})
    assert caught.value.fix
