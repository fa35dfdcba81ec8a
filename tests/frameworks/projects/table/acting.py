"""What the code at a place of a test file does: see `frameworks/situations.py`."""

import os
import signal
from pathlib import Path
from unittest import SkipTest


def act(place: str) -> None:
    """Note that the body of this name runs, and do what `ACT` says of it."""
    what, file = os.environ.get("ACT"), Path(os.environ["MARKS"], place)
    if place != "hook":
        if what == "skip":
            raise SkipTest("not here")
        with file.open("a") as stream:
            stream.write("ran\n")
    if os.environ.get("AT") != place:
        return
    if what == "exit":
        os._exit(0)
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "flood":
        os.write(1, b"x" * (3 << 20))
    elif what == "close":
        os.close(1)
        os.close(2)
    elif what == "wait":
        signal.pause()
    elif what == "flaky" and file.read_text() == "ran\n":
        raise ValueError("flaky")
