"""Transitions: the change of outcome of each case, renamed tests, and past failure rates. Pure.

A renamed or moved test has the same parameters, and one name is the most similar. A wrong match
would compare two different tests. So a match is sure only for a test that moved under its own name,
and for the one function of a file or class with the same several parameters; a similar name in the
same file or class is doubtful. Lines and bodies of tests would decide, but no history has them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import Final, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from ciguard.codec.quarantine import Entry, entry_of
from ciguard.compare.run_columns import Codes, Run, index_in
from ciguard.compare.whose import ONE_TRY, Answer, Past, PastEnding, PastRun, decide
from ciguard.document import first_line
from ciguard.history.file import CODE, CODE_NAMES, History
from ciguard.history.query import group_bounds
from ciguard.model import BAD_OUTCOMES, CaseKey, Ending, Outcome, UnitKey
from ciguard.text import one_line

Statuses = NDArray[np.uint8]

MIN_SIMILARITY: Final = 0.8  # of names in one file or class; 1 is equal
PAIRS: Final = 10_000  # of one group; a file of only new names is no renamed test
_PARAMETERS: Final = re.compile(r"\s*[\[(].*$", re.DOTALL)
_BEGIN: Final = re.compile(r"^test_?", re.IGNORECASE)


class Renames(NamedTuple):
    """Cases of the candidate that the base has under another name: new key -> old key."""

    sure: dict[CaseKey, CaseKey]
    perhaps: dict[CaseKey, CaseKey]

    @property
    def old_keys(self) -> frozenset[CaseKey]:
        """The cases of the base that the candidate has, surely or perhaps, under another name."""
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


def _split_name(key: CaseKey) -> _TestName:
    parameters = _PARAMETERS.search(key.case)
    head = key.case[: parameters.start()] if parameters else key.case
    path, separator, name = head.partition("::")
    if not key.case.startswith(key.unit):  # a sentence in a file, as in Jest
        path, name = key.unit, head
    elif not separator:
        path, _, name = head.rpartition(".")
    # JUnit XML has "tests.test_a" for "tests/test_a.py".
    path = path.removesuffix(".py").replace("/", ".")
    return _TestName(key, path, name, parameters[0].strip() if parameters else "")


def match_renames(
    base: Run, candidate: Run, planned: Mapping[UnitKey, str] | None = None
) -> Renames:
    """Find the cases of the candidate that the base has under another name.

    Args:
        planned: units of the candidate's plan, which are not removed, whether they ran or not.
    """
    # Most runs have the same tests: the fast path splits no name.
    if base.keys == candidate.keys or not set(candidate.keys) - set(base.keys):
        return NO_RENAMES
    removed = _only_in(base, candidate, set(planned or ()))
    new = _only_in(candidate, base, set())
    renames = Renames({}, {})
    if removed and new:
        for match_key in (_same_name, _same_name_in_file, _same_row, _same_class):
            pairs = _pairs(removed, new, match_key)
            for old, now, is_sure in pairs:
                (renames.sure if is_sure else renames.perhaps)[now.key] = old.key
            paired = {name.key for old, now, _ in pairs for name in (old, now)}
            removed = [name for name in removed if name.key not in paired]
            new = [name for name in new if name.key not in paired]
    return renames


def _only_in(run: Run, other: Run, planned: set[UnitKey]) -> list[_TestName]:
    """Return the cases that the other run lacks, unless their unit died or did not run there."""
    others = set(other.keys)
    units = {key.unit_key for key in other.keys}
    whole = {key.unit_key for key in (*run.keys, *others) if key.case == key.unit}
    rows: dict[tuple[str, ...], list[_TestName]] = defaultdict(list)
    for key in run.keys:
        if key not in others and key.unit_key not in (whole if key.unit_key in units else planned):
            name = _split_name(key)
            rows[(*key[:2], name.path, name.name)].append(name)
    return [
        name._replace(row=tuple(sorted(case.parameters for case in row)))
        for row in rows.values()
        for name in row
    ]


def _same_name(test: _TestName) -> tuple[str, ...]:
    return (test.name, test.parameters)


def _same_name_in_file(test: _TestName) -> tuple[str, ...]:
    return (test.last, test.parameters)


def _same_class(test: _TestName) -> tuple[str, ...]:
    return (test.path, test.name.rpartition("::")[0], test.parameters)


def _same_row(test: _TestName) -> tuple[str, ...]:
    return (*_same_class(test), *(test.row if len(test.row) > 1 else [test.name]))


def _pairs(
    removed: Iterable[_TestName],
    new: Iterable[_TestName],
    match_key: Callable[[_TestName], tuple[str, ...]],
) -> list[tuple[_TestName, _TestName, bool]]:
    """Pair the old and new cases that are each other's most similar one.

    A pair is sure if the name is equal or, across classes, the file as well, or if a row of
    parameters is; and if both sides have equally many cases.
    """
    groups: dict[tuple[str, ...], tuple[list[_TestName], list[_TestName]]]
    groups = defaultdict(lambda: ([], []))
    pairs = []
    for side, cases in enumerate((removed, new)):
        for test in cases:
            groups[(test.key.suite, test.key.variant, *match_key(test))][side].append(test)
    for old, now in groups.values():
        is_row = match_key is _same_row
        if not old or not now or len(old) * len(now) > (1 if is_row else PAIRS):
            continue
        scores = [[_score(a, b, same_name=match_key is not _same_class) for b in now] for a in old]
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
    """Return the position of the highest score; None if it is 0 or a tie."""
    top = max(scores)
    return scores.index(top) if top > 0 and scores.count(top) == 1 else None


def _score(old: _TestName, new: _TestName, *, same_name: bool) -> float:
    if same_name:  # the most similar file or class that has a test of this name
        return 0.01 + _ratio(f"{old.path}.{old.name}", f"{new.path}.{new.name}")
    a, b = (_BEGIN.sub("", test.last) for test in (old, new))
    if re.findall(r"\d+", a) != re.findall(r"\d+", b):  # test_2 is not test_1 under another name
        return 0.0
    ratio = _ratio(a, b)
    return ratio if ratio >= MIN_SIMILARITY else 0.0


def _ratio(a: str, b: str) -> float:
    return SequenceMatcher(None, a, b, autojunk=False).ratio()


# Statuses of a case; the highest of its cases is that of a unit.
GOOD, SKIPPED, INTERRUPTED, FAILED, CRASHED, TIMED_OUT, OUT_OF_MEMORY = range(7)
BAD: Final = (FAILED, CRASHED, TIMED_OUT, OUT_OF_MEMORY)
# For a case that was not bad in the base, and for a case that the base lacks.
_NEWLY: Final[dict[int, tuple[TransitionKind, TransitionKind]]] = {
    FAILED: ("newly_failing", "failing_added"),
    CRASHED: ("newly_crashed", "crashed_added"),
    TIMED_OUT: ("newly_timed_out", "timed_out_added"),
    OUT_OF_MEMORY: ("newly_out_of_memory", "out_of_memory_added"),
}


# In the order of a report.
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
    """The reason why the failure of a test does not count."""

    kind: Literal["quarantined", "ignored"]
    why: str


@dataclass(frozen=True, slots=True)
class CaseState:
    """The result of a case; the outcome is None in a file of durations, which has only times."""

    outcome: Outcome | None
    ending: Ending | None


@dataclass(frozen=True, slots=True)
class Transition:
    """A case whose result differs from that in the base, or must be reported.

    Attributes:
        before, after: None if the run does not have the case.
        shard: shard in the candidate; "" if the case is in no shard, or if it is unknown.
        renamed_from: name in the base, if it differs.
        past: earlier results of a failed case; None if there is no history.
        answer: origin of the failure; None for a case that did not fail.
        perhaps_was: a case of the base with a similar name, which may be this case.
        excuse: reason why a quarantined or ignored failure does not count.
    """

    kind: TransitionKind
    key: CaseKey
    shard: str
    before: CaseState | None
    after: CaseState | None
    message: str | None = None
    renamed_from: CaseKey | None = None
    past: Past | None = None
    answer: Answer | None = None
    excuse: str = ""
    perhaps_was: CaseKey | None = None

    @property
    def fails_on_both(self) -> bool:
        """Return whether the case fails in both runs, excused or not."""
        failed = self.before is not None and self.before.outcome in BAD_OUTCOMES
        return self.kind == "failing_on_both" or (bool(self.excuse) and failed)

    @property
    def first_line(self) -> str:
        """Return the first line of the message; "" without one."""
        return one_line(first_line(self.message or ""), NAME_WIDTH)


def statuses(run: Run) -> Statuses:
    return statuses_of(run.outcome, run.ending)


def statuses_of(outcome: Codes, ending: Codes) -> Statuses:
    statuses = np.full(len(outcome), GOOD, np.uint8)
    statuses[outcome == CODE["outcome"]["skipped"]] = SKIPPED
    statuses[ending > CODE["ending"]["completed"]] = INTERRUPTED
    for word in ("failed", "errored"):
        statuses[outcome == CODE["outcome"][word]] = FAILED
    died = outcome == CODE["outcome"]["died"]
    statuses[died & (ending <= CODE["ending"]["completed"])] = CRASHED
    for word, status in (
        ("crash", CRASHED),
        ("timeout", TIMED_OUT),
        ("out_of_memory", OUT_OF_MEMORY),
        ("memory_guard", OUT_OF_MEMORY),
    ):
        statuses[ending == CODE["ending"][word]] = status
    return statuses


def case_state(run: Run, position: int) -> CaseState:
    return CaseState(
        cast("Outcome | None", CODE_NAMES["outcome"][run.outcome[position]] or None),
        cast("Ending | None", CODE_NAMES["ending"][run.ending[position]] or None),
    )


class _Indexed:
    """A run with the statuses of its cases, indexed by case and by unit on demand."""

    def __init__(self, run: Run) -> None:
        self.run, self.statuses = run, statuses(run)

    @cached_property
    def index_by_key(self) -> dict[CaseKey, int]:
        return {key: position for position, key in enumerate(self.run.keys)}

    @cached_property
    def worst(self) -> dict[UnitKey, int]:
        """The position of each unit's worst case."""
        worst: dict[UnitKey, int] = {}
        for position, (key, status) in enumerate(
            zip(self.run.keys, self.statuses.tolist(), strict=True)
        ):
            unit = key.unit_key
            if unit not in worst or status > self.statuses[worst[unit]]:
                worst[unit] = position
        return worst

    def index_of(self, key: CaseKey) -> int | None:
        """Return the position of a case; of a unit's own case that of the unit's worst one."""
        index = self.index_by_key.get(key)
        return self.worst.get(key.unit_key) if index is None and key.case == key.unit else index

    def shard(self, position: int) -> str:
        return self.run.legs[self.run.leg[position]].name if self.run.legs else ""

    def is_leg_complete(self, position: int) -> bool:
        """Return whether the leg of a case ran all its tests, so that a missing one was removed.

        A focus or a filter excludes cases of a unit that ran.
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

    A unit that died has one result for all of its cases, and is compared with the worst of them.

    Args:
        shard_of: units of the candidate's plan, if it is known: a missing case is then removed, or
            no longer run if its unit is planned.
        lost: units without a result because their leg gave none; their tests are left out.
        names: cases that the base has under another name, by `match_renames`.

    Returns:
        by kind in the order of `KINDS`, then by key.
    """
    before, after = _Indexed(base), _Indexed(candidate)
    flaky = frozenset(candidate.flaky)
    changes = [
        *(
            case
            for case in _in_candidate(before, after, names)
            if case.kind != "added" or case.key not in flaky
        ),
        *_only_in_base(before, after, shard_of, names.old_keys),
        *_flaky(before, after, names.sure),
    ]
    return _in_order(
        case for case in changes if case.kind != "no_longer_run" or case.key.unit_key not in lost
    )


def _in_order(changes: Iterable[Transition]) -> tuple[Transition, ...]:
    return tuple(sorted(changes, key=lambda case: (KINDS.index(case.kind), case.key)))


def with_excuses(
    changes: Iterable[Transition], excused: Mapping[CaseKey, Excuse]
) -> tuple[Transition, ...]:
    """Return the transitions, with excused failures of the kind of their excuse."""
    return _in_order(
        replace(case, kind=excused[case.key].kind, excuse=excused[case.key].why)
        if case.key in excused and case.kind in EXCUSABLE
        else case
        for case in changes
    )


def quarantined(run: Run, entries: Sequence[Entry]) -> dict[CaseKey, Excuse]:
    """Return the bad cases of a run that are quarantined."""
    excuses = {}
    for position in np.flatnonzero(np.isin(statuses(run), BAD)).tolist() if entries else ():
        key = run.keys[position]
        entry = entry_of(entries, key.unit_key)
        if entry is not None:
            excuses[key] = Excuse("quarantined", entry.reason_text)
    return excuses


def _in_candidate(before: _Indexed, after: _Indexed, names: Renames) -> Iterator[Transition]:
    index = index_in(after.run, before.run)
    old_statuses = np.where(
        index >= 0, before.statuses[index] if len(before.statuses) else 0, INTERRUPTED
    )
    # Nearly all cases are good in both runs, and give no transition.
    for position in np.flatnonzero((old_statuses != GOOD) | (after.statuses != GOOD)).tolist():
        key, status = after.run.keys[position], int(after.statuses[position])
        was = names.sure.get(key)
        old = before.index_of(key if was is None else was)
        kind = _kind(None if old is None else int(before.statuses[old]), status)
        if kind == "added" and key in names.perhaps:
            kind, old = "renamed", before.index_of(names.perhaps[key])
        elif was is not None and kind is None:
            kind = "renamed"
        elif kind == "newly_skipped" and key in after.run.messages:
            kind = "newly_xfailed"  # of good cases, only expected failures have a message
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
        status = int(before.statuses[position])
        if new is not None:
            died = after.run.outcome[new] == CODE["outcome"]["died"]
            if died or key.case == key.unit:
                if key.case == key.unit and status in BAD and after.statuses[new] == GOOD:
                    states = case_state(before.run, position), case_state(after.run, new)
                    yield Transition("fixed", key, after.shard(new), *states)
                continue
        if status == INTERRUPTED:
            continue
        # Not the shard of the base: the candidate's plan may have moved the unit.
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


def with_answers(
    transitions: Sequence[Transition],
    run: Run,
    history: History | None,
    used: Sequence[int],
    bases: int,
) -> tuple[Transition, ...]:
    """Return the transitions, failures with their past and their origin.

    O(keys + rows of these cases).

    Args:
        run: the candidate.
        used: positions of the baseline's runs in the history.
        bases: number of given bases.
    """
    wanted = {case.renamed_from or case.key for case in transitions if case.kind in RATED_KINDS}
    units = {key.unit_key for key in wanted if key.case == key.unit}
    positions: dict[CaseKey, list[int]] = defaultdict(list)
    of_units: dict[UnitKey, list[int]] = defaultdict(list)
    for position, key in enumerate(history.keys if history is not None and used else ()):
        if key in wanted:
            positions[key].append(position)
        if key.unit_key in units:
            of_units[key.unit_key].append(position)

    def answered(case: Transition) -> Transition:
        if case.kind not in RATED_KINDS:
            return case
        key = case.renamed_from or case.key
        # A unit that died has one result, those before one for each case.
        rows = positions.get(key) or of_units.get(key.unit_key, [])
        past = past_of(history, rows, used) if history is not None and used else _past_of_base(case)
        if case.kind not in EXCUSABLE:
            return replace(case, past=past)
        tries, message = run.tries.get(case.key, ONE_TRY), case.message or ""
        answer = decide(tries, past, base_runs=len(used) or bases, message=message)
        return replace(case, past=past, answer=answer)

    return tuple(map(answered, transitions))


def _past_of_base(case: Transition) -> Past | None:
    """Return the past of a failure if only the base is known."""
    outcome = case.before.outcome if case.before is not None else None
    if case.kind not in EXCUSABLE:
        return None
    if outcome == "skipped":
        return Past(was_skipped=True)
    ended: dict[Outcome | None, tuple[PastEnding, ...]] = {"passed": ("passed",), None: ()}
    return Past(ended.get(outcome, ("failed",)))


def past_of(history: History, keys: Sequence[int], used: Sequence[int]) -> Past:
    """Return the past of these keys as one case: the worst result of each run counts."""
    values, edges = history.values, group_bounds(history.values.key, len(history.keys))
    worst: dict[int, int] = {}
    retried: set[int] = set()
    seen: set[int] = set()
    for key in keys:
        rows = slice(int(edges[key]), int(edges[key + 1]))
        found = statuses_of(values.outcome[rows], values.ending[rows]).tolist()
        seen |= set(values.run[rows].tolist())
        for run, status, number in zip(
            values.run[rows].tolist(), found, values.try_number[rows].tolist(), strict=True
        ):
            # A case that was skipped, or stopped with its leg, is neither good nor bad.
            if status == GOOD or status in BAD:
                worst[run] = max(status, worst.get(run, GOOD))
                retried |= {run} if number > 1 else set()
    runs = sorted(worst.keys() & set(used), reverse=True)
    ended: list[PastEnding] = [
        "failed" if worst[run] in BAD else "retried" if run in retried else "passed" for run in runs
    ]
    named = [PastRun(run.run_id, run.sha, run.at) for run in map(history.runs.__getitem__, runs)]
    past = Past(tuple(ended), was_skipped=not ended and not seen.isdisjoint(used))
    return replace(past, red_since=named[past.red_runs - 1]) if past.red_runs else past
