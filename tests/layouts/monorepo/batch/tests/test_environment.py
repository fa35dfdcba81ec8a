import packaging


def test_environment_is_that_of_this_project():
    assert packaging.__version__ == "23.2"
