import os
import sys

import sortedcontainers

def test_python_and_dependency_of_the_environment():
    version = "%d%d" % sys.version_info[:2]
    is_oldest = sortedcontainers.__version__ == "2.3.0"
    assert os.environ["TOX_ENV_NAME"] == ("oldest" if is_oldest else "py" + version)
