from shop import warehouse


def test_empty():
    assert warehouse.load(0) == []


def test_loads_rows():
    assert len(warehouse.load(40)) == 40


def test_index_of_all_products():
    assert warehouse.index(1600) == 1600
