import sys
from importlib import metadata

import sortedcontainers
import tomli_w


def test_python_is_that_of_the_version_file():
    assert sys.version_info[:2] == (3, 13)


def test_package_is_installed():
    assert metadata.version("shop") == "1"


def test_requirement_and_extra_are_there():
    assert tomli_w.dumps({"a": 1}) == "a = 1\n"
    assert sortedcontainers.SortedList([2, 1]) == [1, 2]
