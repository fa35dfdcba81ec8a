"""Programs whose JUnit XML needs a rule of its own, and how a file shows which one wrote it. Pure.

JUnit XML has no field for its producer. An element's attributes and their order are the producer's
own, and outlive a merge of files. Other producers need no rule: their files mean what they say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Producer = Literal["Vitest", "Playwright", "CTest", "libtest", "container-structure-test"]

_BY_ATTRIBUTES: Final[Mapping[str, Producer]] = {
    "testsuite name timestamp hostname tests failures errors skipped time": "Vitest",
    "testsuites id name tests failures skipped errors time": "Playwright",
    "testsuite name tests failures disabled skipped hostname time timestamp": "CTest",
    "testsuite name package id errors failures tests skipped": "libtest",
    "testsuites failures tests time": "container-structure-test",
}
# No tests of an image take longer than a day, or less than as many nanoseconds (86 microseconds).
_LONGEST_RUN_S: Final = 86_400
# Of `vitest --typecheck`: a compiler reads them, nothing runs, and no time is measured.
_TYPE_TESTS: Final = re.compile(r"-d\.[cm]?[jt]sx?$")
_PLAYWRIGHT_SKIPS: Final = frozenset({"skip", "fixme"})


def producer_of(tag: str, attributes: Mapping[str, str]) -> Producer | None:
    """The producer of a `testsuites` or `testsuite` with these attributes; None for all others."""
    return _BY_ATTRIBUTES.get(" ".join((tag, *attributes)))


def is_lost_file(producer: Producer | None, suite: Mapping[str, str]) -> bool:
    """Say whether Vitest lost the worker of this file: only a file that ends gets a time.

    Vitest writes a test that never ran as a passed one with `time="0"`. In a file that ended this
    is a test below the resolution of a browser's clock.
    """
    is_untimed = producer == "Vitest" and suite.get("time") == "0"
    return is_untimed and _TYPE_TESTS.search(suite.get("name", "")) is None


def counts_unlisted_skips(producer: Producer | None) -> bool:
    """Say whether libtest wrote this suite: it counts ignored tests, and lists none of them."""
    return producer == "libtest"


def ticks_per_second(producer: Producer | None, root: Mapping[str, str]) -> float:
    """The unit of `time`: container-structure-test wrote nanoseconds before 1.14.

    Milliseconds came from FitNesse and Chutzpah until 2015 and jest-junit before 1.1: no rule.
    """
    if producer != "container-structure-test":
        return 1.0
    time = root["time"]
    return 1e9 if time.isdecimal() and int(time) > _LONGEST_RUN_S else 1.0


def is_failure_of_ctest(producer: Producer | None, case: Mapping[str, str], message: str) -> bool:
    """Say whether a `skipped` case is a test that CTest could not start, and counts as failed.

    The message is the reason ("Unable to find executable"). Real skips are `SKIP_*`, and a disabled
    test has no element.
    """
    is_not_run = producer == "CTest" and case.get("status") == "notrun"
    return is_not_run and bool(message) and not message.startswith("SKIP_")


def was_not_reached(
    producer: Producer | None,
    case: Mapping[str, str],
    suite: str,
    properties: Collection[str],
) -> bool:
    """Say whether a `skipped` case is a test that Playwright did not run ("did not run").

    Playwright stops at --max-failures, at --global-timeout, and in a group behind a failure. A real
    skip has the property `skip` or `fixme`. Measured with 1.36, 1.40, 1.55, 1.60 and 1.65; 1.30 has
    no properties, and another class than the file.
    """
    is_of_file = producer == "Playwright" and case.get("classname") == suite
    return is_of_file and _PLAYWRIGHT_SKIPS.isdisjoint(properties)
