import sys

import sortedcontainers

def test_python_and_dependency_of_the_session():
    session = sys.prefix.replace("\\", "/").rpartition("/")[2]
    is_oldest = sortedcontainers.__version__ == "2.3.0"
    assert session == ("oldest" if is_oldest else "tests-%d-%d" % sys.version_info[:2])
