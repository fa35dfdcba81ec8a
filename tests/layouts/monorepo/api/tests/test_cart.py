import pytest


@pytest.mark.parametrize("count", [1, 2, 3])
def test_total(count):
    assert sum([5] * count) == 5 * count


def test_empty():
    assert sum([]) == 0
