"""Texts as both engines take them, whoever made them up: a name in a record, or in an address."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

_DIGITS: Final = 16


class StoredText(sa.TypeDecorator[str]):
    """A VARCHAR of so many characters, for values that are written and those that are asked for."""

    impl = sa.String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else storable(value, self.length)


def storable(text: str, length: int) -> str:
    """The text, or what stands for it: another one for each text that does not imitate one.

    PostgreSQL has no NUL and no longer text than its column, and neither engine a lone surrogate.

    Args:
        length: characters, > 16.
    """
    plain = text.encode("utf-8", "replace").decode().replace("\0", "?")
    if plain == text and len(text) <= length:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{plain[: length - _DIGITS - 1]}#{digest}"
