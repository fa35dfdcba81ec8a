"""The results of a run as rows: one for the final result of each case, and for each missing unit.

`model/attempts.py` decides which result of a record is final, and the guard which records of a run
count. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

from ciguard.model import ENDINGS, Record, UnitKey
from ciguard.model.attempts import STATUSES, UnitResult, classify_result, record_units
from ciguard.serve.state.run_key import RunKey

# The worst last, so that the worst of several results has the greatest code. A planned unit
# without any result is missing. Files hold the codes: new words are added at the end.
OUTCOMES: Final = ("skipped", "passed", "failed", "errored", "died", "missing")
OUTCOME_CODES: Final = {word: code for code, word in enumerate(OUTCOMES)}
ENDING_CODES: Final = {word: code for code, word in enumerate(ENDINGS)}
STATUS_CODES: Final = {word: code for code, word in enumerate(STATUSES)}
MAX_TRIES: Final = 255
MESSAGE_CHARACTERS: Final = 4096


class ResultRow(NamedTuple):
    """The result of one case in one run.

    `case` is None if the case is the unit, a measure if not measured. `message` is that of the last
    failure, also of a flaky test. `tries` counts failed tries and the final try.
    """

    suite: str
    variant: str
    unit: str
    case: str | None
    shard: str
    outcome: int
    ending: int
    status: int
    tries: int = 1
    wall_s: float | None = None
    cpu_s: float | None = None
    peak_bytes: float | None = None
    peak_delta_bytes: float | None = None
    message: str | None = None


@dataclass(frozen=True)
class RunResults:
    """All rows of one run attempt; `at_ms` is its start."""

    key: RunKey
    at_ms: int
    rows: Sequence[ResultRow]

    @cached_property
    def digest(self) -> str:
        """Return 32 characters that identify these rows in any order; 3 us a row."""
        content = "\n".join((str(self.at_ms), *sorted(map(repr, self.rows))))
        return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def hash_unit(repository_id: int, suite: str, variant: str, unit: str) -> int:
    """Return a test's signed 64-bit key, by which its rows are sorted.

    The key is the first 8 bytes, little-endian, of BLAKE2b over the parts, each after its length,
    so that different parts give different texts. Two of a million tests share a key in one of
    4 * 10^7 installations; queries compare the names as well.
    """
    (key,) = hash_units([(repository_id, suite, variant, unit)])
    return key


def hash_units(tests: Iterable[tuple[int, str, str, str]]) -> list[int]:
    """Return the keys of tests, as `hash_unit`; 1 us each."""
    prefixes: dict[tuple[int, str, str], bytes] = {}
    digests = []
    for repository_id, suite, variant, unit in tests:
        name = repository_id, suite, variant
        prefix = prefixes.get(name)
        if prefix is None:
            prefix = prefixes[name] = b"".join(map(_sized, (str(repository_id), suite, variant)))
        text = unit.encode("utf-8", "surrogatepass")
        digests.append(blake2b(b"%b%d:%b" % (prefix, len(text), text), digest_size=8).digest())
    return list(struct.unpack(f"<{len(digests)}q", b"".join(digests)))


def hash_message(repository_id: int, message: str) -> int:
    """Return a message's key, like a test's; a text of two repositories is two messages."""
    text = _sized(str(repository_id)) + _sized(message)
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


def run_results(
    key: RunKey,
    at_ms: int,
    records: Mapping[str, Record],
    missing: Iterable[tuple[UnitKey, str]] = (),
) -> RunResults:
    """Make the rows of a run. Of the results of a case in several shards, the worst counts.

    Args:
        records: records that count, by shard, as the guard selects them.
        missing: planned units without a final result, each with its shard.
    """
    without_result = dict(missing)
    rows_by_unit: dict[UnitKey, list[ResultRow]] = {}
    for shard, record in records.items():
        for key_of_unit, unit in record_units(record).items():
            is_unfinished = not unit.is_over or key_of_unit in without_result
            rows = _rows(shard, unit, is_unfinished=is_unfinished)
            known = rows_by_unit.setdefault(key_of_unit, rows)
            if known is not rows:
                rows_by_unit[key_of_unit] = _worst_by_case([*known, *rows])
    codes = OUTCOME_CODES["missing"], ENDING_CODES["unknown"], STATUS_CODES["unfinished"]
    absent = [
        ResultRow(*unit, None, shard, *codes)
        for unit, shard in without_result.items()
        if unit not in rows_by_unit
    ]
    return RunResults(key, at_ms, (*chain.from_iterable(rows_by_unit.values()), *absent))


def _rows(shard: str, unit: UnitResult, *, is_unfinished: bool) -> list[ResultRow]:
    failed_attempts = unit.count_failed_attempts() if unit.failures else {}
    rows = []
    for result in unit.cases:
        status = classify_result(result)
        message = result.message
        if unit.failures and status == "good":
            own = [it.message for it in unit.failures if it.key == result.key and it.message]
            message = own[-1] if own else message
        rows.append(
            ResultRow(
                result.suite,
                result.variant,
                result.unit,
                None if result.case in ("", result.unit) else result.case,
                shard,
                OUTCOME_CODES[result.outcome],
                ENDING_CODES[result.ending],
                STATUS_CODES["unfinished" if is_unfinished else status],
                min(1 + failed_attempts.get(result.key, 0), MAX_TRIES) if failed_attempts else 1,
                result.wall_s,
                result.cpu_s,
                result.peak_bytes,
                result.peak_delta_bytes,
                message[:MESSAGE_CHARACTERS] if message else None,
            )
        )
    return rows


def _worst_by_case(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Select the worst row of each case of a unit among several shards, the first of equals."""
    # The rank is that of `model.attempts.severity`, by codes; an unfinished unit is the worst.
    severity = attrgetter("status", "outcome", "ending")
    worst: dict[str | None, ResultRow] = {}
    for row in rows:
        known = worst.setdefault(row.case, row)
        if severity(known) < severity(row):
            worst[row.case] = row
    return list(worst.values())


def _sized(text: str) -> bytes:
    """Return a text after its length in bytes."""
    encoded = text.encode("utf-8", "surrogatepass")
    return b"%d:%b" % (len(encoded), encoded)
