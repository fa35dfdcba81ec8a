"""A verdict for a terminal or a log: 80 columns, the verdict first. Pure."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ciguard.guard.failure_groups import lines_of
from ciguard.guard.unit_names import name_units
from ciguard.text import count_of, distinct_lines, duration, one_line, size, table, unit_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.guard.verdict import Excused, Finding, Flaky, Leg, Verdict
    from ciguard.model import Ending, Result, UnitKey

COLUMNS: Final = 80
MESSAGE_CHARACTERS: Final = 180  # characters of a message
MAX_LISTED: Final = 20  # failures and flaky units by name; all are in the JSON
MAX_HOTSPOTS: Final = 10


def as_text(verdict: Verdict) -> str:
    """The whole text, with its last line feed."""
    blocks = [
        _wrap(verdict.headline),
        _findings(verdict),
        _legs(verdict),
        _causes(verdict),
        _hotspots(verdict),
        _failures(verdict),
        _excused(verdict.quarantined, "failed, quarantined"),
        _excused(verdict.failing_on_base, "failed as on the base, ignored"),
        _flaky_section(verdict.flaky, "flaky, passed in the last try"),
        _flaky_section(verdict.passed_after_oom, "passed when tried again, memory had run out"),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _wrap(text: str, first: str = "", indent: str = "") -> str:
    return textwrap.fill(
        text,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def _findings(verdict: Verdict) -> str:
    return "\n".join(line for finding in verdict.findings for line in _finding(verdict, finding))


def _finding(verdict: Verdict, finding: Finding) -> Iterator[str]:
    word = "warning" if finding.level == "warning" else finding.level.upper()
    yield _wrap(one_line(finding.message, 400), f"{word}: ", "    ")
    yield from _evidence_lines(finding)
    reasons = {one.key: one.reason for one in verdict.missing if one.shard == finding.shard}
    if finding.shard and any(key in reasons for key in finding.units):
        yield from _missing_units(finding, reasons)
    else:
        yield from (f"    {name}" for name in name_units(finding.units))
    if finding.fix:
        yield _wrap(finding.fix, "  fix: ", "    ")


def _evidence_lines(finding: Finding) -> Iterator[str]:
    for seen in finding.evidence:
        yield _wrap(one_line(seen.text, 300), f"    {seen.source}: ", "      ")
    if finding.culprits:
        one = len(finding.culprits) == 1
        yield "    it was running:" if one else f"    {len(finding.culprits):,} were running:"
        yield from (f"      {name}" for name in name_units(finding.culprits, 70))


def _missing_units(finding: Finding, reasons: Mapping[UnitKey, str]) -> Iterator[str]:
    reasons_and_keys = sorted((reasons.get(key, ""), key) for key in finding.units)
    for reason, pairs in groupby(reasons_and_keys, key=lambda pair: pair[0]):
        keys = [key for _, key in pairs]
        because = "because" if len(keys) == 1 else "each because"
        yield _wrap(f"{len(keys):,} without a result, {because} {reason}:", "    ", "    ")
        yield from (f"      {name}" for name in name_units(keys, 70))


_HEAD: Final = ("shard", "ending", "wall", "planned", "peak", "planned", "units", "bad", "skipped")
_DROPPED_COLUMNS: Final = ((), (8,), (8, 5), (8, 5, 3))  # columns, where a line would be too long
_PEAKS: Final = (4, 5)
_ENDINGS: Final[Mapping[Ending, str]] = {"timeout": "timeout", "out_of_memory": "oom"}


def _legs(verdict: Verdict) -> str:
    """The table; timeouts, cases out of memory and peaks where there are any."""
    endings = [one for one in _ENDINGS if one in verdict.endings]
    known = any(leg.peak_bytes or leg.predicted_peak_bytes for leg in verdict.legs)
    never = () if known else _PEAKS
    rows = [(*_HEAD, *(_ENDINGS[one] for one in endings))]
    keys = distinct_lines([leg.shard for leg in verdict.legs], 20)
    legs = zip(keys, verdict.legs, strict=True)
    rows += [(key, *_leg(leg), *_counts(leg, endings)) for key, leg in legs]
    if endings and len(verdict.legs) > 1:
        rows.append((*_sum(verdict), *_counts(verdict, endings)))
    text = ""
    for left_out in _DROPPED_COLUMNS:
        dropped_columns = {*left_out, *never}
        shown = [tuple(c for n, c in enumerate(row) if n not in dropped_columns) for row in rows]
        text = table(shown, right=frozenset(range(2, len(rows[0]))))
        if max(map(len, text.splitlines())) <= COLUMNS:
            return text
    return text


def _counts(of: Leg | Verdict, endings: Sequence[Ending]) -> list[str]:
    ending_counts = of.endings
    return [f"{ending_counts.get(one, 0):,}" for one in endings]


def _sum(verdict: Verdict) -> tuple[str, ...]:
    """The last row of a table in which something is counted."""
    counts = verdict.counts
    bad = sum(leg.bad for leg in verdict.legs)
    units = f"{verdict.with_result:,}/{verdict.planned:,}"
    return ("all", "", "", "", "", "", units, f"{bad:,}", f"{counts.get('skipped', 0):,}")


def _leg(leg: Leg) -> tuple[str, ...]:
    return (
        leg.ending if leg.recorded or leg.ending != "unknown" else "no record",
        duration(leg.wall_s),
        duration(leg.predicted_wall_s),
        size(leg.peak_bytes),
        size(leg.predicted_peak_bytes),
        f"{leg.with_result:,}/{leg.planned:,}",
        f"{leg.bad:,}",
        f"{leg.counts.get('skipped', 0):,}",
    )


def _causes(verdict: Verdict) -> str:
    """Where they are fewer than what they caused."""
    if len(verdict.failure_groups) == len(verdict.failures):
        return ""
    lines = [f"{count_of(len(verdict.failure_groups), 'cause')}:"]
    lines += [f"  {line}" for line in lines_of(verdict.failure_groups[:MAX_LISTED], COLUMNS - 2)]
    if len(verdict.failure_groups) > MAX_LISTED:
        lines.append(f"  and {len(verdict.failure_groups) - MAX_LISTED:,} more")
    return "\n".join(lines)


_COLUMNS: Final = ("timeouts", "out of memory", "failures", "died")


def _hotspots(verdict: Verdict) -> str:
    """The worst, where there is anything to choose from."""
    if len(verdict.hotspots) == len(verdict.failures):
        return ""
    rows: list[tuple[str, ...]] = [("class or file", *_COLUMNS)]
    shown = verdict.hotspots[:MAX_HOTSPOTS]
    names = distinct_lines([one.name for one in shown], 36)
    rows += [
        (name, *(f"{n:,}" for n in (one.timeouts, one.out_of_memory, one.failures, one.died)))
        for name, one in zip(names, shown, strict=True)
    ]
    lines = table(rows, right=frozenset(range(1, 5)))
    more = len(verdict.hotspots) - MAX_HOTSPOTS
    return f"{lines}\nand {more:,} more" if more > 0 else lines


def _failures(verdict: Verdict) -> str:
    if not verdict.failures:
        return ""
    lines = [f"{len(verdict.failures):,} failed:"]
    for failure in verdict.failures[:MAX_LISTED]:
        lines.append(f"  {_case(failure.result)}")
        lines.append(_in_shard(failure.shard, failure.result))
    if len(verdict.failures) > MAX_LISTED:
        lines.append(f"  and {len(verdict.failures) - MAX_LISTED:,} more")
    return "\n".join(lines)


def _excused(excused: Sequence[Excused], title: str) -> str:
    if not excused:
        return ""
    lines = [f"{len(excused):,} {title}:"]
    for one in excused[:MAX_LISTED]:
        lines.append(f"  {_case(one.result)}")
        lines.append(_in_shard(one.shard, one.result))
        lines.append(_wrap(one_line(one.reason, 200), "    ", "    "))
    if len(excused) > MAX_LISTED:
        lines.append(f"  and {len(excused) - MAX_LISTED:,} more")
    return "\n".join(lines)


def _case(result: Result) -> str:
    name = unit_name(result.key.unit_key, 74)
    if result.case and result.case != result.unit:
        name = one_line(f"{name} {result.case}", 74)
    return name


def _in_shard(shard: str, result: Result) -> str:
    """What a test said, in three lines at most."""
    return _wrap(
        f"shard {one_line(shard, 20)}: {describe_result(result, MESSAGE_CHARACTERS)}",
        "    ",
        "      ",
    )


def describe_result(result: Result, width: int) -> str:
    """Outcome, ending where it is more than that, and the first line of the message."""
    ending = "" if result.ending == "completed" else f" ({result.ending})"
    text = f"{result.outcome}{ending}"
    first = next((line.strip() for line in (result.message or "").splitlines() if line.strip()), "")
    return one_line(f"{text}: {first}" if first else text, width)


def _flaky_section(flaky: Sequence[Flaky], title: str) -> str:
    """Units that passed in the end, each with how it began: beside it or, where long, below."""
    if not flaky:
        return ""
    lines = [f"{len(flaky):,} {title}:"]
    for one in flaky[:MAX_LISTED]:
        name, first = (
            unit_name(one.key, COLUMNS - 2),
            f"first {describe_result(one.first, MESSAGE_CHARACTERS)}",
        )
        one_line_text = f"  {name}  {first}"
        below = [f"  {name}", _wrap(first, "    ", "      ")]
        lines += [one_line_text] if len(one_line_text) <= COLUMNS else below
    if len(flaky) > MAX_LISTED:
        lines.append(f"  and {len(flaky) - MAX_LISTED:,} more")
    return "\n".join(lines)
