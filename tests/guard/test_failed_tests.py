"""A test that fails in several combinations is one row, one stack, one command."""

from __future__ import annotations

from dataclasses import replace

from guard.fixtures import World, make_plan, passed, text_of

from ciguard.codec import plan_file
from ciguard.guard.annotations_and_outputs import annotations_of
from ciguard.guard.view import document
from ciguard.model import Plan, Suite, Variant
from ciguard.render.markdown import as_markdown

STACK = """\
stopped: over its limit of 3 s
Current thread 0x{:x} (most recent call first):
  File "/home/runner/shop/t.py", line 18 in settle
"""


def plan_of_combinations(count: int) -> Plan:
    """The tests `t.py::a` and `t.py::b` in a shard for each combination."""
    names = [f"linux, 3.{number}" for number in range(count)]
    made = make_plan({f"{n:02}": ("t.py::a", "t.py::b") for n in range(1, count + 1)})
    shards = tuple(
        replace(shard, units=tuple(replace(unit, variant=name) for unit in shard.units))
        for shard, name in zip(made.shards, names, strict=True)
    )
    variants = {name: Variant(matrix={"v": name}) for name in names}
    made = replace(made, suites={"": Suite("command", ("x",), variants=variants)}, shards=shards)
    return plan_file.decode(plan_file.encode(made), "plan.json")


def failing(count: int, *, fail: int, message: str = "assert {} == 1", **how: str) -> World:
    """`t.py::a` fails in the first `fail` of `count` combinations."""
    world = World(plan_of_combinations(count))
    for number, shard in enumerate(world.plan.shards[:fail]):
        variant = shard.units[0].variant
        text = message.format(number)
        more = {"variant": variant, "message": text, "file": "t.py", "outcome": "failed", **how}
        world.result(shard.key, "t.py::a", **more)
    return world


def test_failure_of_all_combinations_is_one_row_with_one_command() -> None:
    verdict = failing(15, fail=15).prove()
    text = as_markdown(document(verdict))
    (row,) = [line for line in text.splitlines() if line.startswith("| <code>t.py::a")]
    assert row == (
        "| <code>t.py::a</code> in 15 of 15 combinations | failed | "
        "01, 02, 03, 04, 05 and 10 more | <code>assert 0 == 1</code> |"
    )
    assert "15 failures of 1 test" in text
    assert text.count("--until") == 1
    assert "causes" not in text, "one row needs no summary"


def test_combinations_are_named_where_others_passed() -> None:
    text = text_of(failing(3, fail=2).prove())
    assert "t.py::a in 2 of 3 combinations: linux, 3.0; linux, 3.1" in " ".join(text.split())


def test_single_failure_is_named_with_its_combination() -> None:
    text = text_of(failing(3, fail=1).prove())
    assert "[linux, 3.0] t.py::a" in text
    assert "combinations" not in text


def test_different_messages_are_different_failures() -> None:
    world = failing(3, fail=2)
    variant = world.plan.shards[2].units[0].variant
    world.result("03", "t.py::a", variant=variant, outcome="failed", message="ImportError: x")
    text = text_of(world.prove())
    assert "3 failures of 1 test" in text
    assert "in 2 of 3 combinations" in text
    assert "[linux, 3.2] t.py::a" in text


def test_equal_stacks_are_shown_once() -> None:
    verdict = failing(2, fail=2, message=STACK, outcome="died", ending="timeout").prove()
    text = as_markdown(document(verdict))
    assert text.count("t.py:18 settle") == 1
    assert "Stack of the test that hung" in text


def test_shards_without_a_record_are_one_finding() -> None:
    world = World(plan_of_combinations(12))
    for number in range(2, 12):
        del world.legs[f"{number:02}"]
    text = " ".join(text_of(world.prove()).split())
    assert text.count("no record. Check whether") == 1
    assert "10 shards (02, 03, 04, 05, 06, 07, 08, 09, 10, 11): no record." in text


def test_annotation_of_all_combinations_is_one() -> None:
    world = failing(3, fail=2)
    (one,) = annotations_of(world.prove())
    assert (one.title, one.file) == ("t.py::a", "t.py")
    where = "in 2 of 3 combinations: linux, 3.0; linux, 3.1, shards 01, 02"
    assert one.message == f"failed: assert 0 == 1 ({where})"


def test_cause_names_a_test_once() -> None:
    """Too many tests for an annotation each."""
    world = failing(11, fail=11)
    for shard in world.plan.shards:
        variant = shard.units[0].variant
        more = {"variant": variant, "message": "assert 2 == 1", "outcome": "failed"}
        world.result(shard.key, "t.py::b", **more)
    (one,) = annotations_of(world.prove(), most=1)
    assert one.message.splitlines() == ["failed: assert 0 == 1", "t.py::a", "t.py::b"]


def test_test_that_is_flaky_in_several_combinations_is_one_entry() -> None:
    world = World(plan_of_combinations(3))
    for number, shard in enumerate(world.plan.shards[:2]):
        variant = shard.units[0].variant
        message = f"assert {number} == 1"
        world.result(shard.key, "t.py::a", variant=variant, try_number=2)
        first = passed("t.py::a", variant=variant, outcome="failed", try_number=1, message=message)
        world.legs[shard.key].inner.insert(1, first)
    text = " ".join(text_of(world.prove()).split())
    assert "2 flaky tests: failed, then passed" in text
    assert (
        "- t.py::a in 2 of 3 combinations: linux, 3.0; linux, 3.1, in shards 01, 02, "
        "first failed: assert 0 == 1" in text
    )
    assert text.count("t.py::a") == 1
