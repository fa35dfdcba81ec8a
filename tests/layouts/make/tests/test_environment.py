import os

def test_environment_of_the_job():
    assert os.environ["CURRENCY"] == "CHF"
