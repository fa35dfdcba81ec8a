"""Failures of one test over the combinations of a matrix: shown as one, counted as many. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.document import first_line
from ciguard.render.variant_groups import fingerprint, group_variants, name_combinations

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
        """ "in 2 of 15 combinations: a; b"; "" for a single failure."""
        return name_combinations([one.result.key for one in self.failures], suites)


def group_by_test(
    failures: Iterable[Failure], how: Callable[[Failure], str]
) -> Sequence[FailedTest]:
    """Failures that differ in their variant only, in the order of the first of each.

    Args:
        how: the words for how it failed. Failures with other words, or another message apart from
            its numbers and paths, have another cause.
    """
    groups = group_variants(
        failures,
        lambda one: one.result.key,
        lambda one: (how(one), fingerprint(first_line(one.result.message or ""))),
    )
    return [FailedTest(group) for group in groups]
