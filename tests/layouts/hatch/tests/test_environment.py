from importlib import metadata

import sortedcontainers

def test_package_and_dependency_of_the_environment():
    assert metadata.version("shop") == "1"
    assert sortedcontainers.__version__ == "2.3.0"
