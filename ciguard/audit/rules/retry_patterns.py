"""What runs failed tests again, or lets them fail: a table of options, variables and plugins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RetryOption:
    """An option or variable that sets how often a failed test runs again.

    Attributes:
        pattern: the group `count` is its value where it has one; 0 is no retry.
        is_general: other programs have the option too, so it counts in test commands only.
    """

    name: str
    pattern: re.Pattern[str]
    is_general: bool = False


_VALUE: Final = r"""['"]?(?P<count>\$\{\{.*?\}\}|[^\s'"]+)"""


def _option(name: str, *, is_general: bool = False) -> RetryOption:
    pattern = rf"(?<![\w-]){re.escape(name)}(?:=|\s+){_VALUE}"
    return RetryOption(name, re.compile(pattern), is_general)


RETRY_OPTIONS: Final = (
    _option("--reruns"),  # pytest-rerunfailures
    RetryOption("--force-flaky", re.compile(r"--force-flaky\b(?P<count>)")),  # flaky
    RetryOption("--rerun-fails", re.compile(r"--rerun-fails(?:=(?P<count>\S+)|(?![\w-]))")),
    RetryOption("--repeat until-pass", re.compile(r"--repeat[ =]until-pass:(?P<count>\S+)")),
    _option("--retry-failed-tests"),  # Microsoft.Testing.Platform
    _option("--flaky_test_attempts"),  # bazel
    RetryOption(
        "rerunFailingTestsCount", re.compile(r"rerunFailingTestsCount=(?P<count>[^\s'\"]+)")
    ),
    RetryOption("jest.retryTimes", re.compile(r"jest\.retryTimes\((?P<count>\w+)")),
    _option("--retries", is_general=True),  # playwright, mocha, nextest, pytest-retry
    _option("--retry", is_general=True),  # vitest
)
# Variables that test frameworks read.
RETRY_VARIABLES: Final = frozenset({"NEXTEST_RETRIES", "BATS_TEST_RETRIES"})
# A plugin that is installed does nothing by itself: its option may stand in a file of settings.
RETRY_PLUGIN: Final = re.compile(r"(pytest-rerunfailures|pytest-retry|flaky)([=<>~!\[;@].*)?")
# What a test command is followed by after `||` if its failure is to count for nothing.
IGNORED_FAILURE: Final = frozenset({("true",), (":",), ("exit", "0")})
