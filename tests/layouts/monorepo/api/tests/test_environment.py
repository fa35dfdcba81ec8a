import sys

import packaging


def test_environment_is_that_of_this_project():
    assert packaging.__version__ == "25.0"
    assert sys.version_info[:2] == (3, 12)
