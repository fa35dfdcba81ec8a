"""Every row reads real lines as another table of patterns reads them, and lines of its own."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import re2
from logs.recorded_logs import recorded

from ciguard.logs.log_reader import LogReader
from ciguard.logs.pattern_table import PATTERNS
from ciguard.logs.values import SCALES, SPANS
from ciguard.model import ENDINGS, failure_texts

if TYPE_CHECKING:
    from conftest import Golden

    from ciguard.logs.values import LogValue

SAMPLES: Final = Path(__file__).parent.parent / "samples" / "logs"
READER: Final = LogReader()

# The rows of the recorded table: ours, and how theirs names groups that we name otherwise; None of
# a group that is part of another one of ours, or only shows it rounded.
SAME: Final[dict[str, str | None]] = {}
MEM: Final[dict[str, str | None]] = {"kib": "value"}
HMS: Final[dict[str, str | None]] = {"h": None, "m": None, "s": None}
KILL: Final[dict[str, str | None]] = {
    "comm": "command", "total_vm_kib": "total_vm", "anon_rss_kib": "anon_rss",
    "file_rss_kib": "file_rss",
}  # fmt: skip
TORCH: Final[dict[str, str | None]] = {
    "req": "requested", "req_u": "requested_unit", "total_u": "total_unit", "free_u": "free_unit",
    "proc": "process", "proc_u": "process_unit", "alloc": "allocated", "alloc_u": "allocated_unit",
    "resv": "reserved", "resv_u": "reserved_unit",
}  # fmt: skip
ROWS: Final[dict[str, tuple[str, dict[str, str | None]]]] = {
    "xla_rematerialization": (
        "xla.rematerialization",
        {
            "src_line": "source_line", "limit_h": "limit_bytes_text",
            "after_h": "after_bytes_text", "before_h": "before_bytes_text",
        },
    ),
    "allocatorstats_field_raw": ("allocator.", {"field": None}),
    "allocatorstats_field_pretty": ("allocator.", {"field": None, "value": None}),
    "xla_resource_exhausted": ("xla.out_of_memory", {"bytes": "requested_bytes"}),
    "xla_bfc_oom": (
        "allocator.out_of_memory",
        {"size_h": "requested_text", "bytes": "requested_bytes"},
    ),
    "tf_bfc_soft_pressure": ("allocator.retry", {"size_h": None}),
    "xla_slow_compile": ("xla.slow_compile", SAME),
    "xla_operation_took": ("xla.operation", HMS),
    "gnu_time_maxrss": ("process.peak_rss", MEM),
    "gnu_time_elapsed": ("process.elapsed", HMS),
    "proc_status_mem": ("process.", {**MEM, "field": None}),
    "meminfo_available": ("memory.available", {**MEM, "hms": None}),
    "meminfo_swapfree": ("memory.swap_free", MEM),
    "earlyoom_status": ("earlyoom", {"avail": "available", "pct": "available_percent"}),
    "earlyoom_kill": ("earlyoom.kill", {"comm": "command", "rss_mib": "rss"}),
    "kernel_oom_kill": ("kernel.oom_kill", KILL),
    "kernel_killed_process_bare": ("kernel.killed", KILL),
    "kernel_oom_constraint": ("kernel.oom_constraint", {"memcg": "cgroup", "comm": "command"}),
    "shell_killed": ("shell.killed", {"cmd": "command"}),
    "killed_bare": ("shell.killed_bare", SAME),
    "gha_exit_137": ("process.exit_code", SAME),
    "gha_exit_143": ("process.exit_code", SAME),
    "gha_operation_canceled": ("actions.cancelled", SAME),
    "gha_shutdown_signal": ("actions.shutdown_signal", SAME),
    "gha_lost_communication": ("actions.lost_communication", {"kind": "hosting"}),
    "gha_job_timeout_old": ("actions.job_timeout", {"minutes": "limit"}),
    "gha_job_timeout_new": ("actions.job_timeout", HMS),
    "gha_step_timeout": ("actions.step_timeout", {"minutes": "limit"}),
    "gha_superseded": ("actions.superseded", SAME),
    "timeout_cmd": ("shell.timeout", {"cmd": "command"}),
    "xunit_timeout": ("dotnet.test_timeout", {"ms": "limit"}),
    "dotnet_oom": ("dotnet.out_of_memory", {"msg": "message"}),
    "mono_oom": ("dotnet.mono_out_of_memory", {"bytes": "requested_bytes"}),
    "vstest_host_crash": ("dotnet.host_crash", SAME),
    "aidotnet_truncated": ("tests.truncated", {"never": "missing"}),
    "java_heap": ("java.out_of_memory", {"kind": "area"}),
    "gradle_daemon_heap": ("gradle.heap_exhausted", SAME),
    "gradle_executor_exit": ("gradle.killed", {"kind": "process", "n": "number"}),
    "surefire_fork_died": ("surefire.fork_died", SAME),
    "node_heap": ("node.out_of_memory", {"why": "reason"}),
    "node_gc_line": ("node.gc", {"ms": "uptime", "gc": "collector"}),
    "jest_worker_killed": ("jest.worker_", {"exit": "code"}),
    "jest_worker_oom": ("jest.worker_out_of_memory", SAME),
    "jest_timeout": ("jest.timeout", {"ms": "limit", "what": "part"}),
    "pytest_timeout": ("python.timeout", {"sec_old": "old_limit", "sec_new": "limit"}),
    "pytest_timeout_thread": ("python.timeout_exit", SAME),
    "xdist_worker_crash": ("python.worker_crash", {"worker": "lost_worker", "worker2": "worker"}),
    "python_memoryerror": (
        "python.memory_error",
        {
            "cls": "type", "size": "requested", "unit": "requested_unit", "dtype": "data_type",
            "msg": "message",
        },
    ),
    "torch_cuda_oom_new": ("torch.out_of_memory", TORCH),
    "torch_cuda_oom_old": ("torch.out_of_memory", TORCH),
    "cuda_driver_oom": (
        "cuda.out_of_memory",
        {"size_h": "requested_text", "bytes": "requested_bytes"},
    ),
    "cpp_bad_alloc": ("cpp.bad_alloc", SAME),
    "gcc_killed": ("compiler.killed", {"prog": "program", "ld": "linker"}),
    "rustc_sigkill": ("compiler.sigkill", SAME),
    "go_test_timeout": ("go.timeout", {"dur": "limit"}),
    "go_test_timeout_running": ("go.running_test", {"dur": "elapsed"}),
    "ctest_timeout": ("ctest.timeout", {"n": "number", "sec": "elapsed"}),
    "ctest_summary_timeout": ("ctest.summary_timeout", {"n": "number"}),
    "xctest_timeout": ("xctest.timeout", {"n": "limit", "unit": "limit_unit"}),
    "disk_full": ("disk.full", SAME),
    "disk_low": ("actions.disk_free", {"mb": "value"}),
    "artifact_name_invalid": (
        "actions.artifact_name",
        {"name": "artifact", "char_name": "character_name", "char": "character"},
    ),
}  # fmt: skip
# Parts of other lines, which say nothing alone: a value is none, whatever else the line holds.
PARTS: Final = {
    "xla_log_prefix_abseil", "xla_log_prefix_tsl", "allocatorstats_open", "dotnet_stack_frame"
}  # fmt: skip
METRICS: Final = {"memory_metric"}


def values_of(line: str) -> tuple[LogValue, ...]:
    """The values of a line, of which others may be the context."""
    return READER.read(io.BytesIO(line.encode() + b"\n")).values


def recorded_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(recorded("log-lines/patterns.json").read_bytes())
    return rows


def test_every_recorded_row_has_its_row_here() -> None:
    assert {row["name"] for row in recorded_rows()} == ROWS.keys() | PARTS


def groups_of(prefix: str, line: str) -> dict[str, str]:
    """The groups of the one row of that name, or of those that a part names, that matches."""
    found = [
        match.groupdict()
        for row in PATTERNS
        if row.name == prefix or (prefix[-1] in "._" and row.name.startswith(prefix))
        if (match := re2.search(row.pattern, line)) is not None
    ]
    assert len(found) == 1, line
    return {name: text for name, text in found[0].items() if text is not None}


def test_recorded_lines_give_the_recorded_groups() -> None:
    checked = Counter[str]()
    for row in recorded_rows():
        if row["name"] in PARTS:
            continue
        name, renamed = ROWS[row["name"]]
        for line in row["samples"]:
            theirs = re.search(row["regex"], line)
            assert theirs is not None
            if "nothing" in line:
                assert values_of(line) == ()
                continue
            ours = groups_of(name, line)
            for group, text in theirs.groupdict().items():
                own = renamed.get(group, group)
                if text is not None and own is not None:
                    assert ours[own] == text, line
            checked["groups"] += 1
    assert checked["groups"] == 131


def test_recorded_lines_give_values_of_their_kind() -> None:
    for row in recorded_rows():
        for line in row["samples"]:
            before = "running tests:\n" if row["name"] == "go_test_timeout_running" else ""
            found = values_of(before + line)
            if row["name"] in PARTS:
                others = ("xla.rematerialization", "xla.out_of_memory")
                assert all(one.name.startswith(others) for one in found), line
            elif "nothing" not in line:
                name = ROWS[row["name"]][0].rstrip("_")
                is_metric = row["category"] in METRICS or name in (
                    "xla.slow_compile",
                    "xla.operation",
                )
                kinds = {one.kind for one in found if one.name.startswith(name)}
                assert kinds == {"metric" if is_metric else "failure"}, line


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [
        ("allocatorstats_field_pretty", 20.391 * 2**30, "B"),
        ("xla_operation_took", 132.850942799, "s"),
        ("gnu_time_elapsed", 1.59, "s"),
        ("gha_job_timeout_old", 21600, "s"),
        ("gha_job_timeout_new", 21600, "s"),
        ("meminfo_available", 153600 * 1024, "B"),
        ("earlyoom_kill", 2891 * 2**20, "B"),
        ("torch_cuda_oom_old", 12.5 * 2**20, "B"),
        ("python_memoryerror", 30.2 * 2**40, "B"),
        ("xctest_timeout", 60, "s"),
        ("disk_low", 32e6, "B"),
    ],
)
def test_recorded_numbers_have_their_unit(name: str, value: float, unit: str) -> None:
    (row,) = [row for row in recorded_rows() if row["name"] == name]
    found = [one for line in row["samples"] for one in values_of(line)]
    assert (value, unit) in [(one.value, one.unit) for one in found]


def own_lines() -> list[str]:
    return (SAMPLES / "lines.txt").read_text(encoding="utf-8").splitlines()


def shown(value: LogValue) -> str:
    key = "".join(f" {one.name}={one.value}" for one in value.key)
    facts = "".join(f" ({name}: {text})" for name, text in value.facts)
    return f"    {value.kind} {value.name}{key} = {value.value:.15g} {value.unit}{facts}".rstrip()


def test_own_lines_give_the_values_that_were_reviewed(golden: Golden) -> None:
    found: dict[int, list[str]] = {}
    reading = READER.read(io.BytesIO((SAMPLES / "lines.txt").read_bytes()))
    for one in reading.values:
        found.setdefault(one.place.line, []).append(shown(one))
    lines = [
        text
        for number, line in enumerate(own_lines(), 1)
        for text in (f"{number}: {line}", *found.get(number, ["    nothing"]))
    ]
    golden("\n".join(lines) + "\n", SAMPLES / "values.txt")
    assert reading.unreadable == ()


@pytest.mark.parametrize("row", PATTERNS, ids=lambda row: row.name)
def test_every_row_matches_an_own_line_in_both_syntaxes(row: Any) -> None:
    matched = 0
    for line in own_lines():
        ours, theirs = re.search(row.pattern, line), re2.search(row.pattern, line)
        assert (ours is None) == (theirs is None), line
        if ours is not None and theirs is not None:
            matched += 1
            assert ours.groupdict() == theirs.groupdict()
            assert row.needs_context or any(trigger in line for trigger in row.triggers)
    assert matched
    groups = set(re.compile(row.pattern).groupindex)
    assert {*row.fields, *row.key} <= groups
    assert {*row.fields.values()} <= {*SCALES, *SPANS}
    assert row.ending is None or row.ending in ENDINGS


MESSAGES: Final = (  # as test programs begin them
    "MemoryError",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 51712165888 bytes.",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to",
    "tests/test_a.py:12: OSError: [Errno 12] Cannot allocate memory",
    "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
    "memory allocation of 4000000000 bytes failed",
    'thrown: "Exceeded timeout of 5000 ms for a test.',
    "Timeout >60.0s",
    "Segmentation fault",
)


def failure_lines(*more: str) -> list[str]:
    """Without the times of GitHub, as programs print them."""
    lines = [*MESSAGES, *own_lines(), *more]
    return [re.sub(r"^\d{4}-\d\d-\d\dT\S+Z\s*", "", line) for line in lines]


def assert_no_contradiction(lines: list[str]) -> set[str]:
    """The rows that say the same as the leg's table."""
    agreed = set()
    for line in lines:
        own = failure_texts.ending_of_failure("", line)
        for row in PATTERNS:
            # A worker's SIGKILL is a crash that the system may have had a reason for.
            if row.kind != "failure" or row.ending is None or row.name == "jest.worker_killed":
                continue
            if re.search(row.pattern, line) and own != "completed":
                assert own == row.ending, (row.name, line)
                agreed.add(row.name)
    return agreed


def test_failure_texts_of_a_leg_are_the_same_in_both_syntaxes() -> None:
    matched = Counter[re.Pattern[str]]()
    for pattern in failure_texts.patterns():
        flags = "".join(word for flag, word in ((re.I, "i"), (re.M, "m")) if pattern.flags & flag)
        theirs = re2.compile(f"(?{flags}){pattern.pattern}" if flags else pattern.pattern)
        for line in failure_lines():
            ours, other = pattern.match(line), theirs.match(line)
            assert (ours and ours.span()) == (other and other.span()), line
            matched[pattern] += ours is not None
    assert len(matched) == 5
    assert all(matched.values())


def test_no_row_contradicts_the_failure_texts_of_a_leg() -> None:
    assert len(assert_no_contradiction(failure_lines())) >= 12


def test_no_row_contradicts_them_in_recorded_lines() -> None:
    lines = [line for row in recorded_rows() for line in row["samples"]]
    assert len(assert_no_contradiction(failure_lines(*lines))) >= 12


@pytest.mark.parametrize("before", ["tests/unit/test_a.py ", ".", "s", "│ "])
def test_what_pytest_prints_before_a_line_hides_no_value(before: str) -> None:
    (found,) = values_of(f"{before}bytes_in_use: 5000000000")
    assert (found.name, found.value) == ("allocator.bytes_in_use", 5e9)


def test_a_retried_allocation_is_no_failure() -> None:
    (line,) = [line for line in own_lines() if "this is not a failure" in line]
    assert [one.kind for one in values_of(line)] == ["metric"]
