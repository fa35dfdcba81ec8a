"""The environment that programs of a suite inherit: ours, as we were given it."""

from __future__ import annotations

import os
from typing import Final, Mapping

LOCALE: Final = "LC_CTYPE"
COERCED: Final = ("C.UTF-8", "C.utf8", "UTF-8")  # what an interpreter sets in the C locale


def original_environment(
    environ: Mapping[str, str], started_with: str = "/proc/self/environ"
) -> dict[str, str]:
    """The environment that this program was started with.

    An interpreter that finds itself in the C locale changes its own (PEP 538), and a tested program
    would find another locale than without us. Where there is no /proc nobody knows what was there.
    """
    found = dict(environ)
    if found.get(LOCALE) in COERCED:
        try:
            with open(started_with, "rb") as stream:
                words = stream.read().split(b"\0")
        except OSError:
            return found
        value = dict(word.partition(b"=")[::2] for word in words).get(os.fsencode(LOCALE))
        found.pop(LOCALE)
        if value is not None:
            found[LOCALE] = os.fsdecode(value)
    return found
