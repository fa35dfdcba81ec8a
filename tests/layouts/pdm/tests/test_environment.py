import sortedcontainers

def test_locked_version_of_a_dependency():
    assert sortedcontainers.__version__ == "2.3.0"
