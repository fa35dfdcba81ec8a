"""What became of each case, by name, and how often it went wrong before. Pure.

Tests that are the same under another name, moved to another file or class or renamed, have the same
parameters, and one name is the likeliest. A test that is taken for another one is judged by what it
never was: so only what moved under its own name is sure, and the one function of a place with the
same several parameters; a like name in the same place is doubtful. What would decide, the lines and
the body of a test, no history keeps.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast, get_args

import numpy as np

from ciguard.codec.quarantine import Entry, entry_of
from ciguard.compare.run_columns import CODE, index_in
from ciguard.document import first_line
from ciguard.history.file import CODE_NAMES, History
from ciguard.history.query import group_bounds
from ciguard.model import BAD_OUTCOMES, CaseKey, Ending, Outcome, UnitKey
from ciguard.text import case_name, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.compare.run_columns import Codes, Run

    Statuses = NDArray[np.uint8]

MIN_SIMILARITY: Final = 0.8  # of names in one place; 1 is the same
PAIRS: Final = 10_000  # of one group: a whole file of new names is no renamed test
_PARAMETERS: Final = re.compile(r"\s*[\[(].*$", re.DOTALL)
_BEGIN: Final = re.compile(r"^test_?", re.IGNORECASE)


class Renames(NamedTuple):
    """Cases of the candidate that the base has under another name: the new key -> the old one."""

    sure: dict[CaseKey, CaseKey]
    perhaps: dict[CaseKey, CaseKey]

    @property
    def old_keys(self) -> frozenset[CaseKey]:
        """The cases of the base that are not gone, surely or perhaps."""
        return frozenset((*self.sure.values(), *self.perhaps.values()))


NO_RENAMES: Final = Renames({}, {})


class _TestName(NamedTuple):
    key: CaseKey
    path: str
    name: str
    parameters: str
    row: tuple[str, ...] = ()  # the parameters of all cases of this name

    @property
    def last(self) -> str:
        """The name without its class."""
        return self.name.rpartition("::")[2]


def _spelled(key: CaseKey) -> _TestName:
    found = _PARAMETERS.search(key.case)
    head = key.case[: found.start()] if found else key.case
    place, mark, name = head.partition("::")
    if not key.case.startswith(key.unit):  # a sentence in a file, as Jest has it
        place, name = key.unit, head
    elif not mark:
        place, _, name = head.rpartition(".")
    # JUnit XML has "tests.test_a" for "tests/test_a.py": of two spellings one place is one place.
    place = place.removesuffix(".py").replace("/", ".")
    return _TestName(key, place, name, found[0].strip() if found else "")


def match_renames(
    base: Run, candidate: Run, planned: Mapping[UnitKey, str] | None = None
) -> Renames:
    """Find the cases of the candidate that the base has under another name.

    Args:
        planned: units of the candidate's plan: those are not gone, whether they ran or not.
    """
    # Most runs have the same tests: that is known without a unit's name being made of any key.
    if base.keys == candidate.keys or not set(candidate.keys) - set(base.keys):
        return NO_RENAMES
    removed = _only_in(base, candidate, set(planned or ()))
    new = _only_in(candidate, base, set())
    found = Renames({}, {})
    if removed and new:
        for likeness in (_same_name, _same_name_in_file, _same_row, _same_place):
            pairs = _pairs(removed, new, likeness)
            for old, now, is_sure in pairs:
                (found.sure if is_sure else found.perhaps)[now.key] = old.key
            taken = {one.key for old, now, _ in pairs for one in (old, now)}
            removed = [one for one in removed if one.key not in taken]
            new = [one for one in new if one.key not in taken]
    return found


def _only_in(run: Run, other: Run, planned: set[UnitKey]) -> list[_TestName]:
    """The cases that the other run lacks, and not because their unit died or did not run there."""
    others = set(other.keys)
    units = {key.unit_key for key in other.keys}
    whole = {key.unit_key for key in (*run.keys, *others) if key.case == key.unit}
    rows: dict[tuple[str, ...], list[_TestName]] = defaultdict(list)
    for key in run.keys:
        if key not in others and key.unit_key not in (whole if key.unit_key in units else planned):
            one = _spelled(key)
            rows[(*key[:2], one.path, one.name)].append(one)
    return [
        one._replace(row=tuple(sorted(two.parameters for two in row)))
        for row in rows.values()
        for one in row
    ]


def _same_name(one: _TestName) -> tuple[str, ...]:
    return (one.name, one.parameters)


def _same_name_in_file(one: _TestName) -> tuple[str, ...]:
    return (one.last, one.parameters)


def _same_place(one: _TestName) -> tuple[str, ...]:
    return (one.path, one.name.rpartition("::")[0], one.parameters)


def _same_row(one: _TestName) -> tuple[str, ...]:
    return (*_same_place(one), *(one.row if len(one.row) > 1 else [one.name]))


def _pairs(
    removed: Iterable[_TestName],
    new: Iterable[_TestName],
    match_key: Callable[[_TestName], tuple[str, ...]],
) -> list[tuple[_TestName, _TestName, bool]]:
    """Each old case with the new one that is its likeliest, where it is that one's, too.

    Sure is what has its own name in its own file, or is one of as many as there were.
    """
    groups: dict[tuple[str, ...], tuple[list[_TestName], list[_TestName]]]
    groups = defaultdict(lambda: ([], []))
    pairs = []
    for side, cases in enumerate((removed, new)):
        for one in cases:
            groups[(one.key.suite, one.key.variant, *match_key(one))][side].append(one)
    for old, now in groups.values():
        is_row = match_key is _same_row
        if not old or not now or len(old) * len(now) > (1 if is_row else PAIRS):
            continue
        scores = [[_score(a, b, same_name=match_key is not _same_place) for b in now] for a in old]
        for row, a in enumerate(old):
            column = _best(scores[row])
            if column is not None and _best([line[column] for line in scores]) == row:
                b = now[column]
                same = match_key in (_same_name, _same_row) or (
                    match_key is _same_name_in_file and a.path == b.path
                )
                pairs.append((a, b, same and len(old) == len(now)))
    return pairs


def _best(scores: Sequence[float]) -> int | None:
    """Return the position of the highest score; None where it is too low, or a tie."""
    top = max(scores)
    return scores.index(top) if top > 0 and scores.count(top) == 1 else None


def _score(old: _TestName, new: _TestName, *, same_name: bool) -> float:
    if same_name:  # of several places that have a test of this name, the likest
        return 0.01 + _ratio(f"{old.path}.{old.name}", f"{new.path}.{new.name}")
    a, b = (_BEGIN.sub("", one.last) for one in (old, new))
    if re.findall(r"\d+", a) != re.findall(r"\d+", b):  # the second of a row is not the first
        return 0.0
    ratio = _ratio(a, b)
    return ratio if ratio >= MIN_SIMILARITY else 0.0


def _ratio(a: str, b: str) -> float:
    return SequenceMatcher(None, a, b, autojunk=False).ratio()


# What a case came to; a higher one is worse for a unit that has several cases.
GOOD, SKIPPED, INTERRUPTED, FAILED, CRASHED, TIMED_OUT, OUT_OF_MEMORY = range(7)
BAD: Final = (FAILED, CRASHED, TIMED_OUT, OUT_OF_MEMORY)
# Of a case that did not go wrong in the base, and of one that the base does not have.
_NEWLY: Final[dict[int, tuple[TransitionKind, TransitionKind]]] = {
    FAILED: ("newly_failing", "failing_added"),
    CRASHED: ("newly_crashed", "crashed_added"),
    TIMED_OUT: ("newly_timed_out", "timed_out_added"),
    OUT_OF_MEMORY: ("newly_out_of_memory", "out_of_memory_added"),
}


# In the order in which a reader needs them.
TransitionKind = Literal[
    "newly_out_of_memory",
    "out_of_memory_added",
    "newly_timed_out",
    "timed_out_added",
    "newly_crashed",
    "crashed_added",
    "newly_failing",
    "failing_added",
    "no_longer_run",
    "newly_skipped",
    "newly_xfailed",
    "failing_on_both",
    "quarantined",
    "ignored",
    "flaky",
    "fixed",
    "renamed",
    "removed",
    "added",
]
KINDS: Final[tuple[TransitionKind, ...]] = get_args(TransitionKind)
WORSE_KINDS: Final = KINDS[: KINDS.index("failing_added") + 1]


EXCUSABLE: Final[tuple[TransitionKind, ...]] = (*WORSE_KINDS, "failing_on_both")
RATED_KINDS: Final = (*EXCUSABLE, "flaky")  # kinds shown with their past failure rate
NAME_WIDTH: Final = 200


@dataclass(frozen=True, slots=True)
class Excuse:
    """Why the failure of a test does not count."""

    kind: Literal["quarantined", "ignored"]
    why: str


@dataclass(frozen=True, slots=True)
class CaseState:
    """The result of a case; its outcome is None where a file of durations has only its time."""

    outcome: Outcome | None
    ending: Ending | None


@dataclass(frozen=True, slots=True)
class Transition:
    """A case whose result is another than the base's, or is worth a word.

    Attributes:
        before, after: None where the run does not have the case.
        shard: the candidate's; "" where the case is in none, or it is unknown in which.
        renamed_from: its name in the base, where that is another one.
        baseline_failures: baseline runs in which the case went wrong, of `baseline_runs` that have
            it; None where they were not counted.
        perhaps_was: a case of the base with a similar name, which may be this one and is not
            compared.
        excuse: why a quarantined or ignored failure does not count.
    """

    kind: TransitionKind
    key: CaseKey
    shard: str
    before: CaseState | None
    after: CaseState | None
    message: str | None = None
    renamed_from: CaseKey | None = None
    baseline_failures: int | None = None
    baseline_runs: int | None = None
    excuse: str = ""
    perhaps_was: CaseKey | None = None

    @property
    def name(self) -> str:
        """The case in one line."""
        return case_name(self.key)

    @property
    def fails_on_both(self) -> bool:
        """Say that it fails here as it did before, whether that is excused or not."""
        failed = self.before is not None and self.before.outcome in BAD_OUTCOMES
        return self.kind == "failing_on_both" or (bool(self.excuse) and failed)

    @property
    def first_line(self) -> str:
        """Return the first line of the message; "" without one."""
        return one_line(first_line(self.message or ""), NAME_WIDTH)


def statuses(run: Run) -> Statuses:
    """Return the status of each case of a run."""
    return statuses_of(run.outcome, run.ending)


def statuses_of(outcome: Codes, ending: Codes) -> Statuses:
    """Return the status of each result."""
    found = np.full(len(outcome), GOOD, np.uint8)
    found[outcome == CODE["outcome"]["skipped"]] = SKIPPED
    found[ending > CODE["ending"]["completed"]] = INTERRUPTED
    for word in ("failed", "errored"):
        found[outcome == CODE["outcome"][word]] = FAILED
    died = outcome == CODE["outcome"]["died"]
    found[died & (ending <= CODE["ending"]["completed"])] = CRASHED
    for word, fate in (
        ("crash", CRASHED),
        ("timeout", TIMED_OUT),
        ("out_of_memory", OUT_OF_MEMORY),
        ("memory_guard", OUT_OF_MEMORY),
    ):
        found[ending == CODE["ending"][word]] = fate
    return found


def case_state(run: Run, position: int) -> CaseState:
    """The result of one case of a run."""
    return CaseState(
        cast("Outcome | None", CODE_NAMES["outcome"][run.outcome[position]] or None),
        cast("Ending | None", CODE_NAMES["ending"][run.ending[position]] or None),
    )


class _Indexed:
    """A run with its fates, found by case and by unit; both on demand."""

    def __init__(self, run: Run) -> None:
        self.run, self.statuses = run, statuses(run)

    @cached_property
    def index_by_key(self) -> dict[CaseKey, int]:
        return {key: position for position, key in enumerate(self.run.keys)}

    @cached_property
    def worst(self) -> dict[UnitKey, int]:
        """The position of each unit's worst case."""
        worst: dict[UnitKey, int] = {}
        for position, (key, fate) in enumerate(
            zip(self.run.keys, self.statuses.tolist(), strict=True)
        ):
            unit = key.unit_key
            if unit not in worst or fate > self.statuses[worst[unit]]:
                worst[unit] = position
        return worst

    def index_of(self, key: CaseKey) -> int | None:
        """Return the position of a case; of a unit's own case that of the unit's worst one."""
        found = self.index_by_key.get(key)
        return self.worst.get(key.unit_key) if found is None and key.case == key.unit else found

    def shard(self, position: int) -> str:
        return self.run.legs[self.run.leg[position]].name if self.run.legs else ""

    def is_leg_complete(self, position: int) -> bool:
        """Say that the leg of a case ran all of its tests: what it has no result of was not there.

        A focus or a filter keeps cases of a unit that ran from running.
        """
        leg = self.run.legs[self.run.leg[position]] if self.run.legs else None
        return leg is None or (leg.complete and not leg.is_filtered)


def transitions(
    base: Run,
    candidate: Run,
    shard_of: Mapping[UnitKey, str] | None = None,
    lost: Collection[UnitKey] = frozenset(),
    names: Renames = NO_RENAMES,
) -> tuple[Transition, ...]:
    """Compare the outcomes of two runs.

    A unit that died has one result for all of its cases, and is held against the worst of them.

    Args:
        shard_of: units of the candidate's plan, where that is known: then what is gone was
            removed, and what was planned and has no result is no longer run.
        lost: units that have no result because their leg gave none: no word about their tests.
        names: cases that the base has under another name, as `renamed` finds them.

    Returns:
        By kind in the order of `KINDS`, then by key.
    """
    before, after = _Indexed(base), _Indexed(candidate)
    flaky = frozenset(candidate.flaky)
    found = [
        *(
            one
            for one in _in_candidate(before, after, names)
            if one.kind != "added" or one.key not in flaky
        ),
        *_only_in_base(before, after, shard_of, names.old_keys),
        *_flaky(before, after, names.sure),
    ]
    reported = [one for one in found if one.kind != "no_longer_run" or one.key.unit_key not in lost]
    return _in_order(reported)


def _in_order(found: Iterable[Transition]) -> tuple[Transition, ...]:
    return tuple(sorted(found, key=lambda one: (KINDS.index(one.kind), one.key)))


def with_excuses(
    found: Iterable[Transition], excused: Mapping[CaseKey, Excuse]
) -> tuple[Transition, ...]:
    """The transitions, failures that do not count under a kind that makes nothing worse."""
    return _in_order(
        replace(one, kind=excused[one.key].kind, excuse=excused[one.key].why)
        if one.key in excused and one.kind in EXCUSABLE
        else one
        for one in found
    )


def quarantined(run: Run, entries: Sequence[Entry]) -> dict[CaseKey, Excuse]:
    """The cases of a run that went wrong and are quarantined."""
    found = {}
    for position in np.flatnonzero(np.isin(statuses(run), BAD)).tolist() if entries else ():
        key = run.keys[position]
        entry = entry_of(entries, key.unit_key)
        if entry is not None:
            found[key] = Excuse("quarantined", entry.reason_text)
    return found


def _in_candidate(before: _Indexed, after: _Indexed, names: Renames) -> Iterator[Transition]:
    place = index_in(after.run, before.run)
    old_fates = np.where(
        place >= 0, before.statuses[place] if len(before.statuses) else 0, INTERRUPTED
    )
    # What went right in both is nearly all there is, and has nothing to tell.
    for position in np.flatnonzero((old_fates != GOOD) | (after.statuses != GOOD)).tolist():
        key, fate = after.run.keys[position], int(after.statuses[position])
        was = names.sure.get(key)
        old = before.index_of(key if was is None else was)
        kind = _kind(None if old is None else int(before.statuses[old]), fate)
        if kind == "added" and key in names.perhaps:
            kind, old = "renamed", before.index_of(names.perhaps[key])
        elif was is not None and kind is None:
            kind = "renamed"
        elif kind == "newly_skipped" and key in after.run.messages:
            kind = "newly_xfailed"  # of what went right, only an expected failure has a message
        if kind is not None:
            yield Transition(
                kind=kind,
                key=key,
                shard=after.shard(position),
                before=None if old is None else case_state(before.run, old),
                after=case_state(after.run, position),
                message=after.run.messages.get(key),
                renamed_from=was,
                perhaps_was=names.perhaps.get(key),
            )


def _kind(old: int | None, new: int) -> TransitionKind | None:
    if new in BAD:
        if old == new or (old in BAD and new == FAILED):
            return "failing_on_both"
        return _NEWLY[new][old is None]
    if new == INTERRUPTED:
        return None if old == INTERRUPTED else "no_longer_run"
    if old is None:
        return "added"
    if new == SKIPPED:
        return None if old == SKIPPED else "newly_skipped"
    return "fixed" if old in BAD else None


def _only_in_base(
    before: _Indexed,
    after: _Indexed,
    shard_of: Mapping[UnitKey, str] | None,
    found_elsewhere: Collection[CaseKey],
) -> Iterator[Transition]:
    for position in np.flatnonzero(index_in(before.run, after.run) < 0).tolist():
        key = before.run.keys[position]
        if key in found_elsewhere:
            continue
        new = after.worst.get(key.unit_key)
        fate = int(before.statuses[position])
        if new is not None:
            died = after.run.outcome[new] == CODE["outcome"]["died"]
            if died or key.case == key.unit:
                if key.case == key.unit and fate in BAD and after.statuses[new] == GOOD:
                    states = case_state(before.run, position), case_state(after.run, new)
                    yield Transition("fixed", key, after.shard(new), *states)
                continue
        if fate == INTERRUPTED:
            continue
        # The base's shard says nothing: the candidate's plan may have put the unit elsewhere.
        planned = (shard_of or {}).get(key.unit_key, "")
        shard = after.shard(new) if new is not None else planned
        removed = shard_of is not None and (
            after.is_leg_complete(new) if new is not None else not planned
        )
        yield Transition(
            kind="removed" if removed else "no_longer_run",
            key=key,
            shard=shard,
            before=case_state(before.run, position),
            after=None,
        )


def _flaky(
    before: _Indexed, after: _Indexed, names: Mapping[CaseKey, CaseKey]
) -> Iterator[Transition]:
    for key in after.run.flaky:
        position = after.index_by_key[key]
        old = before.index_of(names.get(key, key))
        state = None if old is None else case_state(before.run, old)
        yield Transition(
            "flaky", key, after.shard(position), state, case_state(after.run, position)
        )


def with_failure_rates(
    transitions: Sequence[Transition], history: History | None, used: Sequence[int]
) -> tuple[Transition, ...]:
    """The transitions, those to the worse with how often that was so before.

    Args:
        used: positions of the history's runs that are the baseline.
    """
    if history is None or not used or not any(one.kind in RATED_KINDS for one in transitions):
        return tuple(transitions)
    wanted = {one.renamed_from or one.key for one in transitions if one.kind in RATED_KINDS}
    at = {key: place for place, key in enumerate(history.keys) if key in wanted}
    values, edges = history.values, group_bounds(history.values.key, len(history.keys))
    chosen = np.zeros(len(history.runs), np.bool_)
    chosen[list(used)] = True

    def with_rate(one: Transition) -> Transition:
        place = at.get(one.renamed_from or one.key)
        if one.kind not in RATED_KINDS or place is None:
            return one
        rows = slice(int(edges[place]), int(edges[place + 1]))
        # What was stopped with its leg went neither right nor wrong.
        fates = statuses_of(values.outcome[rows], values.ending[rows])
        there = chosen[values.run[rows]] & (fates != INTERRUPTED)
        bad = np.isin(fates, BAD) & there
        return replace(one, baseline_failures=int(bad.sum()), baseline_runs=int(there.sum()))

    return tuple(map(with_rate, transitions))
