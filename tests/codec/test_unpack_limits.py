from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.results.base import MAX_MESSAGE_BYTES, peek, truncate_message
from ciguard.codec.unpack_limits import gunzip, read_limited
from ciguard.errors import InputError


def test_gzip_bomb_is_read_up_to_the_limit() -> None:
    bomb = io.BytesIO(gzip.compress(bytes(5_000_000)))
    with pytest.raises(InputError, match="larger than 1000 bytes") as caught:
        read_limited(gunzip(bomb), "bomb.gz", 1000)
    assert caught.value.where == "bomb.gz"


def test_damaged_gzip_is_an_input_error() -> None:
    cut = io.BytesIO(gzip.compress(b"x" * 100)[:-6])
    with pytest.raises(InputError, match="damaged gzip"):
        read_limited(gunzip(cut), "x", 1000)


def test_peek_does_not_consume_the_stream() -> None:
    stream = gunzip(io.BytesIO(gzip.compress(b"ab" * 5000)))
    assert peek(stream, "x") == b"ab" * 2048
    assert read_limited(stream, "x", 10_000) == b"ab" * 5000


@given(st.text(st.characters(), max_size=50).map(lambda text: text * 200))
def test_message_is_truncated_to_the_record_limit(message: str) -> None:
    text = truncate_message(message)
    assert (text is None) == (not message.strip())
    assert len((text or "").encode("utf-8", "surrogatepass")) <= MAX_MESSAGE_BYTES
