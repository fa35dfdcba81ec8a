"""Runs git commands: each with a time limit, without prompts, and with a token for GitHub only."""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ciguard.errors import InputError, RemoteError

TRANSFER_S: Final = 300.0  # 100 MB, GitHub's limit of a file, at 3 Mbit/s
STALL_TIMEOUT_S: Final = 30  # without a byte; git itself has no such limit


def with_token(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the environment for git calls to `url`; it has the token if `url` is of GitHub.

    The token is passed in the environment (GIT_CONFIG_*), never on the command line, which other
    processes can read. Only the server in GITHUB_SERVER_URL receives it.
    """
    environment = dict(environ)
    server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
    token = environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN")
    try:
        remote, github = urlsplit(url), urlsplit(server)
        is_github = (remote.scheme, remote.hostname, remote.port) == (
            github.scheme, github.hostname, github.port,
        )  # fmt: skip
    except ValueError:  # not an address: git reports it
        return environment
    if not token or not is_github or github.scheme not in {"https", "http"}:
        return environment
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    key = f"http.{github.scheme}://{github.netloc}/.extraheader"
    text = environ.get("GIT_CONFIG_COUNT", "")
    count = int(text) if text.isdigit() else 0
    # The empty value resets the header that actions/checkout configured: GitHub refuses two.
    for value in ("", f"AUTHORIZATION: basic {secret}"):
        environment[f"GIT_CONFIG_KEY_{count}"] = key
        environment[f"GIT_CONFIG_VALUE_{count}"] = value
        count += 1
    environment["GIT_CONFIG_COUNT"] = str(count)
    return environment


def without_secrets(text: str) -> str:
    """Remove user names and passwords from the addresses in git's output."""
    return re.sub(r"//[^/@\s]+@", "//", text).strip()


def program(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the path of git or gh: none in the checkout, which a pull request may have written.

    Raises:
        FileNotFoundError: no other folder of PATH has it.
    """
    here = Path.cwd()
    root = next((each for each in (here, *here.parents) if (each / ".git").exists()), here)
    for folder in os.get_exec_path(environ):
        found = shutil.which(name, path=folder)
        if found and not Path(folder).resolve().is_relative_to(root):
            return found
    raise FileNotFoundError(name)


def git(
    folder: Path,
    *arguments: str,
    environ: Mapping[str, str],
    stdin: bytes = b"",
    limit_s: float = TRANSFER_S,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder and return its output; git fails instead of asking for a password.

    Raises:
        InputError: git is not installed.
        RemoteError: git exceeded `limit_s`; git and its child processes were killed.
    """
    environment = {
        "GIT_HTTP_LOW_SPEED_LIMIT": "1",  # bytes a second
        "GIT_HTTP_LOW_SPEED_TIME": str(STALL_TIMEOUT_S),
        **environ,
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    try:
        process = subprocess.Popen(
            [program("git", environment), *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # git's network helpers can outlive git and hold the pipes: kill the whole group.
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise InputError(
            "git is not installed", fix="install git, outside of the checkout"
        ) from error
    except OSError as error:
        raise InputError(f"git cannot be run: {error}") from error
    with process:
        try:
            output_bytes, errors = process.communicate(stdin, limit_s)
        except subprocess.TimeoutExpired as error:
            _end(process)
            verb = next(word for word in arguments if not word.startswith("-"))
            raise RemoteError(f"git {verb} took more than {limit_s:g} s") from error
        except BaseException:  # Ctrl-C does not reach git, which has its own process group
            _end(process)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output_bytes, errors)


def answer_of(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes] | None:
    """Return the answer of git in a folder of this machine; None if git is not installed."""
    try:
        return subprocess.run(
            [program("git"), "-C", str(folder), *words], capture_output=True, check=False
        )
    except FileNotFoundError:
        return None


def output_of(folder: Path, *words: str) -> str | None:
    """Return the output of git as `answer_of`; None if git fails, too."""
    answer = answer_of(folder, *words)
    if answer is None or answer.returncode != 0:
        return None
    return answer.stdout.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
