"""The one place that prints, the leg aside: answers go to stdout, talk to stderr."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING, Final, TextIO

from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def out(text: str) -> None:
    """The answer: pipe-safe, the same bytes for the same input."""
    _write(sys.stdout, _harmless(text))


def err(text: str) -> None:
    """Talk: what was read, what is odd, what went wrong."""
    _write(sys.stderr, _harmless(text))


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, one line elsewhere; gives what moves it on by one."""
    if not sys.stderr.isatty():
        err(f"reading {title}: {total:,}")
        yield lambda: None
        return
    # Imported here: a command without a bar need not pay for it.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(f"reading {title}"), BarColumn(), MofNCompleteColumn())
    shown = Progress(
        *columns, TimeRemainingColumn(), console=Console(file=sys.stderr), transient=True
    )
    with shown:
        task = shown.add_task(title, total=total)
        yield lambda: shown.advance(task)


def workflow_command(command: str) -> None:
    """A workflow command of our own, which the runner reads from either stream."""
    _write(sys.stderr, command)


def _harmless(text: str) -> str:
    # A test, a file or an artifact may be called so that a terminal would obey it.
    text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    # The runner obeys any line that begins with "::", and a test may be called so.
    text = re.sub(r"(?m)^([^\S\n]*):(?=:)", r"\1\\:", text)
    # Of the older spelling it obeys what stands anywhere in a line (ActionCommand.TryParse in
    # github.com/actions/runner). In JSON this is the same text.
    return text.replace("##[", "##\\u005b")


def _write(stream: TextIO, text: str) -> None:
    # A test id may hold what the terminal's encoding, or UTF-8 itself, cannot carry.
    encoding = stream.encoding or "utf-8"
    safe = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(safe if safe.endswith("\n") else f"{safe}\n")
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=stream.name) from error
