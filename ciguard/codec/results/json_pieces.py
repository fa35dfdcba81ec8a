"""JSON with one long list, of which each item is decoded when it is read: bytes -> values. Pure.

The values of a file take 3 to 6 times its size in memory, those of one item nothing to speak of.
msgspec finds where an item ends without making it; what it refuses (NaN, half characters, UTF-16)
is for the standard library to read, or to say what is wrong with it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msgspec import Raw

PIECES_FROM_BYTES: Final = 1 << 20  # below, to import msgspec takes longer than it saves


class _Pieces(list["Raw"]):
    """A list that decodes its items one by one; they share the bytes of the file."""

    def __init__(self, items: list[Raw], content: bytes, source: str) -> None:
        super().__init__(items)
        self._content, self._source = content, source

    def __iter__(self) -> Iterator[Any]:
        import msgspec  # noqa: PLC0415

        for item in super().__iter__():
            try:
                value = msgspec.json.decode(item)
            except (msgspec.DecodeError, ValueError, RecursionError):
                value = self._decode_slowly(item)
            yield value

    def _decode_slowly(self, item: Raw) -> Any:
        try:
            return json.loads(bytes(item))
        except (ValueError, RecursionError):
            parse_json(self._content, self._source)  # raises with the place in the file
            raise


def parse_json(content: bytes, source: str, long_list: Sequence[str] = ()) -> Any:
    """The value of a file.

    Args:
        long_list: keys that lead to the list to read in pieces, from the outermost.

    Raises:
        InputError: damaged or truncated, with line and column; also while a list is read in pieces.
    """
    if long_list and len(content) >= PIECES_FROM_BYTES:
        found = _decode_in_pieces(content, long_list, content, source)
        if found is not None:
            return found
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        what, where = str(error), source
        if isinstance(error, json.JSONDecodeError):
            what, where = error.msg, f"{source}:{error.lineno}:{error.colno}"
        fix = "was its writer killed?"
        raise InputError(f"malformed JSON: {what}", where=where, fix=fix) from None


def _decode_in_pieces(
    value: bytes | Raw, keys: Sequence[str], content: bytes, source: str
) -> dict[str, Any] | None:
    """An object with the long list in pieces; None where msgspec cannot, or another type stands."""
    import msgspec  # noqa: PLC0415

    first, *inner = keys
    try:
        found: dict[str, Any] = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
        for key, raw in found.items():
            if key != first:
                found[key] = msgspec.json.decode(raw)
            elif inner:
                found[key] = _decode_in_pieces(raw, inner, content, source)
                if found[key] is None:
                    return None
            else:
                items = msgspec.json.decode(raw, type=list[msgspec.Raw])
                found[key] = _Pieces(items, content, source)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found
