"""Reads the records of legs that began a shard, so that another goes on where they stopped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Iterator, Sequence, Union

from ciguard.codec.record.lines import LineError, decode, encode
from ciguard.errors import InputError
from ciguard.model import DefaultsLine, ShardLine
from ciguard.run.resume import PriorLeg, PriorLegs, last_one_ended, merge_legs

if TYPE_CHECKING:
    from typing import List, Tuple

    from ciguard.model import Line

PRIOR_LEGS_FILE: Final = "earlier.jsonl"


def read_prior_legs(
    folders: Sequence[str],
    head: ShardLine,
    *,
    continues_attempt: bool,
    unless_ended: bool = False,
    tries: int = 1,
) -> tuple[PriorLegs, ShardLine]:
    """What earlier legs of this shard left below some folders, and the shard line of the next.

    A leg of the same run and attempt goes on under the same shard line: it is one leg, in parts.

    Args:
        head: the shard line of the leg that is to run.
        continues_attempt: there has to be such a part.
        unless_ended: nothing is taken from earlier attempts of which the last ended by itself.
        tries: executions that the plan gives a unit that fails.

    Raises:
        InputError: a record is of another plan, run or commit, or cannot be read; or
            `continues_attempt`, and nothing is there.
    """
    legs = [leg for folder in folders for leg in _read_legs(folder, head)]
    same = [leg for leg in legs if leg.header.run_attempt == head.run_attempt]
    if continues_attempt and not same:
        what = f"no record of shard {head.shard} of this attempt"
        fix = "pass the --record folder of the earlier step"
        raise InputError(what, where=", ".join(folders), fix=fix)
    taken = same if continues_attempt or (unless_ended and last_one_ended(legs)) else legs
    found = merge_legs(taken, tries)
    ours = [leg.header for leg in same if leg.header.run_id == head.run_id]
    known = [header for header in ours if header.started_at]
    return found, (known[-1] if known else head)


def write_prior_legs(prior: PriorLegs, head: ShardLine, folder: str) -> None:
    """Lay all that is kept of them into the new record: it is whole without the old ones.

    Raises:
        InputError: it cannot be written.
    """
    place = os.path.join(folder, PRIOR_LEGS_FILE)
    owner = DefaultsLine(head.plan_id, head.shard, head.run_id, head.run_attempt)
    try:
        with open(place, "wb") as stream:
            stream.writelines(encode(line) for line in (owner, *prior.lines))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise InputError(what, where=place, fix="free some space for the record") from error


def _read_legs(folder: str, head: ShardLine) -> Iterator[PriorLeg]:
    """The legs of this shard below a folder; a record's files lie in one folder, and no others.

    Raises:
        InputError: as of `read_prior_legs`; or a folder has files of several records.
    """
    for place, folders, names in os.walk(folder):
        folders.sort()
        files = {}
        for name in sorted(names):
            path = os.path.join(place, name)
            if name.endswith(".jsonl") and not os.path.islink(path):
                files[path] = _lines(path)
        owners = [
            (line, path)
            for path, lines in files.items()
            for line in lines
            if isinstance(line, (ShardLine, DefaultsLine))
        ]
        for line, path in owners:
            _check(line, head, path)
        if len({(line.shard, line.run_attempt) for line, _ in owners}) > 1:
            fix = "download each artifact into a folder of its own"
            raise InputError("has files of several records", where=place, fix=fix)
        if owners and owners[0][0].shard == head.shard:
            yield PriorLeg(_header([line for line, _ in owners]), files, place)


def _lines(path: str) -> List[Line]:
    """What of a file can be read: its leg may have been killed at any byte."""
    found: List[Line] = []
    defaults = DefaultsLine()
    try:
        with open(path, "rb") as stream:
            for content in stream:
                try:
                    line = decode(content.rstrip(b"\n"), defaults)
                except LineError:
                    continue
                if isinstance(line, (ShardLine, DefaultsLine)):
                    defaults = line if isinstance(line, DefaultsLine) else DefaultsLine()
                if line is not None:
                    found.append(line)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from error
    return found


def _header(owners: Sequence[Union[ShardLine, DefaultsLine]]) -> ShardLine:
    """The shard line of a record; where that is lost, what its other files say."""
    for line in owners:
        if isinstance(line, ShardLine):
            return line
    line = owners[0]
    return ShardLine(line.plan_id, line.shard, run_id=line.run_id, run_attempt=line.run_attempt)


def _check(line: Union[ShardLine, DefaultsLine], head: ShardLine, path: str) -> None:
    """Refuse what is not of this plan, run and commit.

    Raises:
        InputError: naming both.
    """
    theirs: List[Tuple[str, object, object]] = [("plan", line.plan_id, head.plan_id)]
    if line.run_id and head.run_id:
        theirs.append(("run", line.run_id, head.run_id))
    if isinstance(line, ShardLine) and line.tested_sha and head.tested_sha:
        theirs.append(("commit", line.tested_sha, head.tested_sha))
    for word, their, our in theirs:
        if their != our:
            fix = "pass a folder with records of this plan's run only"
            raise InputError(f"is of {word} {their or 'none'}, not {our}", where=path, fix=fix)
