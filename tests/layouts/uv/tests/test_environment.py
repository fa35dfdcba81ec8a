import sys

import sortedcontainers
import tomli_w


def test_python_is_the_lowest_that_is_allowed():
    assert sys.version_info[:2] == (3, 13)


def test_locked_version_of_a_dependency():
    assert sortedcontainers.__version__ == "2.4.0"


def test_extra_is_there():
    assert tomli_w.dumps({"a": 1}) == "a = 1\n"
