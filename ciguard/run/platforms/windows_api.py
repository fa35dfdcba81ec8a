"""Structures and constants of the Windows API, spelling of its programs and variables. Pure.

Types are spelled by their width, so that a structure has the same size wherever this is imported.
Source: winnt.h, psapi.h and sysinfoapi.h, as learn.microsoft.com describes them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from typing import Dict, Final, List, Mapping, Optional, Sequence

from ciguard.run.platforms.base import MachineMemory

DWORD, QWORD, SIZE = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t

ACCOUNTING, PROCESS_IDS, EXTENDED_LIMITS = 1, 3, 9  # classes of QueryInformationJobObject
KILL_ON_JOB_CLOSE: Final = 0x2000
QUERY_LIMITED_INFORMATION: Final = 0x1000
CREATE_SUSPENDED: Final = 0x4  # subprocess has no name for it
DBG_TERMINATE_PROCESS: Final = 0x40010004  # the exit code Windows gives what it ends at log-off
MAX_PROCESSES: Final = 1024  # of a job that are looked at
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
    """The machine's memory; "swap" is what can be committed beyond memory that is free.

    It is below 0 where more was promised than would fit: then promises run out before memory does.
    """
    available = int(status.available_physical)
    beyond = int(status.available_page_file) - available
    return MachineMemory(int(status.total_physical), available, None, beyond)


def headroom_bytes_of(machine: MachineMemory) -> Optional[int]:
    """Headroom: free memory and half of what lies beyond, never more than can be committed."""
    if machine.available_bytes is None:
        return None
    beyond = machine.swap_free_bytes or 0
    return machine.available_bytes + (beyond if beyond < 0 else beyond // 2)


def case_folded_env(env: Mapping[str, str]) -> Dict[str, str]:
    """Variables by one spelling of their names; of two that differ in case the later one counts.

    Windows takes `Path` and `PATH` for the same, and from a block with both it takes either.
    """
    found: Dict[str, str] = {}
    for name, value in env.items():
        found.pop(name.upper(), None)  # the order of the block is that of the last word
        found[name.upper()] = value
    return found


def resolve_program(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> List[str]:
    """The command line with its program's whole path, as a shell finds it.

    CreateProcess adds `.exe` alone to a name (not `.cmd`, which npm has), and looks for a relative
    path in our folder, not the process's. What is not found stays as it is: starting it says why.
    """
    program = argv[0]
    sought = os.path.join(cwd, program) if os.path.dirname(program) else program
    return [shutil.which(sought, path=env.get("PATH")) or program, *argv[1:]]
