"""Structures and constants of the Windows API; its rules for program paths and variables. Pure.

Types have a fixed width, so that a structure has the same size on every system that imports it.
Source: winnt.h, psapi.h and sysinfoapi.h, as learn.microsoft.com describes them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from typing import Final, Mapping, Sequence

from ciguard.run.platforms.base import MachineMemory

DWORD, QWORD, SIZE = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t

ACCOUNTING, PROCESS_IDS, EXTENDED_LIMITS = 1, 3, 9  # classes of QueryInformationJobObject
KILL_ON_JOB_CLOSE: Final = 0x2000
QUERY_LIMITED_INFORMATION: Final = 0x1000
CREATE_SUSPENDED: Final = 0x4  # subprocess has no name for it
DBG_TERMINATE_PROCESS: Final = 0x40010004  # exit code of a process that Windows ends at log-off
MAX_PROCESSES: Final = 1024  # processes of a job that are measured
TICKS_A_SECOND: Final = 10_000_000


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("per_process_user_time", QWORD),
        ("per_job_user_time", QWORD),
        ("limit_flags", DWORD),
        ("minimum_working_set", SIZE),
        ("maximum_working_set", SIZE),
        ("active_process_limit", DWORD),
        ("affinity", SIZE),
        ("priority_class", DWORD),
        ("scheduling_class", DWORD),
    )


class IoCounters(ctypes.Structure):
    """IO_COUNTERS: operations, then bytes, of reading, writing and other."""

    _fields_ = (("counters", QWORD * 6),)


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION; the peaks are committed bytes."""

    _fields_ = (
        ("basic", BasicLimits),
        ("io", IoCounters),
        ("process_memory_limit", SIZE),
        ("job_memory_limit", SIZE),
        ("peak_process_memory_used", SIZE),
        ("peak_job_memory_used", SIZE),
    )


class Accounting(ctypes.Structure):
    """JOBOBJECT_BASIC_ACCOUNTING_INFORMATION; times in 100 ns."""

    _fields_ = (
        ("total_user_time", QWORD),
        ("total_kernel_time", QWORD),
        ("period_user_time", QWORD),
        ("period_kernel_time", QWORD),
        ("total_page_faults", DWORD),
        ("total_processes", DWORD),
        ("active_processes", DWORD),
        ("total_terminated_processes", DWORD),
    )


class ProcessIds(ctypes.Structure):
    """JOBOBJECT_BASIC_PROCESS_ID_LIST with room for many."""

    _fields_ = (("assigned", DWORD), ("listed", DWORD), ("ids", SIZE * MAX_PROCESSES))


class MemoryCounters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS; `pagefile_usage` is what the process has committed."""

    _fields_ = (
        ("size", DWORD),
        ("page_faults", DWORD),
        ("peak_working_set", SIZE),
        ("working_set", SIZE),
        ("quota_peak_paged_pool", SIZE),
        ("quota_paged_pool", SIZE),
        ("quota_peak_non_paged_pool", SIZE),
        ("quota_non_paged_pool", SIZE),
        ("pagefile_usage", SIZE),
        ("peak_pagefile_usage", SIZE),
    )


class MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX; "page file" means what can be committed: memory and page files together."""

    _fields_ = (
        ("size", DWORD),
        ("load_percent", DWORD),
        ("total_physical", QWORD),
        ("available_physical", QWORD),
        ("total_page_file", QWORD),
        ("available_page_file", QWORD),
        ("total_virtual", QWORD),
        ("available_virtual", QWORD),
        ("available_extended_virtual", QWORD),
    )


def memory_of(status: MemoryStatus) -> MachineMemory:
    """Return the machine's memory; its "swap" is what can be committed beyond the free memory.

    This is negative if more was committed than would fit: then commits fail before memory is full.
    """
    available = int(status.available_physical)
    beyond = int(status.available_page_file) - available
    return MachineMemory(int(status.total_physical), available, None, beyond)


def headroom_bytes_of(machine: MachineMemory) -> int | None:
    """Return the free memory plus half of the "swap"; never more than can be committed."""
    if machine.available_bytes is None:
        return None
    beyond = machine.swap_free_bytes or 0
    return machine.available_bytes + (beyond if beyond < 0 else beyond // 2)


def case_folded_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with upper-case names; of two equal names the later one counts.

    Windows treats `Path` and `PATH` as the same, and takes either from a block with both.
    """
    folded: dict[str, str] = {}
    for name, value in env.items():
        folded.pop(name.upper(), None)  # the order is that of the last assignment
        folded[name.upper()] = value
    return folded


def resolve_program(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> list[str]:
    """Return the command line with the absolute path of its program, as a shell finds it.

    CreateProcess adds only `.exe` to a name (not `.cmd`, which npm has), and resolves a relative
    path in the leg's folder, not in `cwd`. A program that is not found stays unchanged: its start
    fails with the reason.
    """
    program = argv[0]
    path = os.path.join(cwd, program) if os.path.dirname(program) else program
    return [shutil.which(path, path=env.get("PATH")) or program, *argv[1:]]
