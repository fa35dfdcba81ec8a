from fractions import Fraction

import pytest
from shop import prices


def test_settles():
    assert prices.settle() == 12


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_total(count):
    assert prices.total([100] * count) == Fraction(119 * count)
