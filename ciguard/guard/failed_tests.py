"""Failures of one test over the combinations of a matrix: shown as one, counted as many. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.document import first_line
from ciguard.guard.failure_groups import fingerprint
from ciguard.guard.wording import name_some
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ciguard.guard.verdict import Failure
    from ciguard.model import CaseKey, Suite


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A test that failed in one way; at least one failure, each of another variant."""

    failures: tuple[Failure, ...]

    @property
    def first(self) -> Failure:
        """The failure that stands for all."""
        return self.failures[0]

    @property
    def key(self) -> CaseKey:
        """Its name; without a variant where there are several failures."""
        key = self.first.result.key
        return key if len(self.failures) == 1 else key._replace(variant="")

    def combinations(self, suites: Mapping[str, Suite]) -> str:
        """ "in 2 of 15 combinations: a; b"; no names where it is all, "" for a single failure."""
        if len(self.failures) == 1:
            return ""
        suite = suites.get(self.key.suite)
        variants = suite.variants if suite is not None else {}
        mine = [one.result.variant for one in self.failures]
        is_matrix = any(variant.matrix is not None for variant in variants.values())
        # A result of a variant that is not planned counts, too.
        all_ = count_of(len({*variants, *mine}), "combination" if is_matrix else "variant")
        # The name of a combination has commas of its own.
        names = f": {name_some(mine, separator='; ')}" if {*variants} - {*mine} else ""
        return f"in {len(mine)} of {all_}{names}"


def group_by_test(
    failures: Iterable[Failure], how: Callable[[Failure], str]
) -> Sequence[FailedTest]:
    """Failures that differ in their variant only, in the order of the first of each.

    Args:
        how: the words for how it failed. Failures with other words, or another message apart from
            its numbers and paths, have another cause.
    """
    found: dict[tuple[CaseKey, str, str], list[Failure]] = {}
    for one in failures:
        key = one.result.key._replace(variant="")
        message = fingerprint(first_line(one.result.message or ""))
        found.setdefault((key, how(one), message), []).append(one)
    return [FailedTest(tuple(members)) for members in found.values()]
