"""Listing of a suite's units, by running the framework's own listing in the suite's folder."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import Mapping

from ciguard.errors import InputError
from ciguard.model import Suite
from ciguard.run.frameworks.base import Framework, Invocation, Listing, environment
from ciguard.run.frameworks.id_limit import is_too_long, too_long
from ciguard.text import both_ends


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
    """List the units of one variant of a suite.

    Args:
        folder: the repository; the suite's folder is below it.
        private: private folder for the answer of the framework.
        inside: folder of the extracted plugins.
        environ: environment that the program inherits.

    Returns:
        The units; with errors the units are incomplete.

    Raises:
        InputError: the program or the folder does not exist.
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
    long_ids = (unit.unit for unit in listing.units if is_too_long(unit.unit))
    listing = replace(listing, errors=(*listing.errors, *map(too_long, long_ids)))
    return _with_stderr(listing, done.stderr, framework)


def list_invocation(
    framework: Framework, suite: Suite, variant: str, answer: str = "", inside: str = ""
) -> Invocation:
    """Return the program that lists one variant of a suite.

    Raises:
        InputError: the suite has no such program.
    """
    invocation = framework.listing(suite, variant, answer, inside)
    if not invocation.argv:
        fix = 'set list = ["program", "argument", ...], or pass --inventory'
        raise InputError(f"framework {framework.name} needs a command that lists", fix=fix)
    return invocation


def _content(path: str) -> bytes:
    """Read and remove the answer: that of the next variant has the same path."""
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as stream:
        content = stream.read()
    os.unlink(path)
    return content


def _with_stderr(listing: Listing, stderr: bytes, framework: Framework) -> Listing:
    """Add the ends of stderr, and advice for both, to the errors of a listing, if there are any."""
    text = stderr.decode("utf-8", "replace")
    advice = framework.advice("\n".join((*listing.errors, text)))
    words = ["it said on stderr:", both_ends(text)] if text.strip() else []
    words += [f"fix: {advice}"] if advice else []
    if not listing.errors or not words:
        return listing
    return replace(listing, errors=(*listing.errors, "\n".join(words)))
