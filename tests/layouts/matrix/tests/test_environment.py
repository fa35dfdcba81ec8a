import os
from pathlib import Path

def test_environment_of_the_combination():
    expected = {
        "ubuntu-latest 3.12": "EUR",
        "ubuntu-latest 3.13": "EUR",
        "ubuntu-24.04 3.13": "CHF",
    }
    assert os.environ["CURRENCY"] == expected[os.environ["COMBINATION"]]
    assert os.environ["FROM_STEP"] == "secret"

def test_artifact_of_the_build_job():
    assert Path("build/prices.txt").read_text() == "12"
