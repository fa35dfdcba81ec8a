import pytest
from shop import sessions


def test_cookie():
    assert sessions.encode("abc") == b"cba"


@pytest.mark.parametrize("number", range(12))
def test_opens(number):
    assert sessions.open_session() > 0


@pytest.mark.skip(reason="no second data centre yet")
def test_moves_to_another_data_centre():
    raise AssertionError
