import pytest

from shop import currency, total

@pytest.mark.parametrize(("country", "expected"), [("CH", "CHF"), ("DE", "EUR")])
def test_currency(country, expected):
    assert currency(country) == expected

def test_discount():
    assert total([4, 4], 0.5) == 4

def test_discount_is_at_most_all():
    with pytest.raises(ValueError):
        total([4], 2)
