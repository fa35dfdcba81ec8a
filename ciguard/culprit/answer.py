"""Answer of a search for culprits, as values and as JSON. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Annotated, Final, Literal

from pydantic import Field, FiniteFloat, TypeAdapter

from ciguard.compare.json import read_document
from ciguard.culprit.search import Measure
from ciguard.errors import InputError
from ciguard.model import UnitKey

# "one of": no single commit has the confidence. "unchanged": no commit changed the test.
Verdict = Literal["culprit", "one of", "unchanged", "not tried"]
Stopped = Literal["", "budget", "interrupted"]
Sha = Annotated[str, Field(pattern="^[0-9a-f]{7,64}$")]  # becomes a part of links
Probability = Annotated[float, Field(ge=0, le=1 + 1e-9)]  # a sum of roundings
SCHEMA: Final = 1
FIX: Final = "make it with `ciguard culprit --format json -o FILE`"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A commit, and the probability that it is the first bad one."""

    sha: Sha
    probability: Probability
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """The tries of a commit, in the order of the range.

    Attributes:
        failed: number of failed tries; None if times or sizes were measured.
        median: median of the tries, in seconds or bytes.
        reason: reason why the commit could not be tried; "" if it could.
    """

    sha: str
    tries: int = 0
    failed: int | None = None
    median: FiniteFloat | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TestAnswer:
    """The answer for a test: the fewest candidates that hold the confidence, likely ones first.

    `unchanged`: probability that no commit of the range changed the test.
    """

    suite: str
    variant: str
    unit: str
    measure: Measure
    verdict: Verdict
    candidates: tuple[Candidate, ...]
    unchanged: Probability
    tried: tuple[Tried, ...]

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.suite, self.variant, self.unit)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a search.

    Attributes:
        commits: number of commits after the good one, up to the bad one.
        executions: number of runs of tests, at all commits.
        stopped: reason why the search ended before its answers; "" if it did not.
    """

    good: str
    bad: str
    commits: int
    confidence: float
    tests: Annotated[tuple[TestAnswer, ...], Field(min_length=1)]
    executions: int
    wall_s: FiniteFloat
    stopped: Stopped = ""

    def groups(self) -> list[list[TestAnswer]]:
        """Return the tests with equal answers together, the least certain of each group first."""
        groups: dict[object, list[TestAnswer]] = defaultdict(list)
        for test in sorted(
            self.tests, key=lambda test: sum(it.probability for it in test.candidates)
        ):
            groups[test.measure, test.verdict, *(one.sha for one in test.candidates)].append(test)
        return [*groups.values()][::-1]


_ADAPTER: Final = TypeAdapter(Answer)


def json_text(answer: Answer) -> str:
    return json.dumps({"schema": SCHEMA, **asdict(answer)}, indent=2, allow_nan=False) + "\n"


def read_answer(content: bytes, source: str) -> Answer:
    """Read the JSON of an answer, whose texts are foreign: its job ran code of the project.

    Raises:
        InputError: the content is no answer.
    """
    noun = "answer of `ciguard culprit`"
    answer = read_document(content, source, _ADAPTER.validate_python, noun=noun, fix=FIX)
    for test in answer.tests:
        chances = [one.probability for one in test.candidates]
        is_named = test.verdict == "culprit"
        is_below = is_named and (len(chances) != 1 or chances[0] < answer.confidence)
        if is_below or (test.verdict == "one of" and not chances):
            raise InputError("a verdict without its commits", where=source, fix=FIX)
    return answer
