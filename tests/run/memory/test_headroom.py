"""Headroom from real and from made-up sources: meminfo, cgroups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.run.memory.headroom import LinuxHeadroom, memory_cgroups, memory_limits, parse_meminfo
from ciguard.run.platforms.base import MachineMemory

GIB = 1 << 30
MEMINFO = b"MemTotal: 8388608 kB\nMemAvailable: 1048576 kB\nSwapTotal: 2048 kB\nSwapFree: 1024 kB\n"


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_meminfo_is_in_kib() -> None:
    assert parse_meminfo(MEMINFO) == MachineMemory(8 * GIB, GIB, 1 << 20, 1 << 20)
    assert parse_meminfo(b"") == MachineMemory(None, None, None, None)


@given(st.binary())
def test_any_meminfo_is_parsed_without_error(content: bytes) -> None:
    parse_meminfo(content)


def test_half_of_the_free_swap_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_bytes(MEMINFO)
    guardrail = LinuxHeadroom(str(tmp_path / "meminfo"))
    headroom = guardrail.headroom_bytes(guardrail.machine())
    assert headroom is not None
    assert headroom <= GIB + (1 << 19), "less only where a cgroup of this machine has less"


def test_missing_meminfo_gives_unknown_memory(tmp_path: Path) -> None:
    guardrail = LinuxHeadroom(str(tmp_path / "nothing"))
    assert guardrail.machine() == MachineMemory(None, None, None, None)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="Linux only")
def test_this_machine_has_memory_and_counts_its_kills() -> None:
    guardrail = LinuxHeadroom()
    memory, headroom = guardrail.memory_bytes(), guardrail.headroom_bytes(guardrail.machine())
    assert memory is not None
    assert headroom is not None
    assert 0 < headroom <= memory + (guardrail.machine().swap_free_bytes or 0)
    assert guardrail.oom_kills() >= 0


def test_cgroup_v2_limits_at_every_level(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b", memory__max="max\n", memory__current="1\n")
    write(tmp_path / "a", memory__max=f"{4 * GIB}\n", memory__current=f"{3 * GIB}\n")
    write(tmp_path / "a", memory__stat=f"anon 1\ninactive_file {GIB // 2}\nfile 9\n")
    folders = memory_cgroups(b"0::/a/b\n", str(tmp_path))
    assert folders[:2] == (f"{tmp_path}/a/b", f"{tmp_path}/a")
    (group,) = memory_limits(folders)
    assert group.limit_bytes == 4 * GIB
    assert group.headroom_bytes() == GIB + GIB // 2, "cache that can be dropped is free"


def test_cgroup_v1_beside_other_controllers(tmp_path: Path) -> None:
    write(
        tmp_path / "memory" / "c",
        memory__limit_in_bytes=f"{2 * GIB}\n",
        memory__usage_in_bytes=f"{GIB}\n",
        memory__stat="total_inactive_file 1000\n",
    )
    write(tmp_path / "memory", memory__limit_in_bytes="9223372036854771712\n")
    membership = b"9:name=systemd:/x\n8:pids:/c\n4:hugetlb,memory:/c\n0::/\n"
    (group,) = memory_limits(memory_cgroups(membership, str(tmp_path)))
    assert group.headroom_bytes() == GIB + 1000


def test_a_cgroup_that_vanishes_is_unknown(tmp_path: Path) -> None:
    write(tmp_path / "a", memory__max="1000\n")
    (group,) = memory_limits(memory_cgroups(b"0::/a\n", str(tmp_path)))
    assert group.headroom_bytes() is None
