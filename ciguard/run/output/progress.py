"""How far a leg is, in one line for people. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ciguard.model import SLOTS
from ciguard.text import count_of, size

KIB: Final = 1024.0
MINUTE_S, HOUR_S = 60, 3600
MAX_NAMED: Final = 4  # units that run now


@dataclass(frozen=True, **SLOTS)
class Progress:
    """A leg at one moment; None is not known.

    Attributes:
        done: units with a result. total: of the shard.
        bad: units of which something went wrong.
        elapsed_s, predicted_s: of all of the leg's parts.
        at: units that run now.
    """

    done: int
    total: int
    bad: int
    elapsed_s: float
    predicted_s: float | None = None
    tree_bytes: int | None = None
    headroom_bytes: int | None = None
    running_units: tuple[str, ...] = ()


def describe_progress(progress: Progress) -> str:
    """ "12/40 units, 1 failed, tests 1.2 GiB, headroom 5.0 GiB, 4:10 of about 12:00"."""
    parts = [f"{progress.done}/{count_of(progress.total, 'unit')}"]
    if progress.bad:
        parts.append(f"{progress.bad} failed")
    if progress.tree_bytes is not None:
        parts.append(f"tests {size(progress.tree_bytes)}")
    if progress.headroom_bytes is not None:
        parts.append(f"headroom {size(progress.headroom_bytes)}")
    elapsed = clock(progress.elapsed_s)
    predicted_s = progress.predicted_s
    parts.append(elapsed if predicted_s is None else f"{elapsed} of about {clock(predicted_s)}")
    return ", ".join(parts)


def running_units(progress: Progress) -> str:
    """What runs now: if the runner is lost behind this line, it was one of these."""
    more = (
        f" and {len(progress.running_units) - MAX_NAMED} more"
        if len(progress.running_units) > MAX_NAMED
        else ""
    )
    return (
        f": {', '.join(progress.running_units[:MAX_NAMED])}{more}" if progress.running_units else ""
    )


def terminal_line(progress: Progress, columns: int) -> str:
    """The same in a terminal's width: a line that wraps cannot be rewritten. What runs comes first.

    Args:
        columns: of the terminal; its last one stays free.
    """
    room = max(0, columns - 1)
    bare = replace(progress, tree_bytes=None, headroom_bytes=None)
    text = _printable(describe_progress(bare))
    if progress.running_units:
        text += f": {_names(progress.running_units, room - len(text) - len(': '))}"
    memory = (("tests", progress.tree_bytes), ("headroom", progress.headroom_bytes))
    for name, number in memory:
        more = "" if number is None else f", {name} {size(number)}"
        text += more if len(text) + len(more) <= room else ""
    return text[:room]


def _names(at: tuple[str, ...], room: int) -> str:
    """What runs, without folders or without files where that is too long for the room."""
    names = [_printable(name) for name in at]
    for short in (str, _without_folder, _without_file):
        text = ", ".join(map(short, names))
        if len(text) <= room:
            return text
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    first, left = _without_file(names[0]), max(0, room - len(more))
    # Its end tells more: parameters, after a name that many share.
    return (first if len(first) <= left else f"...{first[len(first) - max(0, left - 3) :]}") + more


def _without_folder(unit: str) -> str:
    file, separator, rest = unit.partition("::")
    return file.rpartition("/")[2] + separator + rest


def _without_file(unit: str) -> str:
    return unit.partition("::")[2] or unit


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def clock(length_s: float) -> str:
    """ "0:07", "4:10", "1:04:10"."""
    minutes, seconds = divmod(round(length_s), MINUTE_S)
    hours, minutes = divmod(minutes, HOUR_S // MINUTE_S)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
