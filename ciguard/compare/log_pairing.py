"""Which values of two logs may be compared. Pure.

A value is compared with the one of equal identity: job, step, name, unit, key, and the ordinal
among those. Two compilation stages print the same words about different kernels: whoever pairs by
words compares two programs, so any other pair has no verdict, and none is made of a value whose
partner is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.logs.values import KeyField, LogValue

    Identity = tuple[str, str, str, str, tuple[KeyField, ...]]
    Groups = Mapping[Identity, list[LogValue]]

MAX_NEAREST: Final = 100_000  # pairs of identities of one name that are looked at, 1 s
ROUNDING: Final = 1e-9  # of a resolution: binary fractions of the same decimal differ by less


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A field of the key that differs; None where it is absent."""

    name: str
    before: str | None
    after: str | None
    printed_alike: str = ""  # what the log prints for people in both


@dataclass(frozen=True, slots=True)
class ValuePair:
    """Two values side by side.

    Attributes:
        ordinal: among values of equal identity, from 1.
        differing: why there is no verdict; () of a pair of equal identity.
    """

    before: LogValue
    after: LogValue
    ordinal: int = 1
    differing: tuple[KeyDifference, ...] = ()

    @property
    def difference(self) -> float:
        """After minus before; 0 below the last digit that both print."""
        found = self.after.value - self.before.value
        resolution = max(self.before.resolution, self.after.resolution)
        return 0.0 if abs(found) < resolution * (1 - ROUNDING) else found

    @property
    def ratio(self) -> float | None:
        """The difference as a share of the value before; None from 0."""
        return self.difference / self.before.value if self.before.value else None


@dataclass(frozen=True, slots=True)
class CountChange:
    """Values of equal identity of which one log has more: which belong together is not known."""

    example: LogValue
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Pairing:
    """What of two logs can be compared, and what cannot.

    Attributes:
        pairs: of equal identity.
        counts: identities whose number of values differs, with 0 where a log has none.
        nearest: values without an equal key, each beside the one that differs in the fewest fields.
        refused: values without an equal key, beside a value that has its partner.
    """

    pairs: tuple[ValuePair, ...]
    counts: tuple[CountChange, ...]
    nearest: tuple[ValuePair, ...]
    refused: tuple[ValuePair, ...]


def pair_values(before: Sequence[LogValue], after: Sequence[LogValue]) -> Pairing:
    """Pair the values of two logs, each in its order."""
    base, head = _group(before), _group(after)
    pairs: list[ValuePair] = []
    counts: list[CountChange] = []
    for identity in dict.fromkeys([*base, *head]):
        old, new = base.get(identity, []), head.get(identity, [])
        if len(old) == len(new):
            both = zip(old, new, strict=True)
            pairs += [ValuePair(*one, ordinal) for ordinal, one in enumerate(both, 1)]
        else:
            counts.append(CountChange((old or new)[0], len(old), len(new)))
    nearest, matched = _nearest(base, head)
    alone = [one for one in counts if _identity(one.example) not in matched]
    return Pairing(tuple(pairs), tuple(alone), tuple(nearest), tuple(_refused(alone, base, head)))


def key_differences(before: LogValue, after: LogValue) -> tuple[KeyDifference, ...]:
    """The fields in which two values of one name differ, with job and step."""
    old = {one.name: one for one in before.key}
    new = {one.name: one for one in after.key}
    found = [
        KeyDifference(name, one, two)
        for name, one, two in (
            ("job", before.place.job, after.place.job),
            ("step", before.place.step, after.place.step),
        )
        if one != two
    ]
    for name in dict.fromkeys([*old, *new]):
        first, second = old.get(name), new.get(name)
        if first is None or second is None or first.value != second.value:
            printed = first.printed if first and second and first.printed == second.printed else ""
            old_text, new_text = (one.value if one else None for one in (first, second))
            found.append(KeyDifference(name, old_text, new_text, printed))
    return tuple(found)


def _identity(value: LogValue) -> Identity:
    return (value.place.job, value.place.step, value.name, value.unit, value.key)


def _group(values: Sequence[LogValue]) -> dict[Identity, list[LogValue]]:
    found: dict[Identity, list[LogValue]] = {}
    for one in values:
        found.setdefault(_identity(one), []).append(one)
    return found


def _nearest(base: Groups, head: Groups) -> tuple[list[ValuePair], set[Identity]]:
    """Pairs of identities that only one log each has, of equal name, unit and number of values."""
    lonely: dict[tuple[str, str], tuple[list[Identity], list[Identity]]] = {}
    for side, (own, other) in enumerate(((base, head), (head, base))):
        for identity in own:
            if identity not in other:
                lonely.setdefault((identity[2], identity[3]), ([], []))[side].append(identity)
    pairs: list[ValuePair] = []
    matched: set[Identity] = set()
    for old, new in lonely.values():
        if len(old) * len(new) > MAX_NEAREST:
            continue
        for _, one, two in sorted(_distances(old, new, base, head), key=lambda found: found[0]):
            if one in matched or two in matched or len(base[one]) != len(head[two]):
                continue
            matched |= {one, two}
            differing = key_differences(base[one][0], head[two][0])
            both = zip(base[one], head[two], strict=True)
            pairs += [ValuePair(*values, n, differing) for n, values in enumerate(both, 1)]
    return sorted(pairs, key=lambda pair: pair.before.place.line), matched


def _distances(
    old: Sequence[Identity], new: Sequence[Identity], base: Groups, head: Groups
) -> Iterator[tuple[tuple[int, int, int], Identity, Identity]]:
    """Fields that differ, then how far apart the ordinals are, then the order in the log."""
    for (m, one), (n, two) in product(enumerate(old), enumerate(new)):
        fields = len(key_differences(base[one][0], head[two][0]))
        yield (fields, abs(m - n), m), one, two


def _refused(alone: Sequence[CountChange], base: Groups, head: Groups) -> Iterator[ValuePair]:
    """The pairs that people make of a value whose equal is missing, with another's partner."""
    partnered: dict[tuple[str, str], list[Identity]] = {}
    for identity in base:
        if identity in head:
            partnered.setdefault((identity[2], identity[3]), []).append(identity)
    left = MAX_NEAREST
    for one in alone:
        candidates = partnered.get((one.example.name, one.example.unit), [])
        left -= len(candidates)
        if not candidates or (one.before and one.after) or left < 0:
            continue
        pairs = [
            (one.example, head[other][0]) if one.before else (base[other][0], one.example)
            for other in candidates
        ]
        best = min(pairs, key=lambda pair: len(key_differences(*pair)))
        yield ValuePair(*best, 1, key_differences(*best))
