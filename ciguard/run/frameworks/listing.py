"""Asks a framework for its units: the listing is its own, as a program, in the suite's folder."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.errors import InputError
from ciguard.run.frameworks.base import Framework, Invocation, Listing, environment
from ciguard.run.frameworks.id_limit import is_too_long, too_long

if TYPE_CHECKING:
    from ciguard.model import Suite

LAST_LINES: Final = 10  # of what a failed listing said


def list_units(
    framework: Framework,
    suite: Suite,
    variant: str,
    *,
    folder: str,
    private: str,
    inside: str,
    environ: Mapping[str, str],
    pool_env: Mapping[str, str] = {},  # never changed
) -> Listing:
    """Let the framework list one variant of a suite.

    Args:
        folder: of the repository; the suite's own lies below it.
        private: a folder of our own for its answer.
        inside: where what enters a tested process is laid out.
        environ: what the program inherits.

    Returns:
        Its units, or what went wrong: with errors the units are not all there are.

    Raises:
        InputError: there is no such program or folder.
    """
    answer = os.path.join(private, "answer")
    invocation = list_invocation(framework, suite, variant, answer, inside)
    try:
        done = subprocess.run(
            invocation.argv,
            cwd=os.path.join(folder, suite.cwd),
            env=environment(environ, suite, variant, invocation, pool_env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        content = _content(answer)
    except OSError as error:
        what = f"cannot be started: {error.strerror or error}: {error.filename}"
        fix = "look at command and cwd, and whether the project is installed here"
        raise InputError(what, fix=fix) from error
    listing = framework.read_listing(suite, content, done.stdout, done.returncode)
    return _with_stderr(_recordable(listing), done.stderr, framework)


def list_invocation(
    framework: Framework, suite: Suite, variant: str, answer: str = "", inside: str = ""
) -> Invocation:
    """The program that lists one variant of a suite.

    Raises:
        InputError: the suite has none.
    """
    invocation = framework.listing(suite, variant, answer, inside)
    if not invocation.argv:
        fix = 'set list = ["program", "argument", ...], or pass --inventory'
        raise InputError(f"framework {framework.name} needs a command that lists", fix=fix)
    return invocation


def _content(path: str) -> bytes:
    """What it wrote, once: the next variant's answer has the same place."""
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as stream:
        content = stream.read()
    os.unlink(path)
    return content


def _recordable(listing: Listing) -> Listing:
    """The listing with an error for each id that no line of a record can hold."""
    long = (unit.unit for unit in listing.units if is_too_long(unit.unit))
    return replace(listing, errors=(*listing.errors, *map(too_long, long)))


def _with_stderr(listing: Listing, stderr: bytes, framework: Framework) -> Listing:
    """What went wrong, with what was said on stderr; a good listing as it is."""
    text = stderr.decode("utf-8", "replace")
    lines = text.strip().splitlines()[-LAST_LINES:]
    if not listing.errors or not lines:
        return listing
    advice = framework.advice(text)
    words = ["it said on stderr:", *lines, *([f"fix: {advice}"] if advice else [])]
    return replace(listing, errors=(*listing.errors, "\n".join(words)))
