"""The records of legs (executions of a shard by a job), joined from files in any state. Pure.

A record is a folder of files: the leg's own file begins with a `shard` line, the file of a tested
process with a `defaults` line. Both lines name the leg. Programs that append to a file may be
killed, and their machines are not trusted, so a file may be cut at any byte: each malformed line
becomes an entry of `Record.damage`, and nothing is raised.

Results without a measured time get one (`fill_times`). A leg reads the output of its process every
40 ms: n results of one moment get an n-th each of the time since the moment before, so that the
times of a process add up to its life.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from codecs import BOM_UTF8
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ciguard.codec.record.fast_reader import FAST_READER_FROM_BYTES, reader
from ciguard.codec.record.lines import LineError, encode, refused_metric
from ciguard.codec.results.base import FILE, RESULTS_LEFT_OUT
from ciguard.codec.unpack_limits import UnpackBudget
from ciguard.model import (
    CaseKey,
    DefaultsLine,
    EndLine,
    EventLine,
    Line,
    MetricLine,
    PeakLine,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
)
from ciguard.model.probes import split_probes
from ciguard.model.standing import find_first_units

if TYPE_CHECKING:
    _Timed = ProcessLine | StartLine | Result | EventLine

MAX_DAMAGE: Final = 20  # lines named in a file, which may be full of garbage
# Of one run: a million units have three each. A line takes up to 306 bytes (a sample), so 2.4 GB.
MAX_LINES: Final = 8_000_000
_RESULT_FILE: Final = re.compile(r"(?:(.*)/)?results/(process-\d{3,}/.+)")
OWN_FILE: Final = "supervisor.jsonl"
_PROCESS_FILE: Final = re.compile(r"process-0*(\d+)(-\w+)?\.jsonl")

# (plan id, shard, run id, run attempt, folder): the folder is "" if any of the others is known.
_Identity = tuple[str, str, int | None, int | None, str]

RECEIVED: Final = "received"  # event: the leg received the result of a case

_CaseInProcess = tuple[int | None, CaseKey]


class _File(NamedTuple):
    """The lines of a file in blocks, each with the leg that a line above names (None: no leg)."""

    source: str
    folder: str
    blocks: list[tuple[_Identity | None, list[Line]]]
    legs: list[_Identity]
    damage: list[str]
    is_empty: bool


@dataclass(slots=True)
class _Budget:
    """The lines that may still be read, and the reader: the fast one if the files are large."""

    remaining_lines: int
    uses_fast_reader: bool


def read_records(
    files: Iterable[tuple[str, bytes]], results: Iterable[tuple[str, bytes]] = ()
) -> tuple[Record, ...]:
    """Join files into the records of the legs that wrote them.

    A line belongs to the leg of the last `shard` or `defaults` line above it in its file; without
    such a line above it, to the leg that `_owners` finds. A name of a file identifies no leg.

    Args:
        files: (path with "/" as separator, content), in any order.
        results: files of other programs in the folders `results` of records.

    Returns:
        Records sorted by identity, then source; lines in the order of sorted paths.
    """
    legs: dict[Any, _LegLines] = {}

    def leg_of(identity: _Identity | None, file: _File) -> _LegLines:
        # Lines without a leg become one record without a header for each folder.
        key = identity if identity is not None else file.folder
        return legs.setdefault(key, _LegLines(file.source, _partial_header(identity)))

    ordered = sorted(files)
    size = sum(len(content) for _, content in ordered)
    budget = _Budget(MAX_LINES, uses_fast_reader=size >= FAST_READER_FROM_BYTES)
    for file, owner in _owners([_read_file(path, content, budget) for path, content in ordered]):
        leg_of(owner, file).damage.extend(file.damage)
        leg_of(owner, file).empty_files.extend([file.source] * file.is_empty)
        for identity, lines in file.blocks:
            leg_lines = leg_of(identity or owner, file)
            leg_lines.parts.setdefault(file.source, []).extend(lines)
    result_files: dict[str, dict[str, bytes]] = {}
    for path, content in results:
        if (location := result_file_location(path)) is not None:
            result_files.setdefault(location[0], {})[location[1]] = content
    unpacking = UnpackBudget()
    records = [leg_lines.to_record(result_files, unpacking) for leg_lines in legs.values()]
    return tuple(sorted(_with_job_names(records), key=_by_identity))


def _decode_lines(
    source: str, content: bytes, damage: list[str], budget: _Budget
) -> Iterator[Line]:
    """Decode the lines of a file; a line that cannot be read is named in `damage`."""
    if not content:
        damage.append(f"{source}: empty")
    undecodable = unreadable = 0
    decode_line = reader(DefaultsLine(), is_large=budget.uses_fast_reader)
    # One by one: a file of line ends only would take 8 bytes a line in a list.
    lines = BytesIO(content)
    # Programs on Windows begin a file with a byte order mark.
    lines.seek(len(BOM_UTF8) * content.startswith(BOM_UTF8))
    allowed, number = budget.remaining_lines, 0
    for number, piece in enumerate(lines, 1):
        if number > allowed:
            budget.remaining_lines = 0
            damage.append(f"{source}:{number}: the records have more than {MAX_LINES:,} lines")
            return
        if piece.isspace():  # not decoded: an archive of blank lines unpacks to millions
            continue
        try:
            line = decode_line(piece)
        except LineError as error:
            if (metric := refused_metric(piece)) is not None:
                unreadable += 1
                if unreadable <= MAX_DAMAGE:
                    yield EventLine("unreadable_metric", detail=f"{source}:{number}: {metric}")
                continue
            undecodable += 1
            if undecodable <= MAX_DAMAGE:
                what = str(error) if piece.endswith(b"\n") else "cut"
                damage.append(f"{source}:{number}: {what}")
            continue
        kind = type(line)  # faster than isinstance for each of a million lines
        if kind is ShardLine or kind is DefaultsLine:
            defaults = line if isinstance(line, DefaultsLine) else DefaultsLine()
            decode_line = reader(defaults, is_large=budget.uses_fast_reader)
        if line is not None:
            yield line
    budget.remaining_lines = allowed - number
    if undecodable > MAX_DAMAGE:
        damage.append(f"{source}: {undecodable - MAX_DAMAGE} more lines that cannot be read")
    if unreadable > MAX_DAMAGE:
        detail = f"{source}: {unreadable - MAX_DAMAGE} more metrics without a value"
        yield EventLine("unreadable_metric", detail=detail)


def _identity(line: ShardLine | DefaultsLine, folder: str) -> _Identity:
    identity = (line.plan_id, line.shard, line.run_id, line.run_attempt)
    return (*identity, folder if identity == ("", "", None, None) else "")


def _read_file(source: str, content: bytes, budget: _Budget) -> _File:
    file = _File(source, source.rpartition("/")[0], [], [], [], not content)
    lines: list[Line] = []
    file.blocks.append((None, lines))
    for line in _decode_lines(source, content, file.damage, budget):
        kind = type(line)
        if kind is Result or kind is StartLine:  # nearly all lines
            lines.append(line)
            continue
        if isinstance(line, (ShardLine, DefaultsLine)):
            leg, lines = _identity(line, file.folder), []
            file.legs.append(leg)
            file.blocks.append((leg, lines))
        if not isinstance(line, DefaultsLine):
            lines.append(line)
    return file._replace(blocks=[block for block in file.blocks if block[1]])


def result_file_location(path: str) -> tuple[str, str] | None:
    """Split the path of a result file into the record's folder and the name; None for others."""
    match = _RESULT_FILE.fullmatch(path)
    return (match[1] or "", match[2]) if match else None


def _owners(files: list[_File]) -> Iterator[tuple[_File, _Identity | None]]:
    """Yield each file with the leg that owns its damage and its first lines, which name no leg.

    1. A file that names legs: the first of them.
    2. Otherwise, in a folder whose files name one leg: this leg. A file without a readable line
       must be of a process that this leg started, or be the leg's own file, which no other file is
       then.
    3. Otherwise, in a folder that names no leg: the only leg of all files, if the file has lines
       and no damage. Every other file has no owner: None.
    """
    in_folder: dict[str, set[_Identity]] = {}
    started: set[tuple[str, _Identity, int]] = set()
    for file in files:
        in_folder.setdefault(file.folder, set()).update(file.legs)
        for leg, lines in file.blocks:
            if leg is not None and ProcessLine in map(type, lines):
                numbers = [line.process for line in lines if isinstance(line, ProcessLine)]
                started.update((file.folder, leg, number) for number in numbers)
    all_legs = {leg for legs in in_folder.values() for leg in legs}
    blocks = [(file.folder, lines) for file in files for _, lines in file.blocks]
    with_shard_line = {folder for folder, lines in blocks if ShardLine in map(type, lines)}
    for file in files:
        folder_legs = in_folder[file.folder]
        owner: _Identity | None = None
        if file.legs:
            owner = file.legs[0]
        elif len(folder_legs) == 1:
            (leg,) = folder_legs
            named = _PROCESS_FILE.fullmatch(file.source.rpartition("/")[2])
            is_started = named is not None and (file.folder, leg, int(named[1])) in started
            has_own_name = file.source.endswith(f"/{OWN_FILE}")
            is_own_file = has_own_name and file.folder not in with_shard_line
            owner = leg if file.blocks or is_started or is_own_file else None
        elif not folder_legs and len(all_legs) == 1 and file.blocks and not file.damage:
            (owner,) = all_legs
        yield file, owner


@dataclass(slots=True)
class _LegLines:
    """The lines of a leg while its files are read.

    Attributes:
        partial_header: the leg as its `defaults` lines name it, if its shard line is missing.
        parts: lines by file.
    """

    source: str
    partial_header: ShardLine | None = None
    parts: dict[str, list[Line]] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)
    empty_files: list[str] = field(default_factory=list)

    def to_record(
        self, results: Mapping[str, Mapping[str, bytes]], unpacking: UnpackBudget
    ) -> Record:
        """Join the lines to a record; `results` are result files by record folder and name."""
        by_kind: dict[Any, list[Any]] = defaultdict(list)
        own, probes = split_probes(list(self.parts.values()))
        self.parts = dict(zip(self.parts, own, strict=True))
        self.damage.extend(chain(*map(_lines_after_end, self.parts, own)))
        copies = [source for source, lines in self.parts.items() if ShardLine in map(type, lines)]
        for line in _deduplicate(self.parts) if len(copies) > 1 else chain(*self.parts.values()):
            by_kind[type(line)].append(line)
        headers = by_kind[ShardLine]
        if len(set(map(repr, headers))) > 1:
            self.damage.append(f"{self.source}: {len(headers)} shard lines that differ")
        if len(copies) > 1:
            self.damage.extend(_contradictions(self.parts))
        if any(map(_has_restart, self.parts.values())):
            self.damage.extend(_restarted_units(self.parts))
        end, extra_ends = _end_of(by_kind[EndLine], by_kind[EventLine])
        if extra_ends:
            self.damage.append(f"{self.source}: {extra_ends + 1} end lines that differ")
        record = Record(
            source=self.source,
            header=headers[0] if headers else None,
            processes=tuple(by_kind[ProcessLine]),
            starts=tuple(by_kind[StartLine]),
            results=fill_peaks(by_kind[Result], by_kind[PeakLine]),
            samples=tuple(by_kind[SampleLine]),
            metrics=tuple(by_kind[MetricLine]),
            # Only the leg needs the events of cases, one for each result.
            events=tuple(event for event in by_kind[EventLine] if event.kind not in _OF_CASES),
            process_ends=tuple(by_kind[ProcessEndLine]),
            end=end,
            damage=tuple(self.damage),
            empty_files=tuple(self.empty_files),
            copies=tuple(copies) if len(copies) > 1 else (),
            partial_header=None if headers else self.partial_header,
            first_units=find_first_units(self.parts.values()),
            probes=tuple(probes),
        )
        files: dict[str, bytes] = {}
        for folder in {source.rpartition("/")[0]: None for source in self.parts}:
            files = {**results.get(folder, {}), **files}
        record = fill_times(record)
        if not any(event.kind in (FILE, RESULTS_LEFT_OUT) for event in record.events):
            return record
        # Imported here: joining needs numpy, and few records have such files.
        from ciguard.codec.results.attach import attach_result_files  # noqa: PLC0415

        return attach_result_files(record, files, unpacking)


_OF_CASES: Final = frozenset({"case_start", "case_end"})


def _deduplicate(parts: dict[str, list[Line]]) -> Iterator[Line]:
    """Yield the lines of a leg whose files are copies of each other: a line of the first file only.

    A line that is twice in this file is yielded twice. `lines_read` is not compared: a copy has
    none. The shard lines of all files are yielded.
    """
    first: dict[Any, str] = {}
    for source, lines in parts.items():
        for line in lines:
            bare = (
                replace(line, lines_read={}) if isinstance(line, (EventLine, ProcessLine)) else line
            )
            fact = bare if isinstance(bare, (Result, StartLine)) else encode(bare)
            if first.setdefault(fact, source) == source or isinstance(line, ShardLine):
                yield line


def _end_of(ends: list[EndLine], events: list[EventLine]) -> tuple[EndLine | None, int]:
    """Return the end of a leg's last step, the worst of several, and the number of other ends.

    A step that continues another one writes an event `resumed` with the last moment of the previous
    steps; the leg's clock continues through all steps.
    """
    resumed = (event for event in events if event.kind == "resumed")
    began_s = max((event.at_s or 0.0 for event in resumed), default=-1.0)
    last = {repr(end): end for end in ends if (end.at_s or 0.0) > began_s}
    worst = max(
        last.values(),
        key=lambda end: (end.ending != "completed", end.exit_code not in (0, None), end.at_s or 0),
        default=None,
    )
    return worst, max(0, len(last) - 1)


def _lines_after_end(source: str, lines: list[Line]) -> Iterator[str]:
    """Yield the damage of lines after the end line, which must be the last line of its file."""
    kinds = list(map(type, lines))
    extra_lines = len(lines) - 1 - kinds.index(EndLine) if EndLine in kinds else 0
    if extra_lines:
        yield f"{source}: {extra_lines:,} line{'s' * (extra_lines != 1)} after the end of the shard"


def _has_restart(lines: list[Line]) -> bool:
    """Return whether a unit begins after a result of its name, which is rare."""
    reported = set()
    for line in lines:
        kind = type(line)
        if kind is Result:
            reported.add(line.unit)  # type: ignore[union-attr]
        elif kind is StartLine and line.unit in reported:  # type: ignore[union-attr]
            return True
    return False


def _restarted_units(parts: dict[str, list[Line]]) -> Iterator[str]:
    """Yield for each file the first unit that began after its result, and had no further result.

    A unit in which its process died is none: the leg's own file has its result `died`.
    """
    died = {
        (line.process, line.suite, line.variant, line.unit)
        for lines in parts.values()
        for line in lines
        if isinstance(line, Result) and line.outcome == "died"
    }
    for source, lines in parts.items():
        reported = set()
        restarted: dict[tuple[int | None, str, str, str], None] = {}
        for line in lines:
            if isinstance(line, Result):
                key = (line.process, line.suite, line.variant, line.unit)
                reported.add(key)
                restarted.pop(key, None)
            elif isinstance(line, StartLine) and not (line.received or line.assumed):
                key = (line.process, line.suite, line.variant, line.unit)
                if key in reported:
                    restarted[key] = None
        unfinished = [key for key in restarted if key not in died]
        if unfinished:
            what = f"{unfinished[0][3]!r:.200} begins again after its result, and has no second one"
            yield f"{source}: {what}"


def _contradictions(parts: dict[str, list[Line]]) -> Iterator[str]:
    """Yield, for each pair of files, the first try of a case with different outcomes in them."""
    first: dict[tuple[CaseKey, int | None, int], tuple[str, set[str]]] = {}
    reported = set()
    for source, lines in parts.items():
        tries: dict[tuple[CaseKey, int | None, int], set[str]] = defaultdict(set)
        for line in lines:
            if isinstance(line, Result):
                tries[line.key, line.process, line.try_number].add(line.outcome)
        for key, outcomes in tries.items():
            other, other_outcomes = first.setdefault(key, (source, outcomes))
            if other_outcomes != outcomes and (other, source) not in reported:
                reported.add((other, source))
                texts = ["/".join(sorted(words)) for words in (other_outcomes, outcomes)]
                what = f"{key[0].unit!r:.200} {texts[0]} in the one, {texts[1]} in the other"
                yield f"{other} and {source} contradict each other: {what}"


def _partial_header(identity: _Identity | None) -> ShardLine | None:
    """Return a shard line with the facts of other lines; None if they name no leg of a plan."""
    if identity is None or not identity[0]:
        return None
    plan_id, shard, run_id, run_attempt, _ = identity
    return ShardLine(plan_id, shard, run_id=run_id, run_attempt=run_attempt)


def _with_job_names(records: Sequence[Record]) -> Iterator[Record]:
    """Yield the records; a leg without a shard line gets a job name like a leg of its run."""
    headers: dict[tuple[str, int | None, str], ShardLine] = {}
    for header in (record.header for record in records):
        if header is not None and header.job and header.shard:
            for shard in (header.shard, ""):
                headers.setdefault((header.plan_id, header.run_id, shard), header)
    for record in records:
        named, partial = record, record.partial_header
        if partial is not None:
            run = (partial.plan_id, partial.run_id)
            other = headers.get((*run, partial.shard)) or headers.get((*run, ""))
            if other is not None and other.job is not None:
                job = other.job.replace(other.shard, partial.shard)
                named = replace(record, partial_header=replace(partial, job=job))
        yield named


def _by_identity(record: Record) -> tuple[str, str, int, int, str]:
    header = record.identity
    return (
        header.plan_id,
        header.shard,
        header.run_id or 0,
        header.run_attempt or 0,
        record.source,
    )


def fill_times(record: Record) -> Record:
    """Fill `at_s` and `wall_s` of results that have neither; measured times do not change."""
    times = _times(record)
    results = (_with_times(result, times) for result in record.results)
    return replace(record, results=tuple(results)) if times else record


def _case_in_process(event: EventLine) -> _CaseInProcess:
    unit = event.unit or ""
    return event.process, CaseKey(event.suite, event.variant, unit, event.detail or unit)


def _times(record: Record) -> Mapping[_CaseInProcess, deque[tuple[float, float]]]:
    """Return (moment, wall time) of each time a result of a case was received, in order."""
    events = record.events
    received = [event for event in events if event.kind == RECEIVED and event.at_s is not None]
    process_times = _process_times(record, received) if received else {}
    simultaneous: dict[tuple[int | None, float], set[_CaseInProcess]] = defaultdict(set)
    for event in received:
        simultaneous[event.process, event.at_s or 0.0].add(_case_in_process(event))
    times: dict[_CaseInProcess, deque[tuple[float, float]]] = defaultdict(deque)
    for event in received:
        at_s = event.at_s or 0.0
        moments = process_times[event.process]
        index = bisect_left(moments, at_s)
        before_s = moments[index - 1] if index else 0.0
        share_s = (at_s - before_s) / len(simultaneous[event.process, at_s])
        times[_case_in_process(event)].append((at_s, round(share_s, 6)))
    return times


def _process_times(
    record: Record, received: Sequence[EventLine]
) -> Mapping[int | None, list[float]]:
    """Return the moments of each process, ascending: of its start, and of starts and results."""
    moments: dict[int | None, set[float]] = defaultdict(set)
    lines: Iterable[_Timed] = chain(record.processes, record.starts, record.results, received)
    for line in lines:
        if line.at_s is not None:
            moments[line.process].add(line.at_s)
    return {process: sorted(moments) for process, moments in moments.items()}


def _with_times(
    result: Result, times: Mapping[_CaseInProcess, deque[tuple[float, float]]]
) -> Result:
    if result.at_s is not None or result.wall_s is not None:
        return result
    remaining = times.get((result.process, result.key))
    if not remaining:
        return result
    at_s, wall_s = remaining.popleft()
    return replace(result, at_s=at_s, wall_s=wall_s)


def fill_peaks(results: Sequence[Result], peaks: Sequence[PeakLine]) -> tuple[Result, ...]:
    """Give each result the next peak line of its case and process.

    A result that measured its own peak takes only the lower bound, of its child processes.
    """
    remaining: dict[tuple[int | None, CaseKey], deque[PeakLine]] = defaultdict(deque)
    for peak in peaks:
        key = CaseKey(peak.suite, peak.variant, peak.unit, peak.case or peak.unit)
        remaining[peak.process, key].append(peak)
    return tuple(_with_peak(result, remaining) for result in results) if peaks else tuple(results)


def _with_peak(
    result: Result, remaining: dict[tuple[int | None, CaseKey], deque[PeakLine]]
) -> Result:
    bounds = (result.peak_lower_bytes, result.peak_upper_bytes)
    lines = remaining.get((result.process, result.key))
    if not lines or result.outcome == "died" or any(size is not None for size in bounds):
        return result
    if result.peak_bytes is not None:
        return replace(result, peak_lower_bytes=lines.popleft().peak_lower_bytes)
    peak = lines.popleft()
    return replace(
        result,
        rss_before_bytes=peak.rss_before_bytes,
        peak_lower_bytes=peak.peak_lower_bytes,
        peak_upper_bytes=peak.peak_upper_bytes,
        concurrent=result.concurrent or peak.concurrent,
    )
