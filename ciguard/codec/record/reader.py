"""The records of legs, gathered from files that arrived in any order and state. Pure.

A record is appended to by programs that get killed, and comes from machines nobody trusts, so a
file may be cut at any byte: every line that is not what it should be becomes one entry of
`Record.damage`, and nothing is raised. A leg looks every 40 ms, and hears of several results at
once where they are shorter: those share the time since what it had heard before, so that a
process's times add up to its life.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from codecs import BOM_UTF8
from collections import defaultdict, deque
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    _Timed = ProcessLine | StartLine | Result | EventLine

MAX_DAMAGE: Final = 20  # places named in one file; a file of garbage is one finding, not a million
# Of one run: a million units have three each. A line takes up to 306 bytes (a sample), so 2.4 GB.
MAX_LINES: Final = 8_000_000
_RESULT_FILE: Final = re.compile(r"(?:(.*)/)?results/(process-\d{3,}/.+)")
OWN_FILE: Final = "supervisor.jsonl"
_PROCESS_FILE: Final = re.compile(r"process-0*(\d+)(-\w+)?\.jsonl")

# (plan id, shard, run id, run attempt, folder); the folder only where a leg knew nothing else.
_Identity = tuple[str, str, int | None, int | None, str]

RECEIVED: Final = "received"  # the kind of event

_CaseInProcess = tuple[int | None, CaseKey]  # a case in a process


class _File(NamedTuple):
    """A file's lines, together as far as one leg was named above them (None: no leg yet)."""

    source: str
    folder: str
    blocks: list[tuple[_Identity | None, list[Line]]]
    legs: list[_Identity]
    damage: list[str]
    is_empty: bool


@dataclass(slots=True)
class _Budget:
    """How many lines may still be read, and whether that is much."""

    remaining_lines: int
    uses_fast_reader: bool


def _decode_lines(
    source: str, content: bytes, damage: list[str], budget: _Budget
) -> Iterator[Line]:
    """Decode a file; what cannot be read is named in `damage`, and reading goes on behind it."""
    if not content:
        damage.append(f"{source}: empty")
    undecodable = unreadable = 0
    read = reader(DefaultsLine(), is_large=budget.uses_fast_reader)
    # One by one: a file of nothing but line ends would take 8 bytes a line in a list.
    lines = BytesIO(content)
    # Programs on Windows begin a file with a byte order mark; the first line says whose it is.
    lines.seek(len(BOM_UTF8) * content.startswith(BOM_UTF8))
    allowed, number = budget.remaining_lines, 0
    for number, piece in enumerate(lines, 1):
        if number > allowed:
            budget.remaining_lines = 0
            damage.append(f"{source}:{number}: the records have more than {MAX_LINES:,} lines")
            return
        if piece.isspace():  # before `read`: an archive of nothing else unpacks to millions
            continue
        try:
            line = read(piece)
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
        kind = type(line)  # a call of isinstance for each of a million lines takes longer
        if kind is ShardLine or kind is DefaultsLine:
            defaults = line if isinstance(line, DefaultsLine) else DefaultsLine()
            read = reader(defaults, is_large=budget.uses_fast_reader)
        if line is not None:
            yield line
    budget.remaining_lines = allowed - number
    if undecodable > MAX_DAMAGE:
        damage.append(f"{source}: {undecodable - MAX_DAMAGE} more lines that cannot be read")
    if unreadable > MAX_DAMAGE:
        detail = f"{source}: {unreadable - MAX_DAMAGE} more metrics without a value"
        yield EventLine("unreadable_metric", detail=detail)


def _identity(line: ShardLine | DefaultsLine, folder: str) -> _Identity:
    named = (line.plan_id, line.shard, line.run_id, line.run_attempt)
    return (*named, folder if named == ("", "", None, None) else "")


def _read_file(source: str, content: bytes, budget: _Budget) -> _File:
    file = _File(source, source.rpartition("/")[0], [], [], [], not content)
    lines: list[Line] = []
    file.blocks.append((None, lines))
    for line in _decode_lines(source, content, file.damage, budget):
        kind = type(line)
        if kind is Result or kind is StartLine:  # nearly all
            lines.append(line)
            continue
        if isinstance(line, (ShardLine, DefaultsLine)):
            leg, lines = _identity(line, file.folder), []
            file.legs.append(leg)
            file.blocks.append((leg, lines))
        if not isinstance(line, DefaultsLine):
            lines.append(line)
    return file._replace(blocks=[block for block in file.blocks if block[1]])


def _process_of(file: _File) -> int | None:
    """The process that a file is named after; None where it is named after none."""
    found = _PROCESS_FILE.fullmatch(file.source.rpartition("/")[2])
    return int(found[1]) if found else None


def result_file_location(path: str) -> tuple[str, str] | None:
    """A record's folder, and the name in its `results`, of a path that lies there; else None."""
    found = _RESULT_FILE.fullmatch(path)
    return (found[1] or "", found[2]) if found else None


def _owners(files: list[_File]) -> Iterator[tuple[_File, _Identity | None]]:
    """Say for each file whose its unnamed lines and its damage are.

    The first leg that the file names; else the only one that its folder names; else, for whole
    lines alone, the only one named at all; else nobody's. A file without any line that can be read
    is nobody's either, unless the only leg of its folder says that it started that process, or has
    nothing else that could be its own file.
    """
    in_folder: dict[str, set[_Identity]] = {}
    started: set[tuple[str, _Identity, int]] = set()
    for file in files:
        in_folder.setdefault(file.folder, set()).update(file.legs)
        for leg, lines in file.blocks:
            if leg is not None and ProcessLine in map(type, lines):
                numbers = [line.process for line in lines if isinstance(line, ProcessLine)]
                started.update((file.folder, leg, number) for number in numbers)
    everywhere = {leg for legs in in_folder.values() for leg in legs}
    headed = {file.folder for file in files if any(map(_has_header, file.blocks))}
    for file in files:
        near = in_folder[file.folder]
        owner: _Identity | None = None
        if file.legs:
            owner = file.legs[0]
        elif len(near) == 1:
            (leg,) = near
            process = _process_of(file)
            announced = process is not None and (file.folder, leg, process) in started
            own = file.source.endswith(f"/{OWN_FILE}") and file.folder not in headed
            owner = leg if file.blocks or announced or own else None
        elif not near and len(everywhere) == 1 and file.blocks and not file.damage:
            (owner,) = everywhere
        yield file, owner


def _has_header(block: tuple[_Identity | None, list[Line]]) -> bool:
    return ShardLine in map(type, block[1])


@dataclass(slots=True)
class _LegLines:
    """The lines of one leg while its files are read, by file; `claims` is who those say it is."""

    source: str
    partial_header: ShardLine | None = None
    parts: dict[str, list[Line]] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)
    empty_files: list[str] = field(default_factory=list)

    def to_record(
        self, results: Mapping[str, Mapping[str, bytes]], unpacking: UnpackBudget
    ) -> Record:
        """Join the lines; `results` are the result files by the record's folder and their name."""
        by_kind: dict[Any, list[Any]] = {kind: [] for kind in _KINDS}
        copies = [source for source, lines in self.parts.items() if ShardLine in map(type, lines)]
        for line in _deduplicated(self.parts) if len(copies) > 1 else chain(*self.parts.values()):
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
            # The leg alone needs to know which case began: there is one for each result.
            events=tuple(one for one in by_kind[EventLine] if one.kind not in _OF_CASES),
            process_ends=tuple(by_kind[ProcessEndLine]),
            end=end,
            damage=tuple(self.damage),
            empty_files=tuple(self.empty_files),
            copies=tuple(copies) if len(copies) > 1 else (),
            partial_header=None if headers else self.partial_header,
        )
        own: dict[str, bytes] = {}
        for folder in {source.rpartition("/")[0]: None for source in self.parts}:
            own = {**results.get(folder, {}), **own}
        record = fill_times(record)
        if not any(event.kind in (FILE, RESULTS_LEFT_OUT) for event in record.events):
            return record
        # Imported here: joining needs numpy, and few records have such files.
        from ciguard.codec.results.attach import attach_result_files  # noqa: PLC0415

        return attach_result_files(record, own, unpacking)


_OF_CASES: Final = frozenset({"case_start", "case_end"})
_KINDS: Final = (
    ShardLine,
    ProcessLine,
    StartLine,
    Result,
    PeakLine,
    SampleLine,
    MetricLine,
    EventLine,
    ProcessEndLine,
    EndLine,
)


def _deduplicated(parts: dict[str, list[Line]]) -> Iterator[Line]:
    """The lines of a leg that arrived in parts which repeat each other, each line once.

    What one file says twice was said twice; what `seen` refers to does not come along with a copy.
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
    """The end of a leg's last step, and how many others claim to be it: then the worst counts.

    A step that goes on from others says so (`resumed`), with the moment up to which those had
    lived; the leg's clock goes on through all of them.
    """
    began_s = max((one.at_s or 0.0 for one in events if one.kind == "resumed"), default=-1.0)
    last = {repr(one): one for one in ends if (one.at_s or 0.0) > began_s}
    worst = max(last.values(), key=_badness, default=None)
    return worst, max(0, len(last) - 1)


def _badness(end: EndLine) -> tuple[bool, bool, float]:
    return (end.ending != "completed", end.exit_code not in (0, None), end.at_s or 0.0)


def _lines_after_end(source: str, lines: list[Line]) -> Iterator[str]:
    """An end is the last line of its file: what stands behind it is no word of the leg."""
    kinds = list(map(type, lines))
    left = len(lines) - 1 - kinds.index(EndLine) if EndLine in kinds else 0
    if left:
        yield f"{source}: {left:,} line{'s' * (left != 1)} behind the end of the leg"


def _has_restart(lines: list[Line]) -> bool:
    """Return whether a unit begins behind a result of that name: of nearly no file."""
    reported = set()
    for line in lines:
        kind = type(line)
        if kind is Result:
            reported.add(line.unit)  # type: ignore[union-attr]
        elif kind is StartLine and line.unit in reported:  # type: ignore[union-attr]
            return True
    return False


def _restarted_units(parts: dict[str, list[Line]]) -> Iterator[str]:
    """Of each file the first unit that begins once more behind its result, and gets no other.

    Where that is how its process died the leg says so, in a file of its own.
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
            what = f"{unfinished[0][3]!r:.200} begins again behind its result, and has no other"
            yield f"{source}: {what}"


def _contradictions(parts: dict[str, list[Line]]) -> Iterator[str]:
    """Two files that tell one try of a case differently; of each two files the first such case."""
    seen: dict[tuple[CaseKey, int | None, int], tuple[str, set[str]]] = {}
    reported = set()
    for source, lines in parts.items():
        own: dict[tuple[CaseKey, int | None, int], set[str]] = {}
        for line in lines:
            if isinstance(line, Result):
                own.setdefault((line.key, line.process, line.try_number), set()).add(line.outcome)
        for key, outcomes in own.items():
            other, before = seen.setdefault(key, (source, outcomes))
            if before != outcomes and (other, source) not in reported:
                reported.add((other, source))
                here, there = ("/".join(sorted(found)) for found in (outcomes, before))
                what = f"{key[0].unit!r:.200} {there} in the one, {here} in the other"
                yield f"{other} and {source} contradict each other: {what}"


def read_records(
    files: Iterable[tuple[str, bytes]], results: Iterable[tuple[str, bytes]] = ()
) -> tuple[Record, ...]:
    """Join files into the records of the legs that wrote them.

    A line belongs to the last `shard` or `defaults` line above it in its file, else where `_owners`
    says. Folder and file names say nothing about a leg's identity.

    Args:
        files: (path with "/" as separator, content), in any order.
        results: other programs' files in `results` beside them.

    Returns:
        Records sorted by identity, then source; lines in the order of sorted paths.
    """
    legs: dict[Any, _LegLines] = {}

    def leg_of(identity: _Identity | None, file: _File) -> _LegLines:
        # What nobody claims stays together by folder: one record without a header each.
        key = identity if identity is not None else file.folder
        return legs.setdefault(key, _LegLines(file.source, _partial_header(identity)))

    ordered = sorted(files)
    size = sum(len(content) for _, content in ordered)
    budget = _Budget(MAX_LINES, uses_fast_reader=size >= FAST_READER_FROM_BYTES)
    for file, owner in _owners([_read_file(*found, budget) for found in ordered]):
        leg_of(owner, file).damage.extend(file.damage)
        leg_of(owner, file).empty_files.extend([file.source] * file.is_empty)
        for identity, lines in file.blocks:
            gathering = leg_of(identity or owner, file)
            gathering.damage.extend(_lines_after_end(file.source, lines))
            gathering.parts.setdefault(file.source, []).extend(lines)
    result_files: dict[str, dict[str, bytes]] = {}
    for path, content in results:
        if (place := result_file_location(path)) is not None:
            result_files.setdefault(place[0], {})[place[1]] = content
    unpacking = UnpackBudget()
    records = [gathering.to_record(result_files, unpacking) for gathering in legs.values()]
    return tuple(sorted(map(_with_job(records), records), key=_by_identity))


def _partial_header(identity: _Identity | None) -> ShardLine | None:
    """As much of a shard line as other lines say; None where they do not name a leg of a plan."""
    if identity is None or not identity[0]:
        return None
    plan_id, shard, run_id, run_attempt, _ = identity
    return ShardLine(plan_id, shard, run_id=run_id, run_attempt=run_attempt)


def _with_job(records: Iterable[Record]) -> Callable[[Record], Record]:
    """Name the job of a leg whose shard line is lost, as those of its run call theirs."""
    known: dict[tuple[str, int | None, str], ShardLine] = {}
    for header in (record.header for record in records):
        if header is not None and header.job and header.shard:
            for shard in (header.shard, ""):
                known.setdefault((header.plan_id, header.run_id, shard), header)

    def with_job_name(record: Record) -> Record:
        claims = record.partial_header
        if claims is None:
            return record
        near = (claims.plan_id, claims.run_id)
        other = known.get((*near, claims.shard)) or known.get((*near, ""))
        if other is None or other.job is None:
            return record
        job = other.job.replace(other.shard, claims.shard)
        return replace(record, partial_header=replace(claims, job=job))

    return with_job_name


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
    """Fill `at_s` and `wall_s` of results that have neither; nothing measured is changed."""
    received = [one for one in record.events if one.kind == RECEIVED and one.at_s is not None]
    if not received:
        return record
    times = _times(record, received)
    return replace(record, results=tuple(_with_times(result, times) for result in record.results))


def _case_in_process(event: EventLine) -> _CaseInProcess:
    unit = event.unit or ""
    return event.process, CaseKey(event.suite, event.variant, unit, event.detail or unit)


def _times(
    record: Record, received: Sequence[EventLine]
) -> Mapping[_CaseInProcess, deque[tuple[float, float]]]:
    """For each case the moments when it was heard of, and what each had taken; in order."""
    moments = _process_times(record, received)
    together: dict[tuple[int | None, float], set[_CaseInProcess]] = defaultdict(set)
    for event in received:
        together[event.process, event.at_s or 0.0].add(_case_in_process(event))
    times: dict[_CaseInProcess, deque[tuple[float, float]]] = defaultdict(deque)
    for event in received:
        at_s = event.at_s or 0.0
        known = moments[event.process]
        place = bisect_left(known, at_s)
        before_s = known[place - 1] if place else 0.0
        share_s = (at_s - before_s) / len(together[event.process, at_s])
        times[_case_in_process(event)].append((at_s, round(share_s, 6)))
    return times


def _process_times(
    record: Record, received: Sequence[EventLine]
) -> Mapping[int | None, list[float]]:
    """By process, when something is known to have begun or ended in it; ascending."""
    found: dict[int | None, set[float]] = defaultdict(set)
    lines: Iterable[_Timed] = chain(record.processes, record.starts, record.results, received)
    for line in lines:
        if line.at_s is not None:
            found[line.process].add(line.at_s)
    return {process: sorted(moments) for process, moments in found.items()}


def _with_times(
    result: Result, times: Mapping[_CaseInProcess, deque[tuple[float, float]]]
) -> Result:
    if result.at_s is not None or result.wall_s is not None:
        return result
    waiting = times.get((result.process, result.key))
    if not waiting:
        return result
    at_s, wall_s = waiting.popleft()
    return replace(result, at_s=at_s, wall_s=wall_s)


def fill_peaks(results: Sequence[Result], peaks: Sequence[PeakLine]) -> tuple[Result, ...]:
    """Give each result without memory the next line of its case and process; in order."""
    waiting: dict[tuple[int | None, CaseKey], deque[PeakLine]] = defaultdict(deque)
    for peak in peaks:
        key = CaseKey(peak.suite, peak.variant, peak.unit, peak.case or peak.unit)
        waiting[peak.process, key].append(peak)
    return tuple(_with_peak(result, waiting) for result in results) if peaks else tuple(results)


def _with_peak(
    result: Result, waiting: dict[tuple[int | None, CaseKey], deque[PeakLine]]
) -> Result:
    measured = (result.peak_bytes, result.peak_lower_bytes, result.peak_upper_bytes)
    found = waiting.get((result.process, result.key))
    if not found or result.outcome == "died" or any(size is not None for size in measured):
        return result
    peak = found.popleft()
    return replace(
        result,
        rss_before_bytes=peak.rss_before_bytes,
        peak_lower_bytes=peak.peak_lower_bytes,
        peak_upper_bytes=peak.peak_upper_bytes,
        concurrent=result.concurrent or peak.concurrent,
    )
