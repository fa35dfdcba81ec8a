"""Printing of all commands except the leg: answers to stdout, messages to stderr."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from ciguard.errors import InputError

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def out(text: str) -> None:
    """Print an answer: pipe-safe, the same bytes for the same input."""
    _write(sys.stdout, _harmless(text))


def err(text: str) -> None:
    """Print a message: progress, a warning or an error."""
    _write(sys.stderr, _harmless(text))


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal, one line elsewhere; yield a function that advances it."""
    if not sys.stderr.isatty():
        err(f"reading {title}: {total:,}")
        yield lambda: None
        return
    # Imported here: only a command with a bar needs rich.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(f"reading {title}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(
        *columns, TimeRemainingColumn(), console=Console(file=sys.stderr), transient=True
    )
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


def workflow_command(command: str) -> None:
    """Print a workflow command of ciguard, which the runner reads from either stream."""
    _write(sys.stderr, command)


def _harmless(text: str) -> str:
    # The name of a test, a file or an artifact may contain control characters of a terminal.
    text = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    # The runner executes any line that begins with "::", which may be a name as well.
    text = re.sub(r"(?m)^([^\S\n]*):(?=:)", r"\1\\:", text)
    # It also executes "##[" anywhere in a line (ActionCommand.TryParse in
    # github.com/actions/runner). In JSON the replacement is the same text.
    return text.replace("##[", "##\\u005b")


def _write(stream: TextIO, text: str) -> None:
    # A test id may contain characters that the terminal's encoding, or UTF-8 itself, excludes.
    encoding = stream.encoding or "utf-8"
    safe = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(safe if safe.endswith("\n") else f"{safe}\n")
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=stream.name) from error
