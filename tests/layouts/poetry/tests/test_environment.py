import sys
from importlib import metadata

import sortedcontainers


def test_python_is_the_lowest_that_is_allowed():
    assert sys.version_info[:2] == (3, 12)


def test_package_is_installed():
    assert metadata.version("shop") == "1"


def test_group_is_there():
    assert sortedcontainers.__version__ == "2.4.0"
