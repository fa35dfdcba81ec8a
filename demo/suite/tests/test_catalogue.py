from shop import catalogue


def test_empty():
    assert catalogue.load(0) == []


def test_loads_rows():
    assert len(catalogue.load(40)) == 40


def test_index_of_all_products():
    assert catalogue.index(1600) == 1600
