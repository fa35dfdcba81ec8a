"""The door to git: no call lasts for ever or asks anybody, and a token is shown to GitHub only."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ciguard.errors import InputError, RemoteError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TRANSFER_S: Final = 300.0  # 100 MB, the most that GitHub takes of a file, at 3 Mbit/s
STALL_TIMEOUT_S: Final = 30  # without a byte; git itself would wait for ever


def with_token(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """The environment in which git may speak to `url`: with the token, if that is GitHub.

    A token goes by the environment (GIT_CONFIG_*), never by the command line, which other processes
    can read; and only to the server that the workflow says is GitHub.
    """
    environment = dict(environ)
    server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
    token = environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN")
    try:
        there, github = urlsplit(url), urlsplit(server)
        same = (there.scheme, there.hostname, there.port) == (
            github.scheme, github.hostname, github.port,
        )  # fmt: skip
    except ValueError:  # no address, and so not GitHub's: git says what is wrong with it
        return environment
    if not token or not same or github.scheme not in {"https", "http"}:
        return environment
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    key = f"http.{github.scheme}://{github.netloc}/.extraheader"
    known = environ.get("GIT_CONFIG_COUNT", "")
    count = int(known) if known.isdigit() else 0
    # The empty value first: a header that the checkout left would be sent as well, and GitHub
    # refuses two.
    for value in ("", f"AUTHORIZATION: basic {secret}"):
        environment[f"GIT_CONFIG_KEY_{count}"] = key
        environment[f"GIT_CONFIG_VALUE_{count}"] = value
        count += 1
    environment["GIT_CONFIG_COUNT"] = str(count)
    return environment


def without_secrets(text: str) -> str:
    """What git said, without names and passwords in addresses."""
    return re.sub(r"//[^/@\s]+@", "//", text).strip()


def ownership_problem(stderr: bytes) -> tuple[str, str]:
    """What git says of a repository that another user owns, as of a container job's checkout.

    Returns:
        (what, the command that git advises); ("", "") where stderr says something else.
    """
    said = stderr.decode("utf-8", "replace")
    command = next((line.strip() for line in said.splitlines() if "safe.directory" in line), "")
    what = said.partition("\n")[0].partition(": ")[2]
    return (f"git: {what}", command) if command else ("", "")


def git(
    folder: Path,
    *arguments: str,
    environ: Mapping[str, str],
    stdin: bytes = b"",
    limit_s: float = TRANSFER_S,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder and give what it said; it fails rather than ask for a password.

    Raises:
        InputError: there is no git.
        RemoteError: it did not end in time; nothing of it is left running.
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
            ["git", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # What git starts for the network outlives it and holds the pipes: all end as one group.
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise InputError("git is not installed", fix="install git") from error
    except OSError as error:
        raise InputError(f"git cannot be run: {error}") from error
    with process:
        try:
            output_bytes, errors = process.communicate(stdin, limit_s)
        except subprocess.TimeoutExpired as error:
            _end(process)
            verb = next(word for word in arguments if not word.startswith("-"))
            raise RemoteError(f"git {verb} took more than {limit_s:g} s") from error
        except BaseException:  # interrupted: git, in a group of its own, was not
            _end(process)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output_bytes, errors)


def _end(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
