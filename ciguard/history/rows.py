"""Which rows of a history survive: one a key and run, the last 20 a key. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ciguard.history.file import (
    CODE_NAMES,
    MEASURES,
    VALUES_PER_KEY,
    Values,
    is_unmeasured,
    of_columns,
)
from ciguard.model import ENDINGS, OUTCOMES, Result
from ciguard.model.attempts import severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ciguard.history.query import Flags, Positions
    from ciguard.history.runs import HistoryRun


def _ranks() -> Positions:
    """The severity of a result by the codes of its outcome and ending; not told is the least."""
    words = [Result("", outcome, ending=ending) for outcome in OUTCOMES for ending in ENDINGS]
    table = np.zeros([len(CODE_NAMES[name]) for name in ("outcome", "ending")], np.int64)
    for rank, one in enumerate(sorted(words, key=severity), 1):
        table[CODE_NAMES["outcome"].index(one.outcome), CODE_NAMES["ending"].index(one.ending)] = (
            rank
        )
    table[:, 0] = table[:, CODE_NAMES["ending"].index("completed")]
    return table


_RANK: Final = _ranks()


def rows(values: Values, chosen: Positions | Flags) -> Values:
    """The chosen rows; a column of nothing stays in no memory."""
    return of_columns({name: column[chosen] for name, column in _measured_columns(values).items()})


def _measured_columns(values: Values) -> dict[str, NDArray[Any]]:
    """The columns that hold something."""
    columns = values.columns()
    return {
        name: column
        for name, column in columns.items()
        if name not in MEASURES or not is_unmeasured(column)
    }


def concatenate(a: Values, b: Values) -> Values:
    filled = _measured_columns(a).keys() | _measured_columns(b).keys()
    return of_columns(
        {name: np.concatenate((getattr(a, name), getattr(b, name))) for name in sorted(filled)}
    )


def _sort_key(values: Values) -> Positions:
    """One number a key and run, ordered as they are."""
    return values.key.astype(np.int64) << 32 | values.run


def deduplicate(values: Values, runs: Sequence[HistoryRun]) -> Values:
    """Sorted rows, one a key and run: of several the newest attempt of the run, then the worst.

    Each leg's own rows are final results; several of a key and run are of several legs.

    Linear where both sides are sorted (the stable sort finds ascending runs); the full order of
    `_precedence` is worked out only for places that are claimed twice.
    """
    place = _sort_key(values)
    order = np.argsort(place, kind="stable")
    place = place[order]
    twice = place[1:] == place[:-1]
    if twice.any():
        claimed = np.append(twice, False) | np.append(False, twice)
        order[claimed] = order[claimed][_precedence(rows(values, order[claimed]), runs)]
        order = order[np.append(~twice, True)]
    ascending = len(order) == len(values) and bool((np.diff(order) > 0).all())
    return values if ascending else rows(values, order)


def _precedence(values: Values, runs: Sequence[HistoryRun]) -> Positions:
    """Positions that sort the rows so that the last of each place is the one to keep."""
    attempts = [{at: leg.run_attempt for at, leg in enumerate(run.legs)} for run in runs]
    pairs = zip(values.run.tolist(), values.leg.tolist(), strict=True)
    attempt = np.array([attempts[run][leg] for run, leg in pairs])
    measures = [np.nan_to_num(getattr(values, name), nan=-np.inf) for name in MEASURES]
    codes = [values.leg, values.ending, values.measured_by, values.try_number]
    rank = _RANK[values.outcome, values.ending]
    return np.lexsort((*measures, *codes, rank, attempt, _sort_key(values)))


def newest_per_key(values: Values, keys: int) -> Values:
    """The last `VALUES_PER_KEY` rows of each key."""
    counts = np.bincount(values.key, minlength=keys)
    if not counts.size or int(counts.max()) <= VALUES_PER_KEY:
        return values
    age = np.repeat(np.cumsum(counts), counts) - 1 - np.arange(len(values))
    return rows(values, age < VALUES_PER_KEY)
