"""Groups of one's own: this machine's where it allows them, and a folder of files for v2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from run.legs import no_survivor, plan_of, start, start_shard, until

from ciguard.run.cgroups import Groups, Hands, Place, places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.run.cgroups import Group

MEBIBYTE = 1 << 20
CHILD = """
import subprocess, sys
sys.stdin.readline()
subprocess.run([sys.executable, "-S", "-c", "kept = b'x' * (200 << 20)"])
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def groups() -> Iterator[Groups]:
    made = Groups([Hands()])
    yield made
    made.close()


def own(groups: Groups) -> Group:
    group = groups.make(1)
    if group is None:
        pytest.skip(f"no cgroup can be made here: {groups.lacks}")
    return group


def test_a_child_that_is_gone_again_was_counted(groups: Groups) -> None:
    group = own(groups)
    with subprocess.Popen(
        [sys.executable, "-S", "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        group.enter(process.pid)
        assert not group.refused
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"done\n"
        peak = group.peak_bytes()
        assert peak is not None
        assert 200 * MEBIBYTE < peak < 260 * MEBIBYTE
        assert group.oom_kills() == 0
        group.leave(process.pid)
        process.stdin.close()
    folder = Path(group.peak_file).parent
    assert folder.exists()
    group.give_back()
    groups.close()
    assert not folder.exists()


def test_what_is_left_in_a_group_dies_with_it(groups: Groups) -> None:
    group = own(groups)
    folder = Path(group.peak_file).parent
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        group.enter(process.pid)
        group.give_back()
        assert process.wait(5) == -9
    groups.close()
    assert not folder.exists()


def test_a_leg_counts_children_and_leaves_no_group(tmp_path: Path, groups: Groups) -> None:
    group = own(groups)
    place = Path(group.peak_file).parents[2]
    group.give_back()
    code = "import subprocess as s, sys; s.run([sys.executable, '-c', 'x = b\"x\" * (150 << 20)'])"
    leg = start(tmp_path, "--record", "record", "--", sys.executable, "-c", code).wait(0)
    (end,) = leg.record().process_ends
    assert end.bounds_measured_by == "cgroup"
    assert 150 * MEBIBYTE < (end.peak_upper_bytes or 0) < 300 * MEBIBYTE
    assert (end.peak_bytes or 0) <= (end.peak_upper_bytes or 0)
    no_survivor(leg)
    assert not list(place.glob(f"ciguard-{leg.process.pid}-*"))


# --- v2, as far as a folder of files can be one ---------------------------------------------------


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def v2(root: Path, *, home_max: str = "max", subtree: str = "cpu memory") -> bytes:
    """A root that hands memory on, and the leg's group in it."""
    write(root, cgroup__controllers="cpu memory", cgroup__subtree_control=subtree)
    home = write(root / "leg", cgroup__controllers="cpu memory", cgroup__subtree_control="")
    write(home, memory__max=home_max, cgroup__procs=f"1\n{os.getpid()}\n")
    return b"0::/leg\n"


KERNEL = """#!/bin/sh
# Stands where sudo does: does as root what it is told, and what the kernel does behind mkdir.
shift
"$@" || exit
for folder in $(find ROOT -type d -name 'ciguard-*'); do
    for file in cgroup.procs memory.oom.group; do
        test -e "$folder/$file" || : >"$folder/$file"
    done
    test -e "$folder/memory.peak" || echo 314572800 >"$folder/memory.peak"
    test -e "$folder/memory.events" || echo 'oom_kill 2' >"$folder/memory.events"
done
"""


def test_beside_ours_in_v2_by_way_of_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cgroup"
    membership = v2(root)
    sudo = tmp_path / "bin" / "sudo"
    sudo.parent.mkdir()
    sudo.write_text(KERNEL.replace("ROOT", str(root)))
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    groups = Groups([Hands(("sudo", "-n"))], membership, str(root))
    group = groups.make(7)
    assert group is not None
    (folder,) = root.glob(f"ciguard-{os.getpid()}-*-7")
    assert group.peak_file == f"{folder}/memory.peak"
    assert (folder / "memory.oom.group").read_text() == "1"
    group.enter(4242)
    assert (folder / "cgroup.procs").read_text() == "4242\n"
    assert groups.settled(group) is group
    group.leave(4242)
    assert (root / "leg" / "cgroup.procs").read_text() == "4242\n"
    assert (group.peak_bytes(), group.oom_kills()) == (300 * MEBIBYTE, 2)


def test_sudo_that_asks_for_a_password_is_not_asked_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership = v2(tmp_path / "cgroup")
    sudo = tmp_path / "sudo"
    sudo.write_text(f"#!/bin/sh\necho x >>{tmp_path}/asked\necho no password >&2\nexit 1\n")
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    groups = Groups([Hands(("sudo", "-n"))], membership, str(tmp_path / "cgroup"))
    assert groups.make(1) is None
    assert groups.make(2) is None
    assert groups.lacks == "no password"
    assert (tmp_path / "asked").read_text() == "x\n"


def test_a_limit_of_ours_is_not_escaped(tmp_path: Path) -> None:
    assert places(v2(tmp_path / "a"), str(tmp_path / "a")) == (
        Place(str(tmp_path / "a" / "leg"), str(tmp_path / "a"), 1),
    )
    assert places(v2(tmp_path / "b", home_max="1000000"), str(tmp_path / "b")) == ()


def test_without_memory_for_groups_there_is_no_place(tmp_path: Path) -> None:
    membership = v2(tmp_path, subtree="cpu")
    groups = Groups([Hands()], membership, str(tmp_path))
    assert groups.make(1) is None
    assert "memory controller" in groups.lacks
    assert not list(tmp_path.glob("**/ciguard-*"))


def test_a_folder_without_us_in_it_is_not_ours(tmp_path: Path) -> None:
    membership = v2(tmp_path)
    (tmp_path / "leg" / "cgroup.procs").write_text("1\n")
    assert places(membership, str(tmp_path)) == ()


def test_v1_lies_below_ours(tmp_path: Path) -> None:
    home = write(
        tmp_path / "memory" / "a", memory__limit_in_bytes="9", cgroup__procs=f"{os.getpid()}\n"
    )
    assert places(b"4:memory:/a\n0::/\n", str(tmp_path)) == (Place(str(home), str(home), 2),)
    assert places(b"4:cpu:/a\n", str(tmp_path)) == ()


def test_a_leg_that_is_killed_leaves_no_group(tmp_path: Path, groups: Groups) -> None:
    group = own(groups)
    place = Path(group.peak_file).parents[2]
    group.give_back()
    code = "import time; print('ready', flush=True); time.sleep(60)"
    leg = start(tmp_path, "--record", "record", "--", sys.executable, "-c", code)
    assert leg.process.stdout is not None
    while leg.process.stdout.readline() != "ready\n":
        pass
    name = f"ciguard-{leg.process.pid}-*"
    assert list(place.glob(name))
    leg.process.kill()
    leg.wait(-9)
    no_survivor(leg)
    until(lambda: not list(place.glob(name)), what="its group is gone", timeout_s=5)


SUITE = """
import os, subprocess, sys
HOLDS = "x = b'x' * (150 << 20)"
def test_alone(): x = b"x" * (60 << 20)
def test_child(): subprocess.run([sys.executable, "-S", "-c", HOLDS], check=True)
def test_closes_all():
    subprocess.run([sys.executable, "-S", "-c", HOLDS], check=True)
    for number in os.listdir("/proc/self/fd"):
        if os.path.lexists(f"/proc/self/fd/{number}"):
            if "cgroup" in os.readlink(f"/proc/self/fd/{number}"): os.close(int(number))
def test_alone_again(): pass
"""


def test_a_test_with_children_has_bounds_and_one_without_a_peak(
    tmp_path: Path, groups: Groups
) -> None:
    own(groups).give_back()
    (tmp_path / "test_children.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    units = [f"test_children.py::test_{name}" for name in ("alone", "child", "closes_all")]
    plan = plan_of([*units, "test_children.py::test_alone_again"])
    leg = start_shard(tmp_path, plan).wait(0)
    alone, child, closes_all, again = leg.record().results
    for one in (alone, again):
        assert (one.peak_upper_bytes, one.bounds_measured_by) == (None, None)
        assert one.measured_by in {"mark", "mark_untrimmed"}
    assert 59 * MEBIBYTE < (alone.peak_delta_bytes or 0) < 70 * MEBIBYTE
    assert (child.peak_delta_bytes or 0) < 50 * MEBIBYTE, "the mark is of the process alone"
    assert child.peak_lower_bytes == child.peak_bytes
    growth = (child.peak_upper_bytes or 0) - (child.rss_before_bytes or 0)
    assert 150 * MEBIBYTE < growth < 250 * MEBIBYTE
    assert child.bounds_measured_by == "cgroup"
    assert closes_all.peak_upper_bytes is None, "what it had before its descriptor was closed?"
    assert not any("cgroup" in event.detail for event in leg.record().events)
