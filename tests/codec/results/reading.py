"""What a reader finds in the text of a result file, damaged or not."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import IO

from ciguard.codec.unpack_limits import gunzip
from ciguard.errors import InputError
from ciguard.model import Result


def read_until_error(
    read: Callable[[IO[bytes], str], Iterator[Result]], content: bytes
) -> tuple[list[Result], InputError | None]:
    """The results of the file `results` before its first error, and that error."""
    found: list[Result] = []
    try:
        found.extend(read(gunzip(io.BytesIO(content)), "results"))
    except InputError as error:
        return found, error
    return found, None
